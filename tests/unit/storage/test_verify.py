from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.logs.sample_log import GOLDEN_PARTITIONS, copy_sample, open_sample, write_sample
from support.logs.verification import (
    FILES,
    ReadingFiles,
    all_findings,
    edit,
    edit_header,
    errors,
    logs,
    positions,
    single,
)
from tailrace.env import Entry, File, Mode
from tailrace.record.builder import batch_of
from tailrace.storage import log_walk, names
from tailrace.storage.finding import NOTE
from tailrace.storage.log_walk import LogWalk
from tailrace.storage.verify import DirectoryCheck, Finding, verify_directory


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    return copy_sample(tmp_path / "t-0")


# Nothing to find


def test_a_closed_log_has_no_findings_and_is_counted(sample: Path) -> None:
    check = DirectoryCheck(FILES, str(sample), notes=True)
    assert list(check.run()) == []
    assert check.segments == len(logs(sample)) >= 3
    assert check.batches == sum(len(positions(log)) for log in logs(sample)) == 16
    assert check.bytes == sum(log.stat().st_size for log in logs(sample))
    assert check.end_offset == 32


@pytest.mark.parametrize("directory", GOLDEN_PARTITIONS, ids=lambda path: path.parent.name)
def test_what_kafka_wrote_has_no_findings(directory: Path) -> None:
    assert all_findings(directory) == []


def test_a_log_that_is_open_has_no_findings(tmp_path: Path) -> None:
    log = write_sample(tmp_path / "t-0")
    assert errors(tmp_path / "t-0") == []
    log.abandon()
    assert errors(tmp_path / "t-0") == []
    open_sample(tmp_path / "t-0").close()
    assert errors(tmp_path / "t-0") == []


def test_an_index_may_say_less_than_it_could(sample: Path) -> None:
    for path in (*sample.glob("*.index"), *sample.glob("*.timeindex")):
        entry_bytes = 8 if path.suffix == ".index" else 12
        path.write_bytes(path.read_bytes()[:-entry_bytes])
    assert errors(sample) == []


def test_progress_ends_with_every_byte(sample: Path) -> None:
    told: list[tuple[int, int]] = []
    list(verify_directory(FILES, str(sample), progress=lambda done, total: told.append((done, total))))
    total = sum(log.stat().st_size for log in logs(sample))
    assert told == sorted(told)
    assert told[-1] == (total, total)


# The data


def test_a_flipped_bit_fails_the_crc_and_only_that(sample: Path) -> None:
    log = logs(sample)[0]
    position = positions(log)[1]
    edit(log, position + 70, bytes([log.read_bytes()[position + 70] ^ 1]))
    found = single(errors(sample))
    assert (found.file, found.position) == (log.name, position)
    assert "CRC" in found.problem


def test_a_torn_batch_is_found_where_it_begins(sample: Path) -> None:
    log = logs(sample)[-1]
    last = positions(log)[-1]
    log.write_bytes(log.read_bytes()[:-1])
    found = [finding for finding in errors(sample) if finding.file == log.name]
    assert single(found).position == last
    assert "is not whole" in found[0].problem


def test_an_unknown_magic_ends_the_walk(sample: Path) -> None:
    log = logs(sample)[0]
    position = positions(log)[1]
    edit(log, position + 16, b"\x03")
    found = single(errors(sample))
    assert found.position == position
    assert "magic 3" in found.problem
    assert f"{log.stat().st_size - position} bytes from here on" in found.problem


@pytest.mark.parametrize(
    ("place", "fields", "words"),
    [
        (1, {"base_offset": 1}, "begins with offset 1, but the log has come to 3"),
        (-1, {"last_offset_delta": 500}, "but the next segment begins with"),
        (-1, {"last_offset_delta": 2**31 - 1, "base_offset": 2**31}, "but the next segment begins with"),
        (1, {"record_count": 4}, "states 4 records"),
        (1, {"record_count": -1}, "states -1 records"),
        (1, {"last_offset_delta": -2}, "begins with offset 3 and ends with 1"),
        (1, {"leader_epoch": 1}, "has leader epoch 1, but by leader-epoch-checkpoint it is 0"),
    ],
)
def test_headers_that_contradict_the_log(sample: Path, place: int, fields: dict[str, int], words: str) -> None:
    log = logs(sample)[0]
    position = positions(log)[place]
    edit_header(log, position, **fields)
    found = [finding for finding in errors(sample) if finding.file == log.name]
    assert words in found[0].problem
    assert found[0].position == position


def test_an_offset_too_far_from_its_segment(sample: Path) -> None:
    log = logs(sample)[-1]
    position = positions(log)[-1]
    edit_header(log, position, base_offset=2**31 + 1000)
    assert any("too far from the segment's base" in finding.problem for finding in errors(sample))


