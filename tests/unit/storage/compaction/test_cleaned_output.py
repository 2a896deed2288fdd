"""The `.cleaned` segments: how many there are, and what is in their names, indexes and times."""

from __future__ import annotations

from dataclasses import replace

import pytest
from compacted_logs import COMPACTED, CompactedLog
from logs import batch, place_on, placed

from tailrace.model.offsets import MAX_RELATIVE_OFFSET
from tailrace.sim import World
from tailrace.storage.compaction.output import CleanedSegments
from tailrace.storage.segment import LogSegment


def old_segment(world: World, base: int = 0, size: int = 100) -> LogSegment:
    segment = LogSegment.create(place_on(world, COMPACTED), base)
    data = placed(batch(1, size), base)
    segment.records.append((data,), len(data))
    return segment


@pytest.mark.spec("LM-44")
def test_offsets_that_do_not_fit_an_int32_begin_another_segment() -> None:
    world = World()
    output = CleanedSegments(place_on(world, COMPACTED), 0)
    for offset in (5, MAX_RELATIVE_OFFSET, MAX_RELATIVE_OFFSET + 1):
        output.keep(placed(batch(), offset))
    output.write()
    assert [segment.base_offset for segment in output.made] == [0, MAX_RELATIVE_OFFSET + 1]


@pytest.mark.spec("LM-44")
def test_the_first_write_to_an_empty_segment_is_always_allowed() -> None:
    output = CleanedSegments(place_on(World(), replace(COMPACTED, segment_bytes=200)), 0)
    for offset in range(3):
        output.keep(placed(batch(1, 500), offset))
    output.keep(placed(batch(1, 10), 3))
    output.keep(placed(batch(1, 10), 4))
    output.write()
    assert [segment.base_offset for segment in output.made] == [0, 1, 2, 3]


def test_a_full_index_begins_another_segment() -> None:
    config = replace(COMPACTED, segment_index_bytes=24, index_interval_bytes=0, segment_bytes=1 << 20)
    world = World()
    output = CleanedSegments(place_on(world, config), 0)
    for offset in range(20):
        output.keep(placed(batch(timestamp=1000 + offset), offset))
        output.write()
    assert len(output.made) > 3
    output.finish([old_segment(world)])
    assert sum(segment.size for segment in output.made) == output.bytes_written


def test_an_emptied_segment_at_the_end_of_a_group_keeps_its_name() -> None:
    world = World()
    old = [old_segment(world, base) for base in (0, 10, 20)]
    output = CleanedSegments(place_on(world, COMPACTED), 0)
    output.keep(placed(batch(), 3))
    output.finish(old)
    assert [(segment.base_offset, segment.size > 0) for segment in output.made] == [(0, True), (20, False)]
    output.discard()
    assert not [name for name in world.disk.list("/data/orders-2") if name.name.endswith(".cleaned")]


def test_one_that_was_empty_before_does_not() -> None:
    world = World()
    old = [old_segment(world, 0), LogSegment.create(place_on(world, COMPACTED), 20)]
    output = CleanedSegments(place_on(world, COMPACTED), 0)
    output.keep(placed(batch(), 0))
    output.finish(old)
    assert [segment.base_offset for segment in output.made] == [0]


@pytest.mark.spec("LM-21")
def test_an_empty_batch_goes_when_its_producer_has_written_another() -> None:
    log = CompactedLog()
    log.put([(b"a", b"1")], producer_id=1)
    log.put([(b"a", b"2")])
    log.settle()
    log.clean()
    assert [count for _, _, count, _ in log.shape()] == [0, 1]
    log.put([(b"b", b"1")], producer_id=1)
    log.settle()
    log.clean()
    assert [(first, count) for first, _, count, _ in log.shape()] == [(1, 1), (2, 1)]
