"""The offset index: its bytes, its search, what it refuses, and the life of its file and mapping."""

from __future__ import annotations

import bisect
import errno
import os
import random
import struct
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from watched_files import WatchedFiles

from suite.seeds import examples
from tailrace.env import Mode
from tailrace.env.real.files import RealFiles
from tailrace.model.errors import (
    CorruptIndexError,
    IndexAppendError,
    SegmentGoneError,
    SegmentOffsetOverflowError,
)
from tailrace.model.invariant import InvariantError
from tailrace.model.offsets import OffsetPosition
from tailrace.sim.disk import SimDisk
from tailrace.sim.faults import Survival
from tailrace.storage.index import PENDING_ENTRIES
from tailrace.storage.offset_index import OffsetIndex
from tailrace.storage.warm import WarmSet

BASE = 50
TEN_MEBIBYTES = 10 << 20


def index_at(tmp_path: Path, *, max_bytes: int = 4096, files: WatchedFiles | None = None, **more: int) -> OffsetIndex:
    path = str(tmp_path / "00000000000000000050.index")
    return OffsetIndex(files or WatchedFiles(RealFiles()), path, BASE, max_bytes, WarmSet(4), **more)


def filled(index: OffsetIndex, count: int) -> OffsetIndex:
    """Entries (base + 10, 100), (base + 20, 200), …"""
    for n in range(1, count + 1):
        index.append(BASE + 10 * n, 100 * n)
    return index


def write_raw(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "00000000000000000050.index").write_bytes(data)


