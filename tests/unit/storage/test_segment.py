"""One segment alone: what an append enters, what a cut takes away, and indexes that are mended from the data."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.logs.builders import (
    DIRECTORY,
    NOW_MS,
    batch,
    offset_entries,
    offsets,
    place_on,
    placed,
    sized_batch,
    time_entries,
    with_config,
)
from tailrace.env import Mode
from tailrace.model.errors import SegmentGoneError, SegmentOffsetOverflowError
from tailrace.model.offsets import TimestampOffset
from tailrace.record.shallow import batches
from tailrace.sim import World
from tailrace.storage.segment import LogSegment
from tailrace.storage.transaction_index import AbortedTxn

CONFIG = with_config(index_interval_bytes=250)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def segment(world: World) -> LogSegment:
    """Twenty batches of 100 bytes, offsets 100 to 119, timestamps rising but for the tenth."""
    made = LogSegment.create(place_on(world, CONFIG), 100)
    for n in range(20):
        put(made, sized_batch(100, timestamp=NOW_MS + (n if n != 10 else 500)), 100 + n)
    return made


def put(segment: LogSegment, data: bytearray, offset: int) -> None:
    stored = placed(data, offset)
    segment.append(tuple(batches(stored)), [stored], len(stored))


def found_at(segment: LogSegment, offset: int) -> tuple[int, int] | None:
    """Position and last offset."""
    found = segment.translate(offset)
    return None if found is None else (found[0], found[1].last_offset)


def reopened(segment: LogSegment, world: World, **config: Any) -> LogSegment:
    segment.become_inactive()
    segment.release()
    return LogSegment.open(place_on(world, with_config(CONFIG, **config)), segment.base_offset)


@pytest.mark.spec("LS-02", "LS-17")
def test_an_offset_leads_to_the_first_batch_that_reaches_it(segment: LogSegment) -> None:
    for n in range(20):
        assert found_at(segment, 100 + n) == (100 * n, 100 + n)
    assert found_at(segment, 50) == (0, 100)
    assert found_at(segment, 120) is None
    assert found_at(segment, 100 + 7) == (700, 107)


@pytest.mark.spec("LS-17")
def test_a_scan_can_begin_further_on(segment: LogSegment) -> None:
    assert segment.translate(103, from_position=900) is not None
    found = segment.translate(103, from_position=900)
    assert found is not None
    assert found[0] == 900


def test_the_largest_timestamp_belongs_to_the_first_batch_that_has_it(segment: LogSegment, world: World) -> None:
    assert segment.largest == TimestampOffset(NOW_MS + 500, 110)
    put(segment, batch(1, timestamp=NOW_MS + 500), 120)
    assert segment.largest == TimestampOffset(NOW_MS + 500, 110)
    assert reopened(segment, world).largest == TimestampOffset(NOW_MS + 500, 110)


@pytest.mark.spec("LS-09")
def test_an_offset_too_far_from_the_base_is_refused_before_anything_is_written(segment: LogSegment) -> None:
    with pytest.raises(SegmentOffsetOverflowError):
        put(segment, batch(1), 100 + 2**31)
    assert segment.size == 2000
    put(segment, batch(1), 100 + 2**31 - 1)
    assert found_at(segment, 100 + 2**31 - 1) == (2000, 100 + 2**31 - 1)


@pytest.mark.spec("LS-33")
@pytest.mark.parametrize("offset", range(100, 121))
def test_a_cut_takes_bytes_and_entries_from_the_offset_on(segment: LogSegment, world: World, offset: int) -> None:
    segment.add_aborted(AbortedTxn(7, 100, 104, 105))
    segment.add_aborted(AbortedTxn(8, 106, 112, 113))
    kept = offset - 100
    assert segment.cut_at(offset) == 2000 - 100 * kept
    assert world.disk.size(segment.records.path) == segment.size == 100 * kept
    assert offset_entries(segment) == [(100 + n, 100 * n) for n in (3, 6, 9, 12, 15, 18) if n < kept]
    assert all(each < offset for _, each in time_entries(segment))
    assert [each.producer_id for each in segment.txn_index.all()] == [
        producer for producer, last in ((7, 104), (8, 112)) if last < offset
    ]
    largest = max((NOW_MS + (n if n != 10 else 500) for n in range(kept)), default=-1)
    assert segment.largest.timestamp == largest
    assert segment.next_offset() == offset
    put(segment, sized_batch(100, timestamp=NOW_MS + 900), offset)  # and it goes on from there
    assert segment.largest == TimestampOffset(NOW_MS + 900, offset)
    assert found_at(segment, offset) == (100 * kept, offset)


@pytest.mark.spec("LS-33")
def test_a_cut_inside_a_batch_takes_the_whole_batch(world: World) -> None:
    segment = LogSegment.create(place_on(world), 0)
    put(segment, batch(5), 0)
    size = segment.size
    put(segment, batch(5), 5)
    segment.cut_at(7)
    assert segment.size == size


@pytest.mark.spec("LS-33")
def test_a_cut_to_nothing_makes_the_segment_new(segment: LogSegment, world: World) -> None:
    world.clock.advance(1000)
    segment.cut_at(100)
    assert (segment.size, segment.first_timestamp, segment.created_ms) == (0, -1, world.clock.now_ms())


@pytest.mark.spec("LS-34")
def test_a_slice_from_before_a_cut_gives_no_bytes_from_after_it(segment: LogSegment) -> None:
    slices = [segment.read(offset, 300, segment.size, True) for offset in (101, 115)]
    segment.cut_at(110)
    put(segment, sized_batch(500), 110)
    for found in slices:
        assert found is not None
        with pytest.raises(SegmentGoneError):
            found.read()


@pytest.mark.spec("LS-34")
def test_a_bound_from_before_a_cut_ends_the_slice_at_the_present_end(segment: LogSegment) -> None:
    old_size = segment.size
    segment.cut_at(105)
    found = segment.read(103, 1 << 20, old_size, True)
    assert found is not None
    put(segment, sized_batch(300), 105)
    assert offsets(found.read()) == [(103, 103), (104, 104)]


@pytest.mark.spec("LS-34")
def test_a_segment_that_is_gone_says_so(segment: LogSegment) -> None:
    found = segment.read(100, 100, segment.size, True)
    assert found is not None
    segment.delete()
    assert offsets(found.read()) == [(100, 100)]  # the handle is held
    with pytest.raises(SegmentGoneError):
        segment.read(100, 100, 2000, True)
    with pytest.raises(SegmentGoneError):
        segment.sync()


class TestFailedAppends:
    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
    def test_nothing_of_it_stays(self, world: World, code: int) -> None:
        segment = LogSegment.create(place_on(world, with_config(index_interval_bytes=0)), 0)
        for n in range(10):
            put(segment, sized_batch(100), n)
        before = (segment.size, offset_entries(segment), time_entries(segment), segment.largest)
        world.disk.fail_next("write", "*.log", code)
        with pytest.raises(OSError):
            put(segment, sized_batch(100, timestamp=NOW_MS + 9), 10)
        assert (segment.size, offset_entries(segment), time_entries(segment), segment.largest) == before
        assert world.disk.size(segment.records.path) == segment.size
        assert not segment.records.has_waste

    def test_waste_that_cannot_be_cut_off_is_told(self, world: World) -> None:
        segment = LogSegment.create(place_on(world), 0)
        put(segment, sized_batch(100), 0)
        world.disk.fail_next("write", "*.log")
        world.disk.fail_next("truncate", "*.log")
        with pytest.raises(OSError):
            put(segment, sized_batch(100), 1)
        assert segment.records.has_waste
        assert segment.size == 100


class TestMendedIndexes:
    def lookups(self, segment: LogSegment) -> list[tuple[int, int] | None]:
        return [found_at(segment, offset) for offset in range(100, 121)]

    @pytest.mark.spec("LS-28")
    @pytest.mark.parametrize("name", ["index", "timeindex"])
    @pytest.mark.parametrize("content", [b"", b"\0" * 24, b"\xff" * 24, b"x", b"\x7f" * 24])
    def test_damage_is_mended_by_the_lookup_that_finds_it(
        self, segment: LogSegment, world: World, name: str, content: bytes
    ) -> None:
        expected = self.lookups(segment)
        largest = segment.largest
        segment.become_inactive()
        segment.release()
        world.disk.open(f"{DIRECTORY}/{100:020}.{name}", Mode.REPLACE).write_at([content], 0)
        again = LogSegment.open(place_on(world, CONFIG), 100)
        assert self.lookups(again) == expected
        assert again.largest == largest

    @pytest.mark.spec("LS-28")
    def test_rebuilt_indexes_are_those_that_were_written(self, segment: LogSegment, world: World) -> None:
        again = reopened(segment, world)
        before = (offset_entries(again), time_entries(again))
        again.rebuild_indexes()
        assert (offset_entries(again), time_entries(again)) == before
        assert before[0] == [(100 + n, 100 * n) for n in (3, 6, 9, 12, 15, 18)]

    def test_a_smaller_index_than_the_data_would_fill_still_finds_everything(
        self, segment: LogSegment, world: World
    ) -> None:
        expected = self.lookups(segment)
        again = reopened(segment, world, segment_index_bytes=36)
        again.rebuild_indexes()
        assert len(offset_entries(again)) == 2
        assert self.lookups(again) == expected

    def test_a_race_with_a_cut_is_not_taken_for_damage(self, segment: LogSegment) -> None:
        """The index had pointed behind the new end: a reader must not rebuild what the owner is changing."""
        cuts = segment.records.cuts
        entries = offset_entries(segment)
        segment.records.cut(500)
        with pytest.raises(SegmentGoneError):
            segment.mend_indexes(cuts)
        assert offset_entries(segment) == entries


@settings(max_examples=examples(60))
@given(
    times=st.lists(st.integers(0, 50), min_size=1, max_size=40),
    cut=st.floats(0, 1),
    more=st.lists(st.integers(0, 60), max_size=10),
    interval=st.sampled_from([0, 150, 1000]),
)
@pytest.mark.spec("LS-33", "LS-07")
def test_a_cut_segment_is_as_if_the_rest_had_never_been(
    times: list[int], cut: float, more: list[int], interval: int
) -> None:
    config = with_config(index_interval_bytes=interval)
    keep = int(cut * len(times))
    cut_one = LogSegment.create(place_on(World(), config), 0)
    for n, time in enumerate(times):
        put(cut_one, sized_batch(100, timestamp=time), n)
    cut_one.cut_at(keep)
    for n, time in enumerate(more):
        put(cut_one, sized_batch(100, timestamp=time), keep + n)
    kept = [*times[:keep], *more]
    assert cut_one.largest.timestamp == max(kept, default=-1)
    assert [found_at(cut_one, n) for n in range(len(kept))] == [(100 * n, n) for n in range(len(kept))]
    entries = time_entries(cut_one)
    assert entries == sorted(set(entries))
    for time, offset in entries:
        assert time == max(kept[: offset + 1])
