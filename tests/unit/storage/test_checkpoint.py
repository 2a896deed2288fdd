"""Checkpoint files: their text, what is refused, and that a crash leaves the old or the new one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from watched_files import WatchedFiles

from tailrace.env import Mode
from tailrace.env.real.files import RealFiles
from tailrace.model.errors import CorruptCheckpointError
from tailrace.model.ids import TopicPartition
from tailrace.model.invariant import InvariantError
from tailrace.sim.disk import SimDisk
from tailrace.sim.faults import SimulatedCrash, Survival
from tailrace.storage import checkpoint
from tailrace.storage.checkpoint import CheckpointFile, OffsetCheckpoint


def file_at(tmp_path: Path) -> CheckpointFile:
    return CheckpointFile(RealFiles(), str(tmp_path / "a-checkpoint"), 0)


def write_text(disk: SimDisk, path: str, data: bytes) -> None:
    disk.open(path, Mode.REPLACE).write_at((data,), 0)


def test_version_count_and_lines(tmp_path: Path) -> None:
    file = file_at(tmp_path)
    assert file.read() == []
    file.write(["a 1", "b 2"])
    assert (tmp_path / "a-checkpoint").read_bytes() == b"0\n2\na 1\nb 2\n"
    assert file.read() == ["a 1", "b 2"]
    file.write([])
    assert (tmp_path / "a-checkpoint").read_bytes() == b"0\n0\n"
    assert file.read() == []
    assert [path.name for path in tmp_path.iterdir()] == ["a-checkpoint"]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"0", "middle of a line"),
        (b"0\n", "before its number"),
        (b"0\n1\na 1", "middle of a line"),
        (b"1\n0\n", "version '1', not 0"),
        (b"zero\n0\n", "version 'zero'"),
        (b"0\n2\na 1\n", "1 entries, but says '2'"),
        (b"0\n0\na 1\n", "1 entries, but says '0'"),
        (b"0\n999999999999\n", "0 entries"),
        (b"0\n-1\n", "says '-1'"),
        (b"0\n1\n\xff\xfe\n", "not UTF-8"),
        (bytes(30), "middle of a line"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, data: bytes, problem: str) -> None:
    (tmp_path / "a-checkpoint").write_bytes(data)
    with pytest.raises(CorruptCheckpointError, match=problem):
        file_at(tmp_path).read()


def test_a_file_without_bytes_is_empty_unless_the_caller_knows_better(tmp_path: Path) -> None:
    (tmp_path / "a-checkpoint").write_bytes(b"")
    assert file_at(tmp_path).read() == []
    with pytest.raises(CorruptCheckpointError):
        file_at(tmp_path).read(empty_is_corrupt=True)


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "a-checkpoint").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(CorruptCheckpointError, match="longer than"):
        file_at(tmp_path).read()


def test_an_entry_of_two_lines_is_a_bug(tmp_path: Path) -> None:
    with pytest.raises(InvariantError):
        file_at(tmp_path).write(["a\nb"])


@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    disk = SimDisk()
    write_text(disk, "/c", data)
    for read in (CheckpointFile(disk, "/c", 0).read, OffsetCheckpoint(disk, "/c").read):
        try:
            read()
        except CorruptCheckpointError:
            continue


def test_every_proper_beginning_of_a_file_is_refused() -> None:
    disk = SimDisk()
    text = b"0\n3\norders 0 4711\norders 1 12\npayments 0 999\n"
    write_text(disk, "/c", text)
    assert len(OffsetCheckpoint(disk, "/c").read()) == 3
    for length in range(1, len(text)):
        write_text(disk, "/c", text[:length])
        with pytest.raises(CorruptCheckpointError):
            OffsetCheckpoint(disk, "/c").read()


@pytest.mark.parametrize("seed", range(20))
def test_a_crash_at_any_moment_of_a_write_leaves_the_old_or_the_new_text(seed: int) -> None:
    step = 0
    while True:
        step += 1
        disk = SimDisk(seed)
        disk.make_dir("/d")
        disk.sync_dir("/")
        file = CheckpointFile(disk, "/d/c", 0)
        file.write([f"old {n}" for n in range(300)])
        disk.crash_at(disk.ops + step)
        try:
            file.write([f"new {n}" for n in range(400)])
        except SimulatedCrash:
            disk.restart()
            assert file.read() in ([f"old {n}" for n in range(300)], [f"new {n}" for n in range(400)])
            continue
        assert step > 4
        break


def test_a_write_that_returned_survives_lost_power() -> None:
    disk = SimDisk()
    disk.make_dir("/d")
    disk.sync_dir("/")
    CheckpointFile(disk, "/d/c", 0).write(["a"])
    disk.crash()
    disk.restart(Survival.NOTHING)
    assert CheckpointFile(disk, "/d/c", 0).read() == ["a"]


def test_a_write_without_sync_syncs_nothing(tmp_path: Path) -> None:
    files = WatchedFiles(RealFiles())
    file = CheckpointFile(files, str(tmp_path / "c"), 0)
    file.write(["a"], sync=False)
    assert files.syncs == []
    file.write(["a"])
    assert files.syncs == [str(tmp_path / "c.tmp"), str(tmp_path)]


def test_offsets_of_partitions(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    offsets = {TopicPartition("orders", 0): 4711, TopicPartition("my-topic.v_1", 12): 2**63 - 1}
    file = OffsetCheckpoint(RealFiles(), str(path))
    assert file.read() == {}
    file.write(offsets)
    assert path.read_text() == "0\n2\norders 0 4711\nmy-topic.v_1 12 9223372036854775807\n"
    assert file.read() == offsets
    path.write_text("0\n1\norders \t 0   5\r\n")
    assert file.read() == {TopicPartition("orders", 0): 5}


def test_the_greatest_partition_number_and_offset_are_read_back() -> None:
    offsets = {TopicPartition("orders", 2**31 - 1): 2**63 - 1}
    disk = SimDisk()
    OffsetCheckpoint(disk, "/c").write(offsets, sync=False)
    assert OffsetCheckpoint(disk, "/c").read() == offsets


@pytest.mark.parametrize(
    "line",
    ["", "orders 0", "orders 0 1 2", "or/ders 0 1", "orders -1 1", "orders 2147483648 1", "orders x 1",
     "orders 0 9223372036854775808", "orders 0 1_0", "orders 0 ١", "orders 0 -1"],
)  # fmt: skip
def test_a_line_that_is_no_offset_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "c").write_text(f"0\n1\n{line}\n")
    with pytest.raises(CorruptCheckpointError, match="has the line"):
        OffsetCheckpoint(RealFiles(), str(tmp_path / "c")).read()


def test_a_number_has_a_limit() -> None:
    assert checkpoint.parse_number("10", 10) == 10
    assert checkpoint.parse_number("11", 10) is None
    assert checkpoint.parse_number("9" * 5000, 10) is None
