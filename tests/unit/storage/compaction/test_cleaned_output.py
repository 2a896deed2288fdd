"""The `.cleaned` segments: how many there are, and what is in their names, indexes and times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.compaction.compacted_logs import COMPACTED, CompactedLog
from support.logs.builders import batch, place_on, placed
from tailrace.env import Mode
from tailrace.model.offsets import MAX_RELATIVE_OFFSET
from tailrace.sim import Survival, World
from tailrace.storage.compaction.kept import KEPT_BATCHES, Kept
from tailrace.storage.compaction.output import SYNC_BYTES, CleanedSegments
from tailrace.storage.segment import LogSegment
from tailrace.storage.transaction_index import AbortedTxn


def old_segment(world: World, base: int = 0, size: int = 100) -> LogSegment:
    segment = LogSegment.create(place_on(world, COMPACTED), base)
    data = placed(batch(1, size), base)
    segment.records.append((data,), len(data))
    return segment


def write(output: CleanedSegments, *batches: bytes | bytearray) -> None:
    kept = Kept(1000)
    for each in batches:
        if not kept.has_room_for(len(each)):
            kept.make_room_for(len(each))
        kept.add(each)
    output.write(kept)
    assert (kept.written, kept.run.count) == (0, 0)


def content(world: World, name: str) -> bytes:
    path = "/data/orders-2/" + name
    return world.disk.open(path, Mode.READ).read_at(world.disk.size(path), 0)


@pytest.mark.spec("LM-44")
def test_offsets_that_do_not_fit_an_int32_begin_another_segment() -> None:
    world = World()
    output = CleanedSegments(place_on(world, COMPACTED), 0)
    write(output, *(placed(batch(), offset) for offset in (5, MAX_RELATIVE_OFFSET, MAX_RELATIVE_OFFSET + 1)))
    assert [segment.base_offset for segment in output.made] == [0, MAX_RELATIVE_OFFSET + 1]


@pytest.mark.spec("LM-44")
def test_the_first_write_to_an_empty_segment_is_always_allowed() -> None:
    output = CleanedSegments(place_on(World(), replace(COMPACTED, segment_bytes=200)), 0)
    sizes = (500, 500, 500, 10, 10)
    write(output, *(placed(batch(1, size), offset) for offset, size in enumerate(sizes)))
    assert [segment.base_offset for segment in output.made] == [0, 1, 2, 3]
    assert all(segment.size <= 200 for segment in output.made[3:])


def test_a_full_index_begins_another_segment() -> None:
    config = replace(COMPACTED, segment_index_bytes=24, index_interval_bytes=0, segment_bytes=1 << 20)
    world = World()
    output = CleanedSegments(place_on(world, config), 0)
    for offset in range(20):
        write(output, placed(batch(timestamp=1000 + offset), offset))
    assert len(output.made) > 3
    output.finish([old_segment(world)])
    assert sum(segment.size for segment in output.made) == output.bytes_written


def test_an_emptied_segment_at_the_end_of_a_group_keeps_its_name() -> None:
    world = World()
    old = [old_segment(world, base) for base in (0, 10, 20)]
    output = CleanedSegments(place_on(world, COMPACTED), 0)
    write(output, placed(batch(), 3))
    output.finish(old)
    assert [(segment.base_offset, segment.size > 0) for segment in output.made] == [(0, True), (20, False)]
    output.discard()
    assert not [name for name in world.disk.list("/data/orders-2") if name.name.endswith(".cleaned")]


def test_one_that_was_empty_before_does_not() -> None:
    world = World()
    old = [old_segment(world, 0), LogSegment.create(place_on(world, COMPACTED), 20)]
    output = CleanedSegments(place_on(world, COMPACTED), 0)
    write(output, placed(batch(), 0))
    output.finish(old)
    assert [segment.base_offset for segment in output.made] == [0]


def test_batches_of_one_write_are_indexed_as_if_they_came_one_by_one() -> None:
    batches = [placed(batch(1, 40 + offset % 7, timestamp=1000 + offset % 13), 2 * offset) for offset in range(300)]
    found = []
    for together in (1, 7, 300):
        world = World()
        output = CleanedSegments(place_on(world, COMPACTED), 0)
        for first in range(0, len(batches), together):
            write(output, *batches[first : first + together])
        output.finish([old_segment(world)])
        files = world.disk.list("/data/orders-2")
        found.append({each.name: content(world, each.name) for each in files})
    assert len(found[0]) > 20
    assert found[0] == found[1] == found[2]


def test_an_aborted_transaction_is_noted_where_its_marker_is() -> None:
    output = CleanedSegments(place_on(World(), replace(COMPACTED, segment_bytes=400)), 0)
    kept = Kept(1000)
    for offset in range(5):
        kept.add(placed(batch(1, 100), offset))
        if offset in (1, 4):
            kept.add_aborted(AbortedTxn(7, offset - 1, offset, offset))
    output.write(kept)
    noted = [[each.last_offset for each in segment.txn_index.all()] for segment in output.made]
    assert noted == [[1], [], [4]]


def test_kept_batches_have_the_room_they_need() -> None:
    kept = Kept(100)
    usual = len(kept.data)
    assert not kept.has_room_for(usual + 1)
    kept.make_room_for(usual + 1)
    assert kept.has_room_for(usual + 1)
    kept.clear()
    assert len(kept.data) == usual
    kept = Kept(100 * KEPT_BATCHES)
    for offset in range(KEPT_BATCHES):
        assert kept.has_room_for(80)
        kept.add(placed(batch(1, 1), offset))
    assert not kept.has_room_for(0)


def test_what_was_written_is_synced_from_time_to_time() -> None:
    world = World()
    output = CleanedSegments(place_on(world, replace(COMPACTED, segment_bytes=1 << 30)), 0)
    large = SYNC_BYTES // 4
    for offset in range(4):
        assert not output.is_sync_due
        write(output, placed(batch(1, large), offset))
    assert output.is_sync_due
    output.sync()
    assert not output.is_sync_due
    path = output.made[0].records.path
    for directory in ("/data", "/data/orders-2"):
        world.disk.sync_dir(directory)
    world.restart(Survival.NOTHING)
    assert world.disk.size(path) == output.bytes_written


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