@pytest.mark.spec("LS-03")
def test_an_entry_is_a_relative_offset_and_a_position(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    index.append(55, 4096)
    index.append(BASE + 2**31 - 1, 2**31 - 1)
    index.close()
    assert Path(index.path).read_bytes() == bytes.fromhex("00000005 00001000 7fffffff 7fffffff")


@pytest.mark.spec("LS-03")
def test_lookup_finds_the_greatest_entry_at_or_below_the_target(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    assert index.lookup(BASE + 99) == OffsetPosition(BASE, 0)
    filled(index, 3)
    index.sync()
    assert index.lookup(0) == OffsetPosition(BASE, 0)
    assert index.lookup(BASE + 9) == OffsetPosition(BASE, 0)
    assert index.lookup(BASE + 10) == OffsetPosition(BASE + 10, 100)
    assert index.lookup(BASE + 19) == OffsetPosition(BASE + 10, 100)
    assert index.lookup(BASE + 20) == OffsetPosition(BASE + 20, 200)
    assert index.lookup(2**62) == OffsetPosition(BASE + 30, 300)


@pytest.mark.spec("LS-03")
def test_an_offset_that_does_not_increase_is_refused(tmp_path: Path) -> None:
    index = filled(index_at(tmp_path), 2)
    for offset in (BASE + 20, BASE + 19, BASE):
        with pytest.raises(IndexAppendError, match=f"offset {offset} is not greater than the last one, {BASE + 20}"):
            index.append(offset, 1)
    assert (index.entries, index.last_offset, index.last_position) == (2, BASE + 20, 200)


def test_the_first_entry_may_be_the_base_itself(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    index.append(BASE, 7)
    assert index.lookup(BASE) == OffsetPosition(BASE, 7)
    with pytest.raises(IndexAppendError):
        index.append(BASE, 8)


@pytest.mark.spec("LS-03")
def test_a_full_index_refuses_more(tmp_path: Path) -> None:
    index = index_at(tmp_path, max_bytes=31)
    assert index.max_entries == 3
    filled(index, 2)
    assert not index.is_full
    index.append(BASE + 30, 300)
    assert index.is_full
    with pytest.raises(IndexAppendError, match="full with 3 entries"):
        index.append(BASE + 40, 400)
    index.close()
    assert Path(index.path).stat().st_size == 24


@pytest.mark.spec("LS-09")
def test_an_offset_too_far_from_the_base_is_refused(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    for offset in (BASE + 2**31, BASE - 1, -1, 2**63 - 1):
        with pytest.raises(SegmentOffsetOverflowError, match=str(offset)):
            index.append(offset, 0)
    assert index.entries == 0
    index.append(BASE + 2**31 - 1, 0)
    assert index.last_offset == BASE + 2**31 - 1


@pytest.mark.parametrize("position", [2**31, -(2**31) - 1])
def test_a_position_that_is_no_int32_is_refused(tmp_path: Path, position: int) -> None:
    index = index_at(tmp_path)
    with pytest.raises(IndexAppendError, match="int32"):
        index.append(BASE, position)
    assert index.entries == 0


@pytest.mark.spec("LS-06")
def test_the_constructor_touches_nothing_and_the_first_lookup_maps(tmp_path: Path) -> None:
    write_raw(tmp_path, struct.pack(">iiii", 10, 100, 20, 200))
    files = WatchedFiles(RealFiles())
    index = index_at(tmp_path, files=files)
    assert (files.opens, files.maps) == ([], 0)
    assert index.entries == 2
    assert (files.opens, files.maps) == ([], 0)
    assert index.lookup(BASE + 15) == OffsetPosition(BASE + 10, 100)
    assert files.maps == 1
    assert index.lookup(BASE + 19) == OffsetPosition(BASE + 10, 100)
    assert files.maps == 1
    assert {mode for _, mode in files.opens} == {Mode.READ}


@pytest.mark.spec("LS-06")
def test_it_is_preallocated_without_taking_space_and_trimmed_when_inactive(tmp_path: Path) -> None:
    index = index_at(tmp_path, max_bytes=TEN_MEBIBYTES)
    index.append(BASE + 10, 100)
    status = Path(index.path).stat()
    assert status.st_size == TEN_MEBIBYTES
    assert status.st_blocks * 512 < 65536
    index.trim()
    assert Path(index.path).read_bytes() == struct.pack(">ii", 10, 100)
    assert index.lookup(BASE + 10) == OffsetPosition(BASE + 10, 100)


@pytest.mark.spec("LS-06")
def test_preallocation_rounds_down_to_whole_entries(tmp_path: Path) -> None:
    index = index_at(tmp_path, max_bytes=67)
    index.preallocate()
    assert Path(index.path).stat().st_size == 64
    assert (index.entries, index.max_entries, index.size_bytes) == (0, 8, 0)


def test_a_trimmed_index_that_gets_another_entry_is_long_again(tmp_path: Path) -> None:
    filled(index_at(tmp_path), 3).close()
    index = index_at(tmp_path)
    assert not index.is_full
    index.append(BASE + 40, 400)
    assert Path(index.path).stat().st_size == 4096
    assert [index.entry(n) for n in range(4)] == [(BASE + 10 * n, 100 * n) for n in range(1, 5)]
    index.close()
    assert Path(index.path).stat().st_size == 32


def test_a_new_index_has_a_file_once_it_was_trimmed(tmp_path: Path) -> None:
    index = index_at(tmp_path, entries=0)
    index.trim()
    assert Path(index.path).read_bytes() == b""


@pytest.mark.spec("LS-08")
def test_a_lookup_near_the_end_reads_nothing_below_the_warm_section(tmp_path: Path) -> None:
    count, warm = 5000, 1024
    files = WatchedFiles(RealFiles())
    index = filled(index_at(tmp_path, max_bytes=TEN_MEBIBYTES, files=files), count)
    index.sync()
    first_warm = count - warm
    for n in (*range(first_warm, count, 37), first_warm, count - 1):
        for offset in (BASE + 10 * (n + 1), BASE + 10 * (n + 1) + 9):
            files.reads.clear()
            assert index.lookup(offset) == OffsetPosition(BASE + 10 * (n + 1), 100 * (n + 1))
            assert all(start >= first_warm * 8 for start, _ in files.reads)
    files.reads.clear()
    assert index.lookup(BASE + 10 * first_warm) == OffsetPosition(BASE + 10 * first_warm, 100 * first_warm)
    assert min(files.reads)[0] < first_warm * 8


@pytest.mark.spec("LS-08")
def test_a_lookup_below_the_warm_section_reads_a_few_single_entries(tmp_path: Path) -> None:
    count = 5000
    files = WatchedFiles(RealFiles())
    index = filled(index_at(tmp_path, max_bytes=TEN_MEBIBYTES, files=files), count)
    index.trim()
    for n in (0, 1, 2, 1999, 2000, 3974, 3975):
        files.reads.clear()
        assert index.lookup(BASE + 10 * (n + 1) + 5) == OffsetPosition(BASE + 10 * (n + 1), 100 * (n + 1))
        cold = [end - start for start, end in files.reads if start < (count - 1024) * 8]
        assert set(cold) == {8}
        assert len(cold) <= 12
    assert index.lookup(BASE + 9) == OffsetPosition(BASE, 0)


@settings(max_examples=examples(60))
@given(
    st.integers(0, 3000),
    st.integers(0, 200),
    st.lists(st.integers(-5, 80_000), min_size=10, max_size=40),
    st.integers(0, 2**32),
)
def test_every_lookup_agrees_with_a_sorted_list(count: int, written: int, targets: list[int], seed: int) -> None:
    disk = SimDisk()
    gaps = random.Random(seed).choices(range(1, 50), k=count)
    index = OffsetIndex(disk, "/i", BASE, TEN_MEBIBYTES, WarmSet(1), entries=0)
    offsets: list[int] = []
    relative = 0
    for n, gap in enumerate(gaps):
        relative += gap
        offsets.append(BASE + relative)
        index.append(BASE + relative, n * 4096)
        if n == written:
            index.sync()
    for target in targets:
        at = bisect.bisect_right(offsets, BASE + target)
        expected = (offsets[at - 1], (at - 1) * 4096) if at else (BASE, 0)
        assert index.lookup(BASE + target) == expected


STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 200)),
    st.tuples(st.just("truncate_to"), st.integers(0, 3000)),
    st.tuples(st.sampled_from(["cool", "trim", "preallocate", "sync", "reopen", "truncate", "reset"]), st.just(0)),
    st.tuples(st.just("resize"), st.integers(0, 5000)),
    st.tuples(st.just("lookup"), st.integers(0, 3000)),
)


@settings(max_examples=examples(200))
@given(st.lists(STEPS, max_size=30))
def test_any_life_of_an_index_agrees_with_a_list(steps: list[tuple[str, int]]) -> None:
    disk = SimDisk()
    warm = WarmSet(1)
    model: list[tuple[int, int]] = []
    room = 600
    index = OffsetIndex(disk, "/i", BASE, room * 8, warm, entries=0)
    for step, number in steps:
        if step == "append":
            for _ in range(number):
                if len(model) >= room:
                    break
                entry = (model[-1][0] + 3 if model else BASE, model[-1][1] + 70 if model else 70)
                index.append(*entry)
                model.append(entry)
        elif step == "truncate_to":
            index.truncate_to(number)
            model = [entry for entry in model if entry[0] < number]
        elif step == "reopen":
            index.close()
            room = 600
            index = OffsetIndex(disk, "/i", BASE, room * 8, warm)
        elif step == "resize":
            index.resize(number)
            room = number // 8
            model = model[:room]
        elif step == "lookup":
            expected = max((entry for entry in model if entry[0] <= number), default=(BASE, 0))
            assert index.lookup(number) == expected
        else:
            getattr(index, step)()
            if step in ("truncate", "reset"):
                model = []
            if step == "reset":
                room = 600
        assert index.entries == len(model)
        assert index.last_offset == (model[-1][0] if model else BASE)
        assert index.is_full == (len(model) >= room)
    assert [index.entry(n) for n in range(index.entries)] == model
    index.sanity_check(2**31)
    index.close()
    assert disk.size("/i") == len(model) * 8


def test_truncation_drops_the_offset_and_what_follows(tmp_path: Path) -> None:
    for offset, kept in ((BASE + 31, 3), (BASE + 30, 2), (BASE + 21, 2), (BASE + 20, 1), (BASE, 0), (0, 0), (2**62, 4)):
        index = filled(index_at(tmp_path, entries=0), 4)
        index.truncate_to(offset)
        assert index.entries == kept
        assert index.last_offset == BASE + 10 * kept
        index.delete()


def test_entries_gather_in_memory_and_are_written_together(tmp_path: Path) -> None:
    files = WatchedFiles(RealFiles())
    index = filled(index_at(tmp_path, files=files), PENDING_ENTRIES * 2 + 1)
    assert files.writes == [(0, PENDING_ENTRIES * 8), (PENDING_ENTRIES * 8, PENDING_ENTRIES * 8)]
    files.maps = 0
    assert index.lookup(BASE + 10 * PENDING_ENTRIES * 2 + 15).offset == BASE + 10 * PENDING_ENTRIES * 2 + 10
    assert files.maps == 0
    index.sync()
    assert files.writes[2:] == [(PENDING_ENTRIES * 16, 8)]


def test_the_first_entry_from_a_position_on(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    assert index.first_from(100) is None
    filled(index, 3)
    index.sync()
    assert index.first_from(0) == OffsetPosition(BASE + 10, 100)
    assert index.first_from(100) == OffsetPosition(BASE + 10, 100)
    assert index.first_from(101) == OffsetPosition(BASE + 20, 200)
    assert index.first_from(300) == OffsetPosition(BASE + 30, 300)
    assert index.first_from(301) is None


def test_an_entry_that_is_not_there_cannot_be_asked_for(tmp_path: Path) -> None:
    index = filled(index_at(tmp_path), 2)
    for n in (-1, 2):
        with pytest.raises(InvariantError, match=f"no entry {n}"):
            index.entry(n)


# Damage


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (struct.pack(">iii", 1, 2, 3), "12 bytes"),
        (struct.pack(">ii", -5, 2), "below its base"),
        (struct.pack(">iiii", 10, 100, 10, 200), "does not ascend"),
        (struct.pack(">iiii", 10, 100, 20, 100), "does not ascend"),
        (struct.pack(">iiii", 10, 100, 20, -1), "negative position"),
        (struct.pack(">iiii", 10, 100, 20, 200) + bytes(4080), "does not ascend"),
        (bytes(4096), "does not ascend"),
        (bytes(8), "empty slot"),
    ],
)
def test_a_damaged_file_is_found_out(tmp_path: Path, data: bytes, problem: str) -> None:
    write_raw(tmp_path, data)
    with pytest.raises(CorruptIndexError, match=problem):
        index_at(tmp_path).sanity_check()


