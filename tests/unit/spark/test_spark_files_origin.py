"""What a log directory holds, for the driver."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from support.logs.builders import TOPIC_ID, in_transaction, marker, real_log
from support.spark.directory_source import (
    PARTITION,
    START_MS,
    bases_of,
    expected_rows,
    note,
    options_for,
    read_rows,
    segment_file,
    whole_piece,
    write_log,
)
from tailrace.client.offsets import READ_COMMITTED
from tailrace.env import Mode
from tailrace.model.ids import TopicPartition
from tailrace.spark.errors import PipelineError
from tailrace.spark.options.subscription import Assigned, Topics
from tailrace.spark.source.files.folders import LogFolders
from tailrace.spark.source.files.origin import DirectoryOrigin
from tailrace.spark.source.files.read_only import ReadOnlyFiles
from tailrace.storage.origin import Origin

HIGH_WATERMARKS = "replication-offset-checkpoint"


def _bounds(path: Path | str, **more: Any) -> tuple[int, int]:
    return DirectoryOrigin(options_for(path, "t", **more)).bounds([PARTITION])[PARTITION]


def _names(path: Path | str) -> list[str]:
    return sorted(map(str, LogFolders(ReadOnlyFiles(), str(path), pause=lambda _: None).all()))


# Which partitions


def test_a_log_directory_holds_its_partitions_and_nothing_else(tmp_path: Path) -> None:
    for name in (
        "t-0",
        "t-1",
        "with-dash-3",
        "t-2.0123456789abcdef0123456789abcdef-delete",
        "t-3.0123456789abcdef0123456789abcdef-stray",
        "t-4.0123456789abcdef0123456789abcdef-future",
        "__cluster_metadata-0",
        "remote-log-index-cache",
        "lost+found",
    ):
        (tmp_path / name).mkdir()
    assert _names(tmp_path) == ["t-0", "t-1", "with-dash-3"]


def test_several_directories_are_one(tmp_path: Path) -> None:
    write_log(tmp_path / "a" / "t-0", [3])
    write_log(tmp_path / "b" / "t-1", [5])
    options = options_for(f"{tmp_path}/a, {tmp_path}/b", "t")
    origin = DirectoryOrigin(options)
    found = origin.partitions(options.subscription)
    assert list(found) == [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert set(found.values()) == {str(TOPIC_ID)}
    assert list(origin.bounds(found).values()) == [(0, 3), (0, 5)]


def test_the_same_directory_twice_is_one(tmp_path: Path) -> None:
    write_log(tmp_path / "a" / "t-0", [3])
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert _names(f"{tmp_path}/a,{tmp_path}/link,{tmp_path}/a/") == ["t-0"]


def test_a_partition_in_two_directories_is_refused(tmp_path: Path) -> None:
    write_log(tmp_path / "a" / "t-0", [3])
    write_log(tmp_path / "b" / "t-0", [3])
    with pytest.raises(PipelineError, match=r"t-0 is in two directories: .*/a/t-0 and .*/b/t-0"):
        _names(f"{tmp_path}/a,{tmp_path}/b")


def test_a_partition_on_its_way_from_one_disk_to_another_is_waited_for(tmp_path: Path) -> None:
    write_log(tmp_path / "a" / "t-0", [3])
    write_log(tmp_path / "b" / "t-0", [3])

    def finish_move(_: float) -> None:
        (tmp_path / "a" / "t-0").rename(tmp_path / "a" / "t-0.0123456789abcdef0123456789abcdef-delete")

    found = LogFolders(ReadOnlyFiles(), f"{tmp_path}/a,{tmp_path}/b", pause=finish_move).all()
    assert found[PARTITION].path == f"{tmp_path}/b/t-0"


def test_a_folder_may_be_named_itself_whatever_it_is(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0.0123456789abcdef0123456789abcdef-stray", [2, 2])
    options = options_for(folder, "t")
    assert read_rows(options, whole_piece(options, PARTITION)) == expected_rows(folder, 0, 4)


def test_a_log_directory_may_be_called_like_a_partition(tmp_path: Path) -> None:
    write_log(tmp_path / "kafka-logs-1" / "t-0", [2])
    assert _names(tmp_path / "kafka-logs-1") == ["t-0"]


def test_a_comma_may_be_part_of_a_name(tmp_path: Path) -> None:
    write_log(tmp_path / "a,b" / "t-0", [2])
    assert _names(tmp_path / "a,b") == ["t-0"]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("nowhere", "'.*nowhere' cannot be read here: No such file or directory; driver and executors all need it"),
        ("empty", "'.*empty' is no log directory: it has neither meta.properties nor folders topic-partition"),
        ("file", "'.*file' cannot be read here: Not a directory"),
        ("bad", "'.*bad' holds segments, but its name does not tell of what"),
        ("empty,,empty", "has an empty part between commas"),
    ],
)
def test_a_path_that_is_no_log_directory_is_refused(path: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "bad").mkdir()
    segment_file(tmp_path / "bad", 0).write_text("")
    with pytest.raises(PipelineError, match=says):
        DirectoryOrigin(options_for(tmp_path / path, "t"))


def test_topics_and_partitions_that_are_not_there_are_named(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", [3])
    origin = DirectoryOrigin(options_for(tmp_path, "t"))
    with pytest.raises(PipelineError, match="does not hold x, y"):
        origin.partitions(Topics(("y", "t", "x")))
    with pytest.raises(PipelineError, match="does not hold t-7, x-1"):
        origin.partitions(Assigned({"t": (0, 7), "x": (1,)}))
    assert list(origin.partitions(Assigned({"t": (0,)}))) == [PARTITION]


def test_partitions_that_other_brokers_hold_are_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_log(tmp_path / "t-0", [3])
    write_log(tmp_path / "t-3", [3])
    origin = DirectoryOrigin(options_for(tmp_path, "t"))
    with caplog.at_level(logging.WARNING, "tailrace.spark"):
        assert len(origin.partitions(Topics(("t",)))) == len(origin.partitions(Topics(("t",)))) == 2
    assert [record.getMessage() for record in caplog.records] == [
        f"path '{tmp_path}' holds topic t without 2 of its partitions"
    ]


# Where they begin and end


def test_a_partition_ends_at_the_high_watermark_that_is_noted(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", [5] * 40)
    note(tmp_path, HIGH_WATERMARKS, {PARTITION: 120})
    assert _bounds(tmp_path) == (0, 120)
    note(tmp_path, HIGH_WATERMARKS, {PARTITION: 200})
    assert _bounds(tmp_path) == (0, 200)


def test_a_partition_that_no_high_watermark_is_noted_of_is_empty_yet(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", [5] * 4)
    note(tmp_path, HIGH_WATERMARKS, {})
    assert _bounds(tmp_path) == (0, 0)


def test_without_high_watermarks_a_log_ends_with_its_last_good_batch(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", [5] * 40)
    assert _bounds(tmp_path) == (0, 200)
    last = segment_file(folder, bases_of(folder)[-1])
    data = bytearray(last.read_bytes())
    last.write_bytes(data[:-3])
    assert _bounds(tmp_path) == (0, 195)
    data[-3] ^= 1
    last.write_bytes(data)
    assert _bounds(tmp_path) == (0, 195)
    last.write_bytes(data + bytes(5000))
    assert _bounds(tmp_path) == (0, 195)


@pytest.mark.parametrize("damage", ["zeros", "noise", "gone", "long"])
def test_the_end_is_found_without_a_good_index(damage: str, tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", [5] * 40)
    index = segment_file(folder, bases_of(folder)[-1], ".index")
    if damage == "gone":
        index.unlink()
    else:
        index.write_bytes(
            {"zeros": bytes(1024), "noise": b"\x07" * 1000, "long": index.read_bytes() + bytes(900)}[damage]
        )
    assert _bounds(tmp_path) == (0, 200)


def test_a_high_watermark_above_what_was_copied_is_not_believed(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", [5] * 40)
    note(tmp_path, HIGH_WATERMARKS, {PARTITION: 200})
    last = segment_file(folder, bases_of(folder)[-1])
    last.write_bytes(last.read_bytes()[:-1])
    assert _bounds(tmp_path) == (0, 195)


def test_a_partition_starts_at_the_log_start_that_is_noted(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", [5] * 40)
    note(tmp_path, "log-start-offset-checkpoint", {PARTITION: 17})
    assert _bounds(tmp_path) == (17, 200)
    first, second, *_ = bases_of(folder)
    segment_file(folder, first).unlink()
    assert _bounds(tmp_path) == (second, 200)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n7\n")
    assert _bounds(tmp_path) == (second, 200)


def test_an_empty_folder_has_no_offsets(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    assert _bounds(tmp_path) == (0, 0)


def test_a_stream_of_committed_records_reads_each_header_once(tmp_path: Path) -> None:
    log = real_log(tmp_path / "t-0")
    origin = DirectoryOrigin(options_for(tmp_path, "t", isolation=READ_COMMITTED))
    note(tmp_path, HIGH_WATERMARKS, {PARTITION: 0})
    end, read = 0, []
    for turn in range(12):
        for n in range(50):
            log.append_as_leader([in_transaction(1, 50 * turn + n, value_bytes=2000)], 0)
        open_from = log.log_end_offset - 50
        note(tmp_path, HIGH_WATERMARKS, {PARTITION: log.log_end_offset})
        before = origin.bytes_read
        assert origin.bounds([PARTITION])[PARTITION] == (0, open_from)
        read.append(origin.bytes_read - before)
        log.append_as_leader([marker(1, commit=turn % 2 == 0)], 0, Origin.COORDINATOR)
        end = log.log_end_offset
        note(tmp_path, HIGH_WATERMARKS, {PARTITION: end})
        assert origin.bounds([PARTITION])[PARTITION] == (0, end)
    log.close()
    assert max(read) < 4 * read[0]  # the newest entries of the index are in its owner's memory


# Times


def test_times_outside_the_bounds_have_no_offset(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", [5] * 40)
    note(tmp_path, HIGH_WATERMARKS, {PARTITION: 100})
    note(tmp_path, "log-start-offset-checkpoint", {PARTITION: 50})
    origin = DirectoryOrigin(options_for(tmp_path, "t"))
    asked = {START_MS: 50, START_MS + 77: 77, START_MS + 99: 99, START_MS + 100: None, START_MS + 900: None}
    assert {time: origin.at_times({PARTITION: time})[PARTITION] for time in asked} == asked


# Nothing is ever written


def test_every_way_to_change_a_file_is_shut(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    path = str(tmp_path / "f")
    files = ReadOnlyFiles()
    file = files.open(path, Mode.READ)
    ways: list[Any] = [
        lambda: files.open(path, Mode.WRITE),
        lambda: files.open(path + "x", Mode.CREATE),
        lambda: files.open(path, Mode.REPLACE),
        lambda: files.rename(path, path + "x"),
        lambda: files.unlink(path),
        lambda: files.make_dir(path + "x"),
        lambda: files.remove_dir(str(tmp_path)),
        lambda: files.sync_dir(str(tmp_path)),
        lambda: files.lock(path),
        lambda: files.set_modified_ms(path, 0),
        lambda: file.write_at([b"x"], 0),
        lambda: file.truncate(0),
        lambda: file.sync(),
        lambda: file.map(),
    ]
    for way in ways:
        with pytest.raises(OSError, match="a source only reads"):
            way()
    assert file.read_at(9, 1) == b"bc"
    assert files.bytes_read == 2
    file.close()
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_groups_are_not_for_files(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", [1])
    with pytest.raises(PipelineError, match=r"commitGroup goes with kafka.bootstrap.servers"):
        DirectoryOrigin(options_for(tmp_path, "t")).commit("g", {PARTITION: 1})
