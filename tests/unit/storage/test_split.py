"""Segments of brokers long ago, whose offsets span more than an int32: they are split when their log is opened."""

from __future__ import annotations

import random
from typing import Any

import pytest

from support.logs.log_files import (
    COMPACTED,
    CONFIG,
    Bench,
    append,
    batch,
    batches_of,
    content,
    derived,
    index_path,
    marker,
    names_in,
    offsets_of,
    time_index_path,
    write_file,
)
from tailrace.config.log import LogConfig
from tailrace.model.offsets import MAX_RELATIVE_OFFSET
from tailrace.record.legacy import compressed_wrapper, plain_message
from tailrace.sim.faults import SimulatedCrash
from tailrace.storage.names import CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX
from tailrace.storage.unified_log import UnifiedLog

SPAN = MAX_RELATIVE_OFFSET + 1
FAR = SPAN + 100
FARTHER = 2 * SPAN + 300

PARTS = [
    batch(2, 200, base_offset=0, epoch=0),
    batch(3, 300, base_offset=10, epoch=0, producer=1, sequence=0),
    batch(2, 200, base_offset=20, epoch=0, producer=2, sequence=0, transactional=True),
    batch(1, 500, base_offset=MAX_RELATIVE_OFFSET, epoch=0),
    batch(2, 300, base_offset=FAR, epoch=1, producer=1, sequence=3),
    marker(2, commit=False, base_offset=FAR + 2, epoch=1),
    batch(1, 500, base_offset=FARTHER, epoch=2),
    batch(1, 100, base_offset=FARTHER + 1, epoch=2, producer=4, sequence=0, transactional=True),
]
WHOLE = b"".join(PARTS)
END = FARTHER + 2

KINDS: list[dict[str, Any]] = [
    {"was_clean": True},
    {"was_clean": False},
    {"was_clean": False, "recovery_point": FAR},
    {"was_clean": False, "recovery_point": END + 7},
]


def overflowing(following: bool = False, config: LogConfig = COMPACTED) -> Bench:
    bench = Bench(config)
    bench.write_segment(0, PARTS)
    if following:
        bench.write_segment(END, [batch(2, 100, base_offset=END, epoch=2)])
    return bench


def check_split(bench: Bench, log: UnifiedLog, expected: bytes, was_clean: bool = False, **_: Any) -> None:
    """A log that was closed cleanly without a snapshot has no producers: see LS-38."""
    assert content(log) == expected
    assert log.local.segments.base_offsets[:3] == (0, FAR, FARTHER)
    for segment in log.local.segments:
        assert segment.can_hold(segment.next_offset() - 1)
    assert not any(CLEANED_SUFFIX in name or SWAP_SUFFIX in name for name in names_in(bench.disk))
    seen = derived(log)
    assert [(each.first_offset, each.last_offset) for each in seen.aborted] == [(20, FAR + 2)]
    assert [entry.start_offset for entry in seen.epochs] == [0, FAR, FARTHER]
    if not was_clean:
        assert seen.producers[1] == (0, 4, FAR + 1, None)
        assert seen.first_unstable == FARTHER + 1
    assert bench.findings() == []


@pytest.mark.spec("LS-09")
@pytest.mark.parametrize("options", KINDS)
@pytest.mark.parametrize("config", [COMPACTED, CONFIG], ids=["compacted", "not compacted"])
def test_an_overflowing_segment_is_split_on_load(config: LogConfig, options: dict[str, Any]) -> None:
    bench = overflowing(config=config)
    log = bench.open(**options)
    check_split(bench, log, WHOLE, **options)
    assert [first for first, _ in offsets_of(log)] == [each.base_offset for each in batches_of(log)]
    assert append(log, batch(1, 100), epoch=2) == END
    bench.close(log)
    assert content(bench.open(was_clean=True))[: len(WHOLE)] == WHOLE


@pytest.mark.spec("LS-09")
@pytest.mark.parametrize("options", [*KINDS, {"was_clean": False, "recovery_point": END}])
def test_one_that_is_not_the_last_is_split_too(options: dict[str, Any]) -> None:
    bench = overflowing(following=True)
    log = bench.open(**options)
    check_split(bench, log, WHOLE + bytes(batch(2, 100, base_offset=END, epoch=2)), **options)
    assert log.local.segments.base_offsets == (0, FAR, FARTHER, END)