def test_a_position_beyond_the_log_is_found_out(tmp_path: Path) -> None:
    index = filled(index_at(tmp_path), 2)
    index.sanity_check(log_size_bytes=201)
    with pytest.raises(CorruptIndexError, match="position 200 of a log of 200 bytes"):
        index.sanity_check(log_size_bytes=200)


def test_a_missing_or_empty_file_is_sane(tmp_path: Path) -> None:
    index_at(tmp_path).sanity_check(0)
    write_raw(tmp_path, b"")
    index = index_at(tmp_path)
    index.sanity_check(0)
    assert index.lookup(BASE + 5) == OffsetPosition(BASE, 0)


def test_an_index_that_was_active_when_the_process_died_is_found_out() -> None:
    disk = SimDisk()
    filled(OffsetIndex(disk, "/i", BASE, 4096, WarmSet(1), entries=0), 100).sync()
    disk.kill()
    with pytest.raises(CorruptIndexError, match="does not ascend"):
        OffsetIndex(disk, "/i", BASE, 4096, WarmSet(1)).sanity_check()


@given(st.binary(max_size=400), st.integers(0, 2**40))
def test_no_file_makes_a_lookup_fail_other_than_as_corrupt(data: bytes, target: int) -> None:
    disk = SimDisk()
    file = disk.open("/i", Mode.CREATE)
    file.write_at((data,), 0)
    index = OffsetIndex(disk, "/i", BASE, 4096, WarmSet(1))
    try:
        found = index.lookup(target)
        assert found.position >= 0
        assert found.offset <= max(target, BASE)
        index.sanity_check(len(data))
        index.truncate_to(target)
    except CorruptIndexError:
        index.reset()
        assert index.lookup(target) == (BASE, 0)


