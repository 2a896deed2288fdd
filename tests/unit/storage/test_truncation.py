"""Cutting a log back, emptying it, and moving its start: log, indexes, epochs and producers agree afterwards."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from watched_files import WatchedFiles

from support.logs.log_files import (
    CONFIG,
    DIRECTORY,
    Bench,
    append,
    append_marker,
    attempt,
    batch,
    batches_of,
    busy_log,
    content,
    derived,
    fill,
    log_path,
    names_in,
    offsets_of,
    read_file,
    reads_everywhere,
    snapshot_path,
)
from tailrace.model.errors import OffsetOutOfRangeError, SegmentGoneError, StorageError
from tailrace.record.shallow import batches
from tailrace.sim.faults import SimulatedCrash, Survival
from tailrace.storage.epoch_cache import EpochEntry
from tailrace.storage.unified_log import UnifiedLog


def busy() -> tuple[Bench, UnifiedLog]:
    bench = Bench()
    log = bench.open()
    busy_log(log)
    log.flush()
    bench.finish_jobs()
    return bench, log


def boundaries() -> list[int]:
    _, log = busy()
    return [each.base_offset for each in batches_of(log)] + [log.log_end_offset]


def insides() -> list[int]:
    _, log = busy()
    return [each.last_offset for each in batches_of(log) if each.last_offset > each.base_offset]


def rebuilt(data: bytes) -> Any:
    """What a load from nothing but these batches makes."""
    bench = Bench()
    bench.write_segment(0, [data])
    return derived(bench.open())


@pytest.mark.spec("LS-33")
@pytest.mark.parametrize("offset", boundaries()[1:])
def test_a_log_cut_at_a_batch_is_the_log_that_ended_there(offset: int) -> None:
    bench, log = busy()
    log.update_high_watermark(log.log_end_offset)
    kept = b"".join(content(log)[each.position : each.end] for each in batches_of(log) if each.last_offset < offset)
    assert log.truncate_to(offset) == (offset < 24)
    assert log.log_end_offset == log.high_watermark == offset
    assert log.recovery_point <= offset
    assert content(log) == kept
    found = derived(log)
    assert found == rebuilt(kept)
    reads = reads_everywhere(log)
    bench.lose_power(Survival.NOTHING)
    again = bench.open(recovery_point=offset)
    assert (derived(again), reads_everywhere(again)) == (found, reads)
    assert bench.findings() == []
    assert append(again, batch(1, 100), epoch=5) == offset


@pytest.mark.spec("LS-33")
@pytest.mark.parametrize("offset", insides())
def test_a_batch_that_is_cut_through_goes_whole(offset: int) -> None:
    bench, log = busy()
    holding = next(each for each in batches_of(log) if each.base_offset < offset <= each.last_offset)
    kept = content(log)[: holding.position]
    assert log.truncate_to(offset)
    assert log.log_end_offset == offset
    assert content(log) == kept
    assert derived(log) == rebuilt(kept)._replace(end=offset, epochs=log.epochs.entries)
    assert all(entry.start_offset < offset for entry in log.epochs.entries)
    assert append(log, batch(2, 100), epoch=5) == offset
    assert offsets_of(log)[-1] == (offset, offset + 1)
    bench.kill()
    again = bench.open(recovery_point=min(log.recovery_point, holding.base_offset))
    assert again.log_end_offset == offset + 2
    assert content(again)[: len(kept)] == kept


@pytest.mark.spec("LS-33")
def test_a_cut_below_the_first_segment_restarts_there() -> None:
    bench = Bench()
    log = bench.open(log_start_offset=100)
    fill(log, [2] * 12)
    assert log.truncate_to(50)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (50, 50, 50)
    assert log.local.segments.base_offsets == (50,)
    assert log.epochs.entries == ()
    assert append(log, batch(1, 10), epoch=7) == 50


@pytest.mark.spec("LS-33", "LS-21")
def test_log_start_and_high_watermark_follow_a_cut_below_them() -> None:
    _, log = busy()
    log.update_high_watermark(24)
    log.increment_log_start(20)
    log.truncate_to(12)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (12, 12, 12)
    log.bounds.check()


@pytest.mark.spec("LS-33")
@pytest.mark.parametrize("offset", [0, 10, 24, 1000, 2**40])
def test_a_log_that_restarts_is_empty_at_its_new_offset(offset: int) -> None:
    bench, log = busy()
    log.restart_at(offset)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (offset, offset, offset)
    assert log.local.segments.base_offsets == (offset,)
    assert log.epochs.entries == ()
    assert derived(log).producers == {}
    assert log.producers.first_unstable_offset is None
    bench.lose_power(Survival.NOTHING)
    again = bench.open(log_start_offset=offset)
    assert (again.log_start_offset, again.log_end_offset) == (offset, offset)
    assert not [name for name in names_in(bench.disk) if name.endswith(".snapshot") and int(name[:20]) != offset]
    assert append(again, batch(1, 100), epoch=9) == offset
    assert bench.findings() == []


@pytest.mark.spec("LS-33")
def test_a_restart_can_keep_an_earlier_log_start() -> None:
    _, log = busy()
    log.restart_at(1000, log_start=500)
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (500, 1000, 1000)
    log.bounds.check()


@pytest.mark.spec("LS-33")
@pytest.mark.parametrize(
    ("action", "checkpointed"),
    [
        (lambda log: log.truncate_to(7), {"recovery_point": 7}),
        (lambda log: log.restart_at(40), {"recovery_point": 24, "log_start_offset": 40}),
        (lambda log: log.restart_at(40, 0), {"recovery_point": 0}),
        (lambda log: log.restart_at(3), {"recovery_point": 3, "log_start_offset": 3}),
    ],
)
def test_lost_power_at_any_operation_of_a_cut_leaves_a_beginning_of_the_log(
    action: Callable[[UnifiedLog], Any], checkpointed: dict[str, int]
) -> None:
    """`checkpointed` is what the caller has made durable before."""
    counted, log = busy()
    whole = content(log)
    before = counted.disk.ops
    action(log)
    kept_bytes = log.local.size
    ends = {0} | {each.end for each in batches(whole)}
    for crash_at in range(before + 1, counted.disk.ops + 1):
        bench, log = busy()
        bench.disk.crash_at(crash_at)
        with pytest.raises(SimulatedCrash):
            action(log)
        bench.lose_power()
        found = bench.open(**checkpointed)
        data = content(found)
        start = found.log_start_offset
        assert whole.startswith(data) if start == 0 else data in whole
        assert kept_bytes <= len(data)
        assert start or len(data) in ends
        if data and start == 0:
            assert derived(found) == rebuilt(data)
        assert bench.findings() == []


@pytest.mark.spec("LS-33")
@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize(
    ("action", "recovery_point"), [(lambda log: log.truncate_to(1), 1), (lambda log: log.restart_at(60, 0), 0)]
)
def test_lost_power_while_segments_are_removed_leaves_no_hole(
    action: Callable[[UnifiedLog], Any], recovery_point: int, policy: str
) -> None:
    """Each segment has a snapshot at its base: a load would believe in a gap before it. The seeds find what an order of
    file operations without one of its syncs leaves."""
    for seed in (2, 4, 14, 16, 34, 56):
        for distance in range(1, 40):
            bench = Bench(seed=seed * 100 + distance, config=replace(CONFIG, cleanup_policy=(policy,)))
            log = bench.open()
            fill(log, [2] * 26)
            log.flush()
            bench.finish_jobs()
            whole = content(log)
            assert len(log.local.segments) == 5
            assert len(log.producers.snapshot_paths) >= 4
            bench.disk.crash_at(bench.disk.ops + distance)
            is_done = False
            with suppress(SimulatedCrash):
                action(log)
                is_done = True
            if is_done:
                break
            bench.lose_power()
            assert whole.startswith(content(bench.open(recovery_point=recovery_point))), (seed, distance)


@pytest.mark.spec("LS-33")
def test_what_was_cut_off_does_not_come_back_beside_new_data() -> None:
    for seed in range(20):
        bench = Bench(seed=seed)
        log = bench.open()
        busy_log(log)
        log.flush()
        bench.finish_jobs()
        log.truncate_to(5)
        recovery_point = log.recovery_point
        append(log, batch(1, 50), batch(1, 2500), batch(1, 2500), epoch=8)
        data = content(log)
        bench.lose_power()
        found = bench.open(recovery_point=recovery_point)
        assert data.startswith(content(found))
        assert {entry.epoch for entry in found.epochs.entries} <= {0, 8}
        assert not found.producers.producers.keys() & {4, 6}


@pytest.mark.spec("LS-33")
def test_a_slice_of_what_is_cut_off_says_so() -> None:
    _, log = busy()
    tail = log.read(22, 1000)
    log.truncate_to(20)
    with pytest.raises(SegmentGoneError):
        tail.read()


def failing_kinds() -> list[tuple[str, str]]:
    return [("rename", "*"), ("truncate", "*"), ("sync", "*.log"), ("sync_dir", "*"), ("unlink", "*"), ("write", "*")]


@pytest.mark.spec("LS-33", "LS-21")
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize(("op", "pattern"), failing_kinds())
def test_a_cut_that_the_disk_refuses_leaves_a_log_that_can_be_opened_again(op: Any, pattern: str, code: int) -> None:
    skip = 0
    while True:
        bench, log = busy()
        log.update_high_watermark(24)
        whole = content(log)
        bench.disk.fail_next(op, pattern, code, skip=skip)
        _, error = attempt(lambda: log.truncate_to(7))  # noqa: B023
        bench.disk.faults.heal()
        if error is None:
            break
        assert isinstance(error, StorageError)
        assert error.is_shortage == (code == errno.ENOSPC)
        log.bounds.check()
        with pytest.raises(StorageError):
            append(log, batch(1, 10))
        with pytest.raises(StorageError):
            log.truncate_to(3)
        bench.kill()
        found = bench.open(recovery_point=24)
        assert whole.startswith(content(found))
        assert found.log_end_offset >= 7
        skip += 1
    assert skip or op in ("write", "unlink")


@pytest.mark.spec("LS-22")
def test_a_log_start_beyond_the_high_watermark_is_refused() -> None:
    _, log = busy()
    log.update_high_watermark(10)
    with pytest.raises(OffsetOutOfRangeError):
        log.increment_log_start(11)
    assert log.log_start_offset == 0
    assert log.increment_log_start(10)
    assert not log.increment_log_start(10)


@pytest.mark.spec("LS-22")
def test_advancing_the_log_start_trims_epochs_and_producer_state(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, log = busy()
    told: list[int] = []
    tell = log.producers.on_log_start_offset_incremented
    monkeypatch.setattr(log.producers, "on_log_start_offset_incremented", lambda at: (told.append(at), tell(at)))
    log.update_high_watermark(24)
    assert log.epochs.entries == (EpochEntry(0, 0), EpochEntry(1, 10), EpochEntry(3, 19))
    log.increment_log_start(12)
    assert log.epochs.entries == (EpochEntry(1, 12), EpochEntry(3, 19))
    log.increment_log_start(21)
    assert log.epochs.entries == (EpochEntry(3, 21),)
    assert told == [12, 21]
    assert log.last_stable_offset == 21, "a transaction from before the start holds back nothing below it"
    bench.finish_jobs()
    assert read_file(bench.disk, f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n1\n3 21\n"
    bench.close(log)
    again = bench.open(was_clean=True, log_start_offset=21)
    assert (again.epochs.entries, again.log_start_offset) == ((EpochEntry(3, 21),), 21)


@pytest.mark.spec("LS-22")
def test_transactions_that_ended_below_the_log_start_await_no_replication() -> None:
    bench = Bench()
    log = bench.open()
    append(log, batch(1, 100, producer=2, sequence=0, transactional=True))
    append_marker(log, 2, commit=True)
    append(log, batch(1, 100))
    assert log.producers.first_unstable_offset is not None
    log.update_high_watermark(3)
    log.increment_log_start(2)
    assert log.producers.first_unstable_offset is None
    assert not log.producers.is_empty, "the producer stays known"


@pytest.mark.spec("LS-44")
def test_a_load_leaves_what_lies_below_the_log_start_to_retention() -> None:
    bench, log = busy()
    bench.close(log)
    assert bench.disk.exists(snapshot_path(10))
    bench.open(was_clean=True, log_start_offset=10)
    assert bench.disk.exists(snapshot_path(10)), "it will be all that is known of the producers before"
    assert bench.disk.exists(log_path(0))


@pytest.mark.spec("LS-50")
def test_a_cut_of_the_epochs_is_written_in_the_background() -> None:
    bench = Bench()
    watch = WatchedFiles(bench.disk)
    log = bench.open(files=watch)
    busy_log(log)
    bench.finish_jobs()
    checkpoint = f"{DIRECTORY}/leader-epoch-checkpoint"
    before = read_file(bench.disk, checkpoint)
    watch.opens.clear()
    log.truncate_to(10)
    assert log.epochs.latest_epoch == 0
    assert read_file(bench.disk, checkpoint) == before
    assert [name for name, _ in watch.opens if name.startswith(checkpoint)] == []
    assert any("leader-epoch-checkpoint" in name for name in bench.world.jobs.pending)
    bench.finish_jobs()
    assert read_file(bench.disk, checkpoint) == b"0\n1\n0 0\n"
    assert checkpoint + ".flush.tmp" in watch.syncs


def test_an_empty_log_is_cut_and_restarted() -> None:
    bench = Bench()
    log = bench.open()
    assert not log.truncate_to(0)
    log.restart_at(0)
    assert append(log, batch(1, 10)) == 0
