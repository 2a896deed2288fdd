from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from support.logs.data_dirs import DataDirectory
from support.logs.sample_log import GOLDEN_PARTITIONS
from tailrace.cli import log_end
from tailrace.cli.log_end import LogEnd, find_log_end
from tailrace.config.log import LogConfig
from tailrace.env import Files, Mode
from tailrace.env.real import RealFiles
from tailrace.storage.verify import DirectoryCheck


@pytest.fixture
def files() -> Files:
    return RealFiles()


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return DataDirectory(tmp_path / "data").add("orders-0", 100)


def last_base(path: Path) -> int:
    return max(int(log.stem) for log in path.glob("*.log"))


def end_of(path: Path) -> LogEnd:
    return find_log_end(RealFiles(), str(path), last_base(path))


def last(path: Path, suffix: str) -> Path:
    return path / f"{last_base(path):020d}.{suffix}"


@pytest.mark.parametrize("path", GOLDEN_PARTITIONS, ids=lambda path: path.name)
def test_it_is_where_reading_everything_ends(files: Files, path: Path) -> None:
    check = DirectoryCheck(files, str(path))
    assert list(check.run()) == []
    assert end_of(path) == LogEnd(max(check.end_offset, last_base(path)))


def test_a_few_kilobytes_are_read_of_a_large_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = LogConfig(segment_bytes=1 << 20, segment_index_bytes=8000, index_interval_bytes=500)
    path = DataDirectory(tmp_path / "data").add("orders-0", 500, config=config)
    read: list[int] = []
    walk = log_end.walked_end

    def watched(file: object, size: int, position: int, *others: object) -> LogEnd | None:
        read.append(size - position)
        return walk(file, size, position, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(log_end, "walked_end", watched)
    assert end_of(path) == LogEnd(500)
    assert len(read) == 1
    assert 0 < read[0] < 1000


def test_an_empty_segment_ends_where_it_begins(partition: Path) -> None:
    for path in partition.glob(f"{last_base(partition):020d}.*"):
        path.write_bytes(b"")
    assert end_of(partition) == LogEnd(last_base(partition))


@pytest.mark.parametrize("index", ["missing", "garbage", "beyond", "behind", "negative", "between", "directory"])
def test_an_index_that_does_not_help_costs_a_walk(partition: Path, index: str) -> None:
    path = last(partition, "index")
    path.unlink()
    if index == "garbage":
        path.write_bytes(os.urandom(75))
    elif index == "directory":
        path.mkdir()
    elif index != "missing":
        fields = {"beyond": (3, 2**31 - 1), "behind": (2**31 - 1, 130), "negative": (-5, -3), "between": (2, 131)}
        path.write_bytes(struct.pack(">ii", *fields[index]))
    assert end_of(partition) == LogEnd(100)


def test_zeros_behind_the_entries_of_an_index_in_use(partition: Path) -> None:
    path = last(partition, "index")
    assert path.stat().st_size > 0
    with path.open("r+b") as file:
        file.truncate(10 << 20)
    base = last_base(partition)
    entry = log_end.last_entry(RealFiles(), str(partition), base)
    assert entry is not None
    assert base < entry.offset < 100
    assert end_of(partition) == LogEnd(100)


def test_an_index_of_nothing_but_zeros(partition: Path) -> None:
    last(partition, "index").write_bytes(bytes(8000))
    assert log_end.last_entry(RealFiles(), str(partition), last_base(partition)) is None
    assert end_of(partition) == LogEnd(100)


@pytest.mark.parametrize("cut", [1, 60, 100])
def test_a_batch_that_is_being_written_is_not_counted(partition: Path, cut: int) -> None:
    log = last(partition, "log")
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - cut)
    assert end_of(partition) == LogEnd(99)


def test_room_that_was_made_in_advance_is_no_damage(partition: Path) -> None:
    with last(partition, "log").open("ab") as file:
        file.write(bytes(100_000))
    assert end_of(partition) == LogEnd(100)


def test_damage_is_told(partition: Path) -> None:
    log = last(partition, "log")
    size = log.stat().st_size
    with log.open("ab") as file:
        file.write(b"\xff" * 100)
    assert end_of(partition) == LogEnd(100, f"no batch stands at position {size}")


def test_a_missing_segment_is_an_error(files: Files, partition: Path) -> None:
    with pytest.raises(FileNotFoundError):
        find_log_end(files, str(partition), 12345)


def test_a_file_that_is_cut_while_it_is_read(partition: Path) -> None:
    file = RealFiles().open(str(last(partition, "log")), Mode.READ)
    try:
        assert log_end.walked_end(file, file.size() + 5000, file.size() - 10, 70) == LogEnd(70)
    finally:
        file.close()