@pytest.mark.spec("LS-09")
@pytest.mark.parametrize("following", [False, True])
@pytest.mark.parametrize("index", [b"", bytes(80), random.Random(1).randbytes(96), b"\x7f\xff\xff\xff\0\0\0\x09"])
def test_indexes_that_such_a_segment_came_with_do_not_matter(index: bytes, following: bool) -> None:
    bench = overflowing(following)
    write_file(bench.disk, index_path(0), index)
    write_file(bench.disk, time_index_path(0), index)
    log = bench.open(was_clean=True)
    assert content(log).startswith(WHOLE)
    assert log.local.segments.base_offsets[:3] == (0, FAR, FARTHER)


@pytest.mark.spec("LS-09", "LS-24")
@pytest.mark.parametrize("options", [{"recovery_point": END}, {"recovery_point": FAR}, {}])
def test_lost_power_at_any_operation_of_the_split_loses_nothing(options: dict[str, Any]) -> None:
    original = overflowing()
    counted = original.clone(0)
    before = counted.disk.ops
    log = counted.open(**options)
    operations = counted.disk.ops
    check_split(counted, log, WHOLE)
    for crash_at in range(before + 1, operations + 1):
        bench = original.clone(crash_at)
        bench.disk.crash_at(crash_at)
        with pytest.raises(SimulatedCrash):
            bench.open(**options)
        bench.lose_power()
        check_split(bench, bench.open(**options), WHOLE)


@pytest.mark.spec("LS-09")
@pytest.mark.parametrize("clean", [True, False])
def test_a_segment_whose_first_batch_is_too_far_leaves_an_empty_one_behind(clean: bool) -> None:
    bench = Bench(COMPACTED)
    data = bench.write_segment(
        0, [batch(2, 200, base_offset=FAR, epoch=0), batch(2, 200, base_offset=FAR + 9, epoch=0)]
    )
    log = bench.open(was_clean=clean)
    assert content(log) == data
    assert log.local.segments.base_offsets == (0, FAR)
    assert (log.log_start_offset, log.log_end_offset) == (0, FAR + 11)


@pytest.mark.spec("LS-09")
@pytest.mark.parametrize("clean", [True, False])
def test_message_sets_of_old_formats_are_split_where_their_offsets_say(clean: bool) -> None:
    bench = Bench(COMPACTED)
    parts = [
        plain_message(5, 0, b"key", b"value", magic=0),
        compressed_wrapper([(7, 0, b"a", b"b"), (9, 0, b"c", b"d")], magic=1, codec=1),
        compressed_wrapper([(FAR - 3, 0, b"a", b"b"), (FAR, 0, b"c", b"d")], magic=1, codec=1),
        batch(1, 100, base_offset=FAR + 1, epoch=1),
    ]
    data = bench.write_segment(0, parts)
    log = bench.open(was_clean=clean)
    assert content(log) == data
    assert log.local.segments.base_offsets == (0, FAR)
    assert log.read(FAR - 3, 1).read() == parts[2]


TAILS = [bytes(700), b"\xff" * 90, random.Random(2).randbytes(5000), bytes(PARTS[0][:80]), bytes(PARTS[0]) * 2]


@pytest.mark.spec("LS-09", "LS-52")
@pytest.mark.parametrize("tail", TAILS, ids=["zeros", "ones", "noise", "torn batch", "older batches"])
def test_what_is_torn_behind_an_overflow_is_cut_and_the_rest_split(tail: bytes) -> None:
    bench = Bench(COMPACTED)
    bench.write_segment(0, [*PARTS, tail])
    check_split(bench, bench.open(), WHOLE)


@pytest.mark.spec("LS-09", "LS-52")
def test_a_damaged_batch_is_no_place_to_split_at() -> None:
    """Its offset, far away, lies: it must not name a segment."""
    bench = Bench(COMPACTED)
    damaged = bytearray(batch(1, 300, base_offset=FARTHER * 3, epoch=2))
    damaged[-1] ^= 1
    bench.write_segment(0, [*PARTS, damaged, batch(1, 300, base_offset=FARTHER * 3 + 1)])
    log = bench.open()
    check_split(bench, log, WHOLE)
    assert log.log_end_offset == END


def test_a_split_leaves_the_old_files_to_be_deleted_later() -> None:
    bench = overflowing()
    bench.open(was_clean=True)
    assert any(name.endswith(DELETED_SUFFIX) for name in names_in(bench.disk))
    bench.world.jobs.tick(bench.world.clock.now_ms() + 1000)
    bench.finish_jobs()
    assert not any(name.endswith(DELETED_SUFFIX) for name in names_in(bench.disk))


def test_a_gap_between_segments_is_not_an_overflow() -> None:
    bench = Bench(COMPACTED)
    first = bench.write_segment(0, PARTS[:2])
    second = bench.write_segment(FAR, PARTS[4:5])
    log = bench.open(was_clean=True)
    assert content(log) == first + second
    assert log.local.segments.base_offsets == (0, FAR)
