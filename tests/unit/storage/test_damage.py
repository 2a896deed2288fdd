"""Bytes that no crash leaves behind, but a failing disk or a hostile sender may: each test is a fault once found."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from support.hostile.mutation import fix_crcs, fix_snapshot_crc
from support.logs.builders import SimLog, bases, holds, marker, offsets, placed
from support.logs.log_files import (
    TIMESTAMP,
    append,
    batch,
    content,
    index_path,
    log_path,
    offsets_of,
    read_file,
    write_file,
)
from support.logs.log_files import Bench as LogBench
from tailrace.model.errors import (
    CorruptMessageError,
    IndexAppendError,
    InvalidDataError,
    InvalidRecordError,
    OffsetOutOfRangeError,
    SegmentOffsetOverflowError,
    StorageError,
    TailraceError,
)
from tailrace.model.offsets import GREATEST_OFFSET
from tailrace.record.batch import MAGIC_AT, set_base_offset
from tailrace.record.legacy import plain_message
from tailrace.record.shallow import batches
from tailrace.storage import producer_snapshot
from tailrace.storage.producer_entry import ProducerStateEntry

FAR = 1 << 40


def filled(segments: int = 3, batches_each: int = 4) -> LogBench:
    """A log that was closed cleanly, of segments with so many batches of one record each."""
    bench = LogBench()
    log = bench.open()
    for number in range(segments):
        if number:
            log.roll()
        for _ in range(batches_each):
            append(log, batch(1, 300))
    bench.finish_jobs()
    bench.close(log)
    return bench


def damage(bench: LogBench, base_offset: int, place: int) -> None:
    """The magic of the batch number `place` of a segment is nonsense."""
    data = bytearray(read_file(bench.disk, log_path(base_offset)))
    data[list(batches(data))[place].position + MAGIC_AT] = 77
    write_file(bench.disk, log_path(base_offset), data)


# Files


def collect_in_a_cycle(read: Callable[[], object]) -> None:
    """The error becomes garbage that only the collector can find; what it holds is older than the cycle."""
    for _ in range(3):
        try:
            read()
        except InvalidDataError as error:
            cycle: list[object] = [error]
        cycle.append(cycle)
        del cycle
        gc.collect()


def test_an_error_from_within_a_snapshot_can_be_garbage() -> None:
    """CPython crashes when it collects a cycle with a view that an iterator of struct still uses."""
    data = bytearray(producer_snapshot.encode([ProducerStateEntry(3), ProducerStateEntry(4)]))
    data[10 + 46 : 10 + 46 + 8] = b"\xff" * 8
    fix_snapshot_crc(data)
    collect_in_a_cycle(lambda: producer_snapshot.decode(data))


# Offsets


@pytest.mark.spec("RF-11")
@pytest.mark.parametrize(("base_offset", "count"), [(GREATEST_OFFSET, 2), (GREATEST_OFFSET + 1, 1)])
def test_a_batch_that_ends_beyond_all_offsets_is_corrupt(base_offset: int, count: int) -> None:
    data = batch(count, 50)
    set_base_offset(data, 0, base_offset)
    with pytest.raises(CorruptMessageError, match="beyond"):
        list(batches(data))
    old = bytearray(plain_message(0, 0, None, b"v", magic=1))
    set_base_offset(old, 0, GREATEST_OFFSET + 1)
    with pytest.raises(CorruptMessageError, match="beyond"):
        list(batches(old))


def test_recovery_cuts_off_a_batch_that_ends_beyond_all_offsets() -> None:
    bench = LogBench()
    far = batch(2, 50, producer=5, sequence=0)
    set_base_offset(far, 0, GREATEST_OFFSET)
    kept = bench.write_segment(0, [batch(1, 50)])
    bench.write_segment(0, [kept, far])
    log = bench.open()
    assert content(log) == kept
    assert log.log_end_offset == 1


def test_a_log_without_offsets_left_takes_no_appends() -> None:
    log = SimLog(log_start_offset=GREATEST_OFFSET - 5).log
    with pytest.raises(OffsetOutOfRangeError, match="no offsets are left"):
        log.append_as_leader([batch(2)], 0)
    log.close()


# Segments that lie far apart


@pytest.mark.parametrize("was_clean", [True, False])
def test_an_empty_segment_far_below_the_next_one_is_no_overflow(was_clean: bool) -> None:
    bench = LogBench()
    bench.write_segment(0, [])
    bench.write_segment(FAR, [batch(1, 50, base_offset=FAR)])
    log = bench.open(was_clean=was_clean, recovery_point=FAR)
    assert log.log_end_offset == FAR + 1
    assert bases(log) == [0, FAR]


@pytest.mark.parametrize("is_last", [True, False])
def test_a_segment_that_cannot_be_split_does_not_hold_up_a_load(is_last: bool) -> None:
    bench = LogBench()
    first, far = batch(1, 50), batch(1, 50, base_offset=FAR)
    far[-1] ^= 1
    bench.write_segment(0, [first, far])
    if not is_last:
        bench.write_segment(2 * FAR, [batch(1, 50, base_offset=2 * FAR)])
    log = bench.open(was_clean=True)
    assert log.log_end_offset == (1 if is_last else 2 * FAR + 1)


def test_a_roll_over_a_gap_moves_the_end_as_a_restart_would() -> None:
    bench = LogBench()
    log = bench.open()
    append(log, batch(1, 50))
    log.roll_for(500, 500)
    assert log.log_end_offset == 500
    append(log, batch(1, 50))
    bench.finish_jobs()
    bench.close(log)
    assert offsets_of(bench.open(was_clean=True)) == [(0, 0), (500, 500)]


@pytest.mark.parametrize(
    ("damaged", "error"),
    [
        (placed(marker(7, commit=True), FAR)[:61] + b"\x0c\0\0\0\x01\x01\0", InvalidRecordError),
        (placed(batch(1, 50), FAR) + placed(batch(1, 50), 2 * FAR), SegmentOffsetOverflowError),
    ],
)
def test_a_set_refused_behind_a_gap_leaves_the_log_as_it_was(damaged: bytearray, error: type[TailraceError]) -> None:
    if error is InvalidRecordError:
        damaged[8:12] = (len(damaged) - 12).to_bytes(4, "big")
    fix_crcs(damaged)
    sim = SimLog()
    sim.append(batch(1, 50))
    with pytest.raises(error):
        sim.log.append_as_follower(damaged)
    assert sim.log.log_end_offset == 1
    assert bases(sim.log) == [0]
    sim.append(batch(1, 50))
    assert holds(sim.log) == [(0, 0), (1, 1)]


# Durable data that is damaged


def test_a_truncation_into_damage_removes_nothing() -> None:
    bench = filled()
    damage(bench, 4, 3)
    log = bench.open(was_clean=True)
    with pytest.raises(CorruptMessageError):
        log.truncate_to(7)
    assert bases(log) == [0, 4, 8]
    assert log.log_end_offset == 12
    with pytest.raises(StorageError, match="truncate to 7"):
        log.append_as_leader([batch(1, 50)], 0)


def test_a_torn_end_does_not_stay_below_what_is_appended_after_a_truncation() -> None:
    bench = filled()
    data = read_file(bench.disk, log_path(4))
    write_file(bench.disk, log_path(4), data[: next(batches(data)).size] + b"torn")
    log = bench.open(was_clean=True)
    log.truncate_to(7)
    append(log, batch(2, 50))
    before = content(log)
    bench.finish_jobs()
    bench.close(log)
    again = bench.open(was_clean=True)
    assert content(again) == before
    assert again.log_end_offset == 9


def test_an_active_segment_that_goes_backwards_is_proven_though_it_was_closed_cleanly() -> None:
    bench = filled(segments=1)
    data = read_file(bench.disk, log_path(0))
    write_file(bench.disk, log_path(0), data + batch(1, 50))
    log = bench.open(was_clean=True)
    assert content(log) == data
    assert log.log_end_offset == 4


def test_an_active_segment_below_its_own_base_is_proven_though_it_was_closed_cleanly() -> None:
    bench = filled(segments=2)
    write_file(bench.disk, log_path(4), read_file(bench.disk, log_path(0)))
    log = bench.open(was_clean=True)
    assert log.log_end_offset == 4
    log.roll()
    append(log, batch(1, 50))
    assert log.log_end_offset == 5


def test_damage_is_the_datas_fault_and_indexes_are_rebuilt_for_it_only_once() -> None:
    bench = filled(segments=2, batches_each=6)
    damage(bench, 0, 4)
    log = bench.open(was_clean=True)
    rebuilt = []
    for _ in range(3):
        with pytest.raises(CorruptMessageError, match=r"0\.log from byte"):
            log.read(4, 100)
        rebuilt.append(bench.disk.ops)
    assert rebuilt[0] == rebuilt[1] == rebuilt[2]


def test_a_segment_that_goes_backwards_can_be_indexed_up_to_there() -> None:
    bench = LogBench()
    rising = [batch(1, 300, base_offset=n, timestamp=TIMESTAMP + n) for n in range(4)]
    bench.write_segment(0, [*rising, batch(1, 300, base_offset=1, timestamp=TIMESTAMP + 50)])
    bench.write_segment(4, [batch(1, 300, base_offset=4)])
    log = bench.open(was_clean=True)
    assert offsets(log.read(0, 1 << 20).read()) == [(0, 0), (1, 1), (2, 2), (3, 3), (1, 1)]
    assert [log.read(offset, 1).start.offset for offset in range(5)] == list(range(5))


# Indexes that lie


def test_an_index_that_goes_beyond_the_end_of_the_log_is_made_anew_before_appends() -> None:
    bench = filled(segments=1)
    raw = bytearray(read_file(bench.disk, index_path(0)))
    raw[-8:-4] = (70_000).to_bytes(4, "big")
    write_file(bench.disk, index_path(0), raw)
    log = bench.open(was_clean=True)
    for _ in range(3):
        append(log, batch(1, 300))
    assert log.log_end_offset == 7


def test_an_append_that_cannot_be_indexed_is_undone() -> None:
    bench = filled(segments=1)
    log = bench.open(was_clean=True)
    log.local.active.offset_index.append(90_000, 900_000)
    log.append_as_leader([batch(1, 300)], 0)  # one batch more may go in before the next entry is due
    before = content(log)
    with pytest.raises(IndexAppendError):
        log.append_as_leader([batch(1, 300)], 0)
    assert content(log) == before == read_file(bench.disk, log_path(0))