def test_a_segment_that_begins_below_its_name(sample: Path) -> None:
    log = logs(sample)[1]
    edit_header(log, 0, base_offset=2)
    assert any("the segment begins with" in finding.problem for finding in errors(sample) if finding.file == log.name)


def test_a_control_batch_that_cannot_be_read(tmp_path: Path) -> None:
    log = open_sample(tmp_path / "t-0")
    log.append_as_leader([batch_of([(1, b"k", b"v")])], 0)
    log.close()
    edit_header(tmp_path / "t-0" / names.log_name(0), 0, attributes=0x30, producer_id=5, producer_epoch=0)
    assert "control batch cannot be read" in single(errors(tmp_path / "t-0")).problem


def test_zeros_behind_the_active_segment_are_room_for_more(sample: Path) -> None:
    log = logs(sample)[-1]
    size = log.stat().st_size
    with log.open("ab") as file:
        file.truncate(size + 100)
    assert errors(sample) == []
    assert single(all_findings(sample)) == Finding(
        log.name, size, "ends with 100 zero bytes, made for later batches", NOTE
    )


def test_zeros_behind_an_inactive_segment_are_damage(sample: Path) -> None:
    log = logs(sample)[0]
    size = log.stat().st_size
    with log.open("ab") as file:
        file.truncate(size + 100)
    assert single(errors(sample)).position == size


def test_a_batch_longer_than_memory_allows_is_hashed_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_walk, "CHUNK_BYTES", 64)
    monkeypatch.setattr(log_walk, "MAX_HELD_BYTES", 128)
    log = open_sample(tmp_path / "t-0")
    log.append_as_leader([batch_of([(1, b"k", b"v" * 600)]), batch_of([(1, b"k", b"v")])], 0)
    log.close()
    path = tmp_path / "t-0" / names.log_name(0)
    check = DirectoryCheck(FILES, str(tmp_path / "t-0"))
    assert list(check.run()) == []
    assert check.batches == 2
    edit(path, 500, b"w")
    found = single(errors(tmp_path / "t-0"))
    assert found.position == 0
    assert "CRC" in found.problem


def test_bytes_that_come_during_the_walk_are_walked(tmp_path: Path) -> None:
    path = tmp_path / "growing.log"
    first, second = batch_of([(1, b"k", b"v")]), batch_of([(2, b"k", b"v")], base_offset=1)
    path.write_bytes(first + second[:20])
    file = FILES.open(str(path), Mode.READ)
    walk = iter(LogWalk(file))
    assert next(walk).batch.last_offset == 0
    path.write_bytes(first + second)
    assert next(walk).batch.last_offset == 1
    assert next(walk, None) is None
    file.close()


# The other files


def test_an_index_without_its_log(sample: Path) -> None:
    log = logs(sample)[1]
    log.unlink()
    orphans = [path.name for path in sorted(sample.glob(f"{log.stem}.*index"))]
    assert len(orphans) >= 2
    assert errors(sample) == [Finding(name, None, f"is an index without {log.name}") for name in orphans]


def test_missing_indexes_are_worth_a_note(sample: Path) -> None:
    logs(sample)[0].with_suffix(".index").unlink()
    assert errors(sample) == []
    found = single(all_findings(sample))
    assert found.severity == NOTE
    assert "is missing" in found.problem


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000000.log.deleted",
        "00000000000000000000.log.cleaned",
        "00000000000000000000.index.swap",
        "leader-epoch-checkpoint.tmp",
        "notes.txt",
    ],
)
def test_leftovers_and_strangers_are_notes(sample: Path, name: str) -> None:
    (sample / name).write_bytes(b"anything")
    assert errors(sample) == []
    found = single(all_findings(sample))
    assert (found.file, found.severity) == (name, NOTE)


def test_a_snapshot_that_fails_its_crc(sample: Path) -> None:
    snapshot = sorted(sample.glob("*.snapshot"))[-1]
    edit(snapshot, 12, b"\xff")
    found = single(errors(sample))
    assert found.file == snapshot.name
    assert found.problem.startswith("snapshot has CRC")


def test_a_snapshot_from_behind_the_log(sample: Path) -> None:
    newest = sorted(sample.glob("*.snapshot"))[-1]
    newest.rename(sample / names.snapshot_name(5000))
    assert errors(sample) == []
    found = single(all_findings(sample))
    assert (found.problem, found.severity) == ("is of an offset after the end of the log at 32", NOTE)


