"""The time index: its bytes, its rules of order, the slot it keeps, its search."""

from __future__ import annotations

import bisect
import random
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from watched_files import WatchedFiles

from suite.seeds import examples
from tailrace.env import Mode
from tailrace.env.real.files import RealFiles
from tailrace.model.errors import CorruptIndexError, IndexAppendError, SegmentGoneError, SegmentOffsetOverflowError
from tailrace.model.offsets import TimestampOffset
from tailrace.sim.disk import SimDisk
from tailrace.storage.time_index import TimeIndex
from tailrace.storage.warm import WarmSet

BASE = 345
TEN_MEBIBYTES = 10 << 20


def index_at(tmp_path: Path, *, max_bytes: int = 1200, files: WatchedFiles | None = None) -> TimeIndex:
    path = str(tmp_path / "00000000000000000345.timeindex")
    return TimeIndex(files or WatchedFiles(RealFiles()), path, BASE, max_bytes, WarmSet(4))


def filled(index: TimeIndex, count: int) -> TimeIndex:
    """Entries (10, base + 1), (20, base + 2), …"""
    for n in range(1, count + 1):
        index.maybe_append(10 * n, BASE + n)
    return index


@pytest.mark.spec("LS-04")
def test_an_entry_is_a_timestamp_and_a_relative_offset(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    index.maybe_append(1_700_000_000_000, BASE + 5)
    index.maybe_append(2**63 - 1, BASE + 2**31 - 1)
    index.close()
    assert Path(index.path).read_bytes() == bytes.fromhex("0000018bcfe56800 00000005 7fffffffffffffff 7fffffff")


@pytest.mark.spec("LS-04")
def test_lookup_finds_the_greatest_timestamp_at_or_below_the_target(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    assert index.lookup(100) == TimestampOffset(-1, BASE)
    assert index.last_entry == TimestampOffset(-1, BASE)
    filled(index, 3)
    index.sync()
    assert index.lookup(-1) == TimestampOffset(-1, BASE)
    assert index.lookup(9) == TimestampOffset(-1, BASE)
    assert index.lookup(10) == TimestampOffset(10, BASE + 1)
    assert index.lookup(19) == TimestampOffset(10, BASE + 1)
    assert index.lookup(29) == TimestampOffset(20, BASE + 2)
    assert index.lookup(30) == TimestampOffset(30, BASE + 3)
    assert index.lookup(2**62) == TimestampOffset(30, BASE + 3)


@pytest.mark.spec("LS-04")
def test_neither_timestamp_nor_offset_may_go_back(tmp_path: Path) -> None:
    index = filled(index_at(tmp_path), 3)
    with pytest.raises(IndexAppendError, match=f"offset {BASE + 2} is lower than the last one, {BASE + 3}"):
        index.maybe_append(40, BASE + 2)
    with pytest.raises(IndexAppendError, match="timestamp 29 is lower than the last one, 30"):
        index.maybe_append(29, BASE + 4)
    assert (index.entries, index.last_entry, index.last_offset) == (3, TimestampOffset(30, BASE + 3), BASE + 3)


@pytest.mark.spec("LS-04")
def test_an_entry_is_only_added_for_a_greater_timestamp(tmp_path: Path) -> None:
    index = filled(index_at(tmp_path), 3)
    index.maybe_append(30, BASE + 3)
    index.maybe_append(30, BASE + 99)
    assert index.entries == 3
    index.maybe_append(31, BASE + 3)
    assert index.last_entry == TimestampOffset(31, BASE + 3)


def test_records_without_timestamps_leave_it_empty(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    index.maybe_append(-1, BASE + 7)
    index.maybe_append(-1, BASE + 3)
    assert index.entries == 0


@pytest.mark.spec("LS-04")
def test_the_last_slot_is_kept_for_the_largest_timestamp(tmp_path: Path) -> None:
    index = index_at(tmp_path, max_bytes=48)
    assert index.max_entries == 4
    filled(index, 2)
    assert not index.is_full
    index.maybe_append(30, BASE + 3)
    assert index.is_full
    with pytest.raises(IndexAppendError, match="full with 3 entries"):
        index.maybe_append(40, BASE + 4)
    index.maybe_append(40, BASE + 4, skip_full_check=True)
    index.trim()
    assert Path(index.path).stat().st_size == 48
    assert index.lookup(45) == TimestampOffset(40, BASE + 4)
    index.maybe_append(40, BASE + 4, skip_full_check=True)
    assert index.entries == 4


def test_the_last_entry_finds_room_even_in_an_index_without_any(tmp_path: Path) -> None:
    for max_bytes in (11, 12, 24):
        index = filled(index_at(tmp_path, max_bytes=max_bytes), max_bytes // 12 - 1)
        index.sync()
        assert index.is_full
        index.maybe_append(90, BASE + 90, skip_full_check=True)
        assert index.lookup(5) == TimestampOffset(-1, BASE)  # maps what is in the file, where anything is
        index.maybe_append(95, BASE + 95, skip_full_check=True)
        index.sync()
        assert index.lookup(91) == TimestampOffset(90, BASE + 90)
        index.trim()
        assert index.lookup(91) == TimestampOffset(90, BASE + 90)
        assert index.entry(index.entries - 1) == TimestampOffset(95, BASE + 95)
        index.delete()


@pytest.mark.spec("LS-09")
def test_an_offset_too_far_from_the_base_is_refused(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    for offset in (BASE + 2**31, BASE - 1):
        with pytest.raises(SegmentOffsetOverflowError, match=str(offset)):
            index.maybe_append(10, offset)
    with pytest.raises(IndexAppendError, match="int64"):
        index.maybe_append(2**63, BASE)
    assert index.entries == 0


@pytest.mark.spec("LS-06")
def test_ten_mebibytes_are_rounded_down_to_whole_entries(tmp_path: Path) -> None:
    files = WatchedFiles(RealFiles())
    index = index_at(tmp_path, max_bytes=TEN_MEBIBYTES, files=files)
    assert files.opens == []
    index.maybe_append(10, BASE)
    assert Path(index.path).stat().st_size == 10485756
    assert index.max_entries == 873813
    assert files.maps == 0
    index.trim()
    assert Path(index.path).stat().st_size == 12


@pytest.mark.spec("LS-08")
def test_a_lookup_near_the_end_reads_nothing_below_the_warm_section(tmp_path: Path) -> None:
    count, warm = 3000, 682
    files = WatchedFiles(RealFiles())
    index = filled(index_at(tmp_path, max_bytes=TEN_MEBIBYTES, files=files), count)
    index.sync()
    first_warm = count - warm
    for n in (*range(first_warm, count, 29), first_warm, count - 1):
        files.reads.clear()
        assert index.lookup(10 * (n + 1) + 5) == TimestampOffset(10 * (n + 1), BASE + n + 1)
        assert all(start >= first_warm * 12 for start, _ in files.reads)
    files.reads.clear()
    assert index.lookup(10 * first_warm) == TimestampOffset(10 * first_warm, BASE + first_warm)
    assert min(files.reads)[0] < first_warm * 12


@settings(max_examples=examples(60))
@given(
    st.integers(0, 2000),
    st.lists(st.integers(-5, 60_000), min_size=10, max_size=40),
    st.integers(0, 2100),
    st.integers(0, 2**32),
)
def test_lookups_and_truncation_agree_with_a_sorted_list(count: int, targets: list[int], cut: int, seed: int) -> None:
    gaps = random.Random(seed).choices(range(1, 50), k=count)
    index = TimeIndex(SimDisk(), "/t", BASE, TEN_MEBIBYTES, WarmSet(1), entries=0)
    timestamps: list[int] = []
    for n, gap in enumerate(gaps):
        timestamps.append((timestamps[-1] if timestamps else 0) + gap)
        index.maybe_append(timestamps[-1], BASE + n)
    index.truncate_to(BASE + cut)
    timestamps = timestamps[:cut]
    assert index.entries == len(timestamps)
    for target in targets:
        at = bisect.bisect_right(timestamps, target)
        assert index.lookup(target) == ((timestamps[at - 1], BASE + at - 1) if at else (-1, BASE))


def test_truncation_drops_every_entry_of_the_offset(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    for timestamp, offset in ((10, 1), (20, 2), (30, 2), (40, 2), (50, 3)):
        index.maybe_append(timestamp, BASE + offset)
    index.truncate_to(BASE + 2)
    assert (index.entries, index.last_entry) == (1, TimestampOffset(10, BASE + 1))
    index.maybe_append(15, BASE + 2)
    assert index.lookup(100) == TimestampOffset(15, BASE + 2)
    index.truncate_to(BASE)
    assert index.last_entry == TimestampOffset(-1, BASE)


def test_reset_and_resize(tmp_path: Path) -> None:
    index = filled(index_at(tmp_path), 50)
    index.resize(31 * 12 + 5)
    assert (index.entries, index.max_entries, index.last_entry) == (31, 31, TimestampOffset(310, BASE + 31))
    assert Path(index.path).stat().st_size == 31 * 12
    index.resize(0)
    assert (index.entries, index.last_entry) == (0, TimestampOffset(-1, BASE))
    index.reset()
    assert (Path(index.path).read_bytes(), index.max_entries) == (bytes(1200), 100)
    filled(index, 3)
    index.close()
    assert index_at(tmp_path).last_entry == TimestampOffset(30, BASE + 3)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (bytes(13), "13 bytes"),
        (struct.pack(">qi", 10, -1), "below its base"),
        (struct.pack(">qiqi", 10, 1, 9, 2), "does not ascend"),
        (struct.pack(">qiqi", 10, 1, 10, 2), "does not ascend"),
        (struct.pack(">qiqi", 10, 2, 20, 1), "does not ascend"),
        (struct.pack(">qi", 10, 1) + bytes(1188), "does not ascend"),
        (bytes(1200), "does not ascend"),
    ],
)
def test_a_damaged_file_is_found_out(tmp_path: Path, data: bytes, problem: str) -> None:
    Path(index_at(tmp_path).path).write_bytes(data)
    with pytest.raises(CorruptIndexError, match=problem):
        index_at(tmp_path).sanity_check()


def test_a_sound_file_is_sane(tmp_path: Path) -> None:
    index_at(tmp_path).sanity_check()
    index = filled(index_at(tmp_path), 3)
    index.sanity_check()
    index.close()
    index_at(tmp_path).sanity_check()


def test_a_file_cut_by_someone_else_is_found_out_not_read_beyond() -> None:
    disk = SimDisk()
    filled(TimeIndex(disk, "/t", BASE, 1200, WarmSet(1), entries=0), 5).close()
    for size, problem in ((24, "shorter than the 5 entries"), (0, "is empty, but had entries")):
        index = TimeIndex(disk, "/t", BASE, 1200, WarmSet(1), entries=5)
        disk.open("/t", Mode.WRITE).truncate(size)
        with pytest.raises(CorruptIndexError, match=problem):
            index.lookup(15)


@pytest.mark.spec("LS-47")
def test_close_unmaps_at_once_and_lookups_say_that_it_is_gone(tmp_path: Path) -> None:
    files = WatchedFiles(RealFiles())
    index = filled(index_at(tmp_path, files=files), 90)
    assert index.lookup(15) == TimestampOffset(10, BASE + 1)
    assert len(files.open_mappings) == 1
    index.close()
    assert files.open_mappings == set()
    for use in (lambda: index.lookup(15), lambda: index.lookup(2**40), lambda: index.maybe_append(2**40, BASE + 999)):
        with pytest.raises(SegmentGoneError):
            use()