def test_what_was_trimmed_and_synced_survives_lost_power() -> None:
    disk = SimDisk()
    disk.make_dir("/d")
    disk.sync_dir("/")
    index = filled(OffsetIndex(disk, "/d/i", BASE, TEN_MEBIBYTES, WarmSet(1), entries=0), 700)
    index.trim()
    index.sync()
    disk.sync_dir("/d")
    disk.crash()
    disk.restart(Survival.NOTHING)
    index = OffsetIndex(disk, "/d/i", BASE, TEN_MEBIBYTES, WarmSet(1))
    index.sanity_check()
    assert index.entries == 700
    assert index.entry(699) == OffsetPosition(BASE + 7000, 70000)


def test_a_full_disk_fails_an_append_and_loses_nothing() -> None:
    disk = SimDisk()
    index = filled(OffsetIndex(disk, "/i", BASE, TEN_MEBIBYTES, WarmSet(1), entries=0), PENDING_ENTRIES)
    disk.faults.capacity_bytes = 0
    with pytest.raises(OSError, match="No space") as caught:
        index.append(BASE + 10_000, 1_000_000)
    assert caught.value.errno == errno.ENOSPC
    assert (index.entries, index.last_offset) == (PENDING_ENTRIES, BASE + 10 * PENDING_ENTRIES)
    assert index.lookup(BASE + 25) == OffsetPosition(BASE + 20, 200)
    disk.faults.capacity_bytes = None
    index.append(BASE + 10_000, 1_000_000)
    index.close()
    assert disk.size("/i") == (PENDING_ENTRIES + 1) * 8