def test_a_leader_epoch_after_the_end_of_the_log(sample: Path) -> None:
    """Power loss took its records. The log is opened without it."""
    (sample / names.LEADER_EPOCH_CHECKPOINT).write_text("0\n3\n0 0\n1 15\n2 5000\n")
    assert errors(sample) == []
    found = single(all_findings(sample))
    assert found.problem == "epoch 2 from offset 5000 begins after the end of the log at 32"
    assert (found.file, found.severity) == (names.LEADER_EPOCH_CHECKPOINT, NOTE)


def test_a_snapshot_that_knows_the_future(sample: Path) -> None:
    newest = sorted(sample.glob("*.snapshot"))[-1]
    newest.rename(sample / names.snapshot_name(1))
    assert all("at or behind its own" in finding.problem for finding in errors(sample))
    assert errors(sample) != []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0\n1\n0 0", "ends in the middle of a line"),
        ("7\n0\n", "has version '7'"),
        ("0\n1\nzero 0\n", "not epoch and start offset"),
        ("0\n2\n1 0\n0 15\n", "does not ascend"),
        ("", "is empty, but the batches of the log have leader epochs"),
    ],
)
def test_leader_epochs_that_cannot_be(sample: Path, text: str, words: str) -> None:
    (sample / names.LEADER_EPOCH_CHECKPOINT).write_text(text)
    found = [finding for finding in errors(sample) if finding.file == names.LEADER_EPOCH_CHECKPOINT]
    assert words in single(found).problem


def test_leader_epochs_that_the_batches_do_not_have(sample: Path) -> None:
    (sample / names.LEADER_EPOCH_CHECKPOINT).write_text("0\n2\n0 0\n1 18\n")
    found = single(errors(sample))
    assert "batch at offset 15 has leader epoch 1, but by leader-epoch-checkpoint it is 0" in found.problem


def test_partition_metadata_that_cannot_be_read(sample: Path) -> None:
    (sample / names.PARTITION_METADATA).write_text("version: 0\ntopic_id: nothing")
    assert single(errors(sample)).file == names.PARTITION_METADATA


def test_a_directory_that_is_not_there_is_a_finding(tmp_path: Path) -> None:
    assert "cannot be listed" in single(errors(tmp_path / "nowhere")).problem


class FailingFiles(ReadingFiles):
    def __init__(self, failing: str, error: OSError) -> None:
        self.failing = failing
        self.error = error

    def open(self, path: str, mode: Mode) -> File:
        if path.endswith(self.failing):
            self.error.filename = path
            raise self.error
        return super().open(path, mode)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", [".log", ".index", ".snapshot", "leader-epoch-checkpoint", "partition.metadata"])
def test_a_file_that_the_disk_refuses_is_a_finding(sample: Path, name: str) -> None:
    found = list(verify_directory(FailingFiles(name, PermissionError(13, "Permission denied")), str(sample)))
    assert found
    assert all(finding.file.endswith(name) for finding in found)
    assert {finding.problem for finding in found} == {"cannot be read: Permission denied"}


@pytest.mark.parametrize("name", [".log", ".index", ".txnindex", ".snapshot"])
def test_a_file_that_went_away_meanwhile_is_no_error(sample: Path, name: str) -> None:
    files = FailingFiles(name, FileNotFoundError(2, "No such file or directory"))
    found = list(verify_directory(files, str(sample), notes=True))
    assert {finding.severity for finding in found} == {NOTE}


def test_directories_in_a_partition_are_strangers(sample: Path) -> None:
    (sample / names.log_name(999)).mkdir()
    assert Entry(names.log_name(999), True) in FILES.list(str(sample))
    assert single(all_findings(sample)).severity == NOTE


# Whatever the bytes are


mutations = st.tuples(
    st.floats(0, 1, exclude_max=True),
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 60),
    st.binary(max_size=60),
)


@settings(max_examples=examples(150))
@given(changes=st.lists(mutations, min_size=1, max_size=4), is_cut=st.booleans())
def test_any_bytes_end_in_findings(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[float, float, int, bytes]], is_cut: bool
) -> None:
    directory = copy_sample(tmp_path_factory.mktemp("any") / "t-0")
    paths = sorted(directory.iterdir())
    for which, where, length, data in changes:
        path = paths[int(which * len(paths))]
        content = bytearray(path.read_bytes())
        position = int(where * (len(content) + 1))
        content[position : position + length] = data
        path.write_bytes(content[:position] if is_cut else content)
    before = {path: path.read_bytes() for path in paths}
    for finding in all_findings(directory):
        assert finding.problem
        assert (directory / finding.file).exists() or finding.severity == NOTE
    assert {path: path.read_bytes() for path in sorted(directory.iterdir())} == before