def test_short_writes_are_completed() -> None:
    disk = SimDisk()
    disk.faults.short_write_probability = 0.9
    filled(OffsetIndex(disk, "/i", BASE, TEN_MEBIBYTES, WarmSet(1), entries=0), 300).close()
    index = OffsetIndex(disk, "/i", BASE, TEN_MEBIBYTES, WarmSet(1))
    assert [index.entry(n).position for n in range(index.entries)] == [100 * n for n in range(1, 301)]


# The life of file, handle and mapping


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def is_mapped(index: OffsetIndex) -> bool:
    return index.path in Path("/proc/self/maps").read_text()


@pytest.mark.spec("LS-47")
def test_close_unmaps_and_closes_at_once(tmp_path: Path) -> None:
    before = descriptors()
    index = filled(index_at(tmp_path), 100)
    index.sync()
    assert index.lookup(BASE + 15).position == 100
    assert is_mapped(index)
    assert descriptors() > before
    index.close()
    assert not is_mapped(index)
    assert descriptors() == before
    index.close()
    assert Path(index.path).stat().st_size == 800


@pytest.mark.spec("LS-47")
def test_a_closed_index_says_that_it_is_gone(tmp_path: Path) -> None:
    index = filled(index_at(tmp_path), 3)
    assert index.lookup(2**40).position == 300
    index.close()
    for use in (
        lambda: index.lookup(BASE + 15),
        lambda: index.lookup(2**40),
        lambda: index.entry(0),
        lambda: index.append(BASE + 40, 400),
        lambda: index.truncate_to(0),
        index.truncate,
        index.reset,
        index.trim,
        index.sync,
        index.sanity_check,
    ):
        with pytest.raises(SegmentGoneError, match="closed"):
            use()
    assert Path(index.path).stat().st_size == 24


@pytest.mark.spec("LS-47")
def test_release_lets_go_without_writing(tmp_path: Path) -> None:
    index = filled(index_at(tmp_path), 3)
    index.release()
    assert Path(index.path).read_bytes() == bytes(4096)


@pytest.mark.spec("LS-47")
def test_a_mapping_is_never_read_beyond_a_file_that_was_cut() -> None:
    """The simulated disk raises where a real one would end the process."""
    disk = SimDisk()
    index = filled(OffsetIndex(disk, "/i", BASE, TEN_MEBIBYTES, WarmSet(1), entries=0), 4000)
    assert index.lookup(BASE + 15).position == 100
    index.truncate_to(BASE + 1000)
    index.trim()
    assert index.lookup(BASE + 15).position == 100
    index.resize(16)
    assert index.lookup(BASE + 15).position == 100
    assert index.entries == 2
    index.reset()
    assert index.lookup(BASE + 15).position == 0


@pytest.mark.spec("LS-47")
def test_lookups_race_every_change_of_the_file_without_a_fault(tmp_path: Path) -> None:
    index = filled(index_at(tmp_path, max_bytes=1 << 20), 3000)
    stop = threading.Event()
    problems: list[Exception] = []

    def look_up() -> None:
        n = 0
        while not stop.is_set():
            n = (n * 31 + 7) % 3000
            try:
                found = index.lookup(BASE + 10 * n + 5)
                assert found.position * 10 == (found.offset - BASE) * 100
            except SegmentGoneError:
                return
            except Exception as problem:
                problems.append(problem)
                return

    readers = [threading.Thread(target=look_up) for _ in range(3)]
    for reader in readers:
        reader.start()
    for turn in range(25):
        index.cool()
        index.trim()
        index.truncate_to(BASE + 10 * (turn % 7) + 5)
        index.trim()
        index.preallocate()
        for n in range(index.entries + 1, 400):
            index.append(BASE + 10 * n, 100 * n)
        index.sync()
        index.reset()
        filled(index, 300)
    index.close()
    stop.set()
    for reader in readers:
        reader.join()
    assert problems == []


def test_a_cooled_index_holds_no_descriptor_and_works_on(tmp_path: Path) -> None:
    before = descriptors()
    index = filled(index_at(tmp_path), 100)
    index.sync()
    assert index.lookup(BASE + 15).position == 100
    assert descriptors() == before + 2
    index.cool()
    assert descriptors() == before
    assert not is_mapped(index)
    assert index.lookup(BASE + 15).position == 100
    index.append(BASE + 2000, 99_999)
    index.close()
    assert index_at(tmp_path).lookup(2**40) == OffsetPosition(BASE + 2000, 99_999)


def test_the_warm_set_bounds_the_descriptors_of_many_indexes(tmp_path: Path) -> None:
    before = descriptors()
    warm = WarmSet(10)
    indexes = [OffsetIndex(RealFiles(), str(tmp_path / f"{n}"), BASE, 4096, warm, entries=0) for n in range(100)]
    for _ in range(2):
        for index in indexes:
            index.append(index.last_offset + 10, index.last_position + 100)
            index.sync()
            assert index.entry(0) == OffsetPosition(BASE + 10, 100)
        assert descriptors() <= before + 2 * warm.capacity
    for index in indexes:
        index.close()
    assert descriptors() == before
    assert len(warm) == 0


def test_rename_takes_the_file_along_and_delete_removes_it(tmp_path: Path) -> None:
    index = filled(index_at(tmp_path), 3)
    old, new = Path(index.path), Path(index.path + ".deleted")
    index.rename_to(str(new))
    assert (old.exists(), new.exists(), index.path) == (False, True, str(new))
    assert index.lookup(BASE + 15).position == 100
    index.delete()
    assert not new.exists()
    index.delete()


def test_a_file_that_was_never_made_can_be_renamed_and_deleted(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    index.rename_to(index.path + ".deleted")
    index.sync()
    index.delete()
    assert list(tmp_path.iterdir()) == []


def test_an_index_follows_its_directory(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    index = filled(index_at(tmp_path / "a"), 3)
    index.trim()
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(SegmentGoneError, match="does not exist any more"):
        index.lookup(BASE + 15)
    index.moved_to(str(tmp_path / "b" / Path(index.path).name))
    assert index.lookup(BASE + 15).position == 100
