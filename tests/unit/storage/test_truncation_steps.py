"""A truncation in steps: what readers, appends and everything else find between two of them."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from support.logs.builders import CONFIG, SimLog, batch, in_transaction, marker, offsets
from support.logs.job_thread import OwnerCalls
from tailrace.config.log import LogConfig
from tailrace.model.errors import LogTruncatingError, OffsetOutOfRangeError, SegmentGoneError, StorageError
from tailrace.storage.epoch_cache import EpochEntry
from tailrace.storage.fetch import Isolation
from tailrace.storage.origin import Origin
from tailrace.storage.steps import CalledOffError, JobRun, Steps

SMALL = replace(CONFIG, segment_bytes=1000, retention_ms=-1)


class Cutting:
    """A log of several segments, with one truncation as jobs."""

    def __init__(self, config: LogConfig = SMALL, count: int = 40) -> None:
        self.sim = SimLog(config)
        self.log = self.sim.log
        self.jobs = self.sim.world.jobs
        self.outcomes: list[object] = []
        self.sim.fill(count)
        self.log.flush()
        self.jobs.run_all()
        self.log.update_high_watermark(count)

    def start(self, steps: Steps[Any]) -> None:
        JobRun("truncate-log", steps, self.jobs, self.outcomes.append, self.outcomes.append).start()

    def contents(self) -> list[int]:
        found: list[int] = []
        while len(found) < self.log.log_end_offset:
            found += [first for first, _ in offsets(self.log.read(len(found), 1 << 20).read())]
        return found


def truncation(cutting: Cutting) -> Steps[Any]:
    return cutting.log.truncating(13)


def restart(cutting: Cutting) -> Steps[Any]:
    return cutting.log.restarting_at(70)


both = pytest.mark.parametrize(("steps_of", "end"), [(truncation, 13), (restart, 70)])


@pytest.mark.spec("LS-33")
@both
def test_the_owner_of_a_log_does_no_fsync_for_a_truncation(steps_of: Callable[[Cutting], Steps[Any]], end: int) -> None:
    cutting = Cutting()
    owner = OwnerCalls(cutting.sim.world, cutting.sim.tape)
    cutting.sim.tape.rewind()
    cutting.start(steps_of(cutting))
    cutting.jobs.run_all()
    assert len(cutting.outcomes) == 1
    assert owner.of("sync", "sync_dir") == []
    assert cutting.sim.tape.of("sync_dir")
    assert cutting.log.log_end_offset == end


@pytest.mark.spec("LS-33")
def test_segments_go_with_one_sync_of_the_directory() -> None:
    cutting = Cutting()
    assert len(cutting.log.local.segments) > 5
    cutting.sim.tape.rewind()
    cutting.log.truncate_to(3)
    snapshots, renames, indexes = 1, 1, 1
    assert len(cutting.sim.tape.of("sync_dir")) == snapshots + renames + indexes
    compacted = Cutting(replace(SMALL, cleanup_policy=("compact",)))
    dropped = len(compacted.log.local.segments) - 1
    compacted.sim.tape.rewind()
    compacted.log.truncate_to(3)
    assert len(compacted.sim.tape.of("sync_dir")) == snapshots + dropped + indexes


@pytest.mark.spec("LS-33", "LS-34")
@both
def test_between_the_steps_reads_are_served_and_writes_are_refused(
    steps_of: Callable[[Cutting], Steps[Any]], end: int
) -> None:
    cutting = Cutting()
    log, checked = cutting.log, 0
    steps = steps_of(cutting)
    cutting.start(steps)
    while not cutting.outcomes:
        checked += 1
        assert log.is_truncating
        assert (log.log_end_offset, log.high_watermark, log.recovery_point) == (end, end, min(end, 40))
        log.bounds.check()
        if end < 40:
            assert cutting.contents() == list(range(end))
            assert log.read(end, 100).records is None
        with pytest.raises(OffsetOutOfRangeError):
            log.read(end + 1, 100)
        before = log.local.size
        for refused in (
            lambda: log.append_as_leader([batch()], 0),
            lambda: log.append_as_follower(batch()),
            log.roll,
            lambda: log.delete_old_segments(pytest.fail),
            lambda: log.truncate_to(2),
            lambda: log.restart_at(5),
        ):
            with pytest.raises(LogTruncatingError):
                refused()
        assert log.local.size == before
        log.flush()
        cutting.jobs.run_one()
    assert checked > 3
    assert not log.is_truncating
    assert cutting.sim.append(batch())[0].first_offset == end
    assert log.truncate_to(end), "another truncation"


@pytest.mark.spec("LS-33")
def test_a_leader_epoch_can_begin_in_the_middle_of_a_truncation() -> None:
    cutting = Cutting()
    cutting.start(cutting.log.truncating(13))
    cutting.log.begin_epoch(5)
    cutting.jobs.run_all()
    assert cutting.outcomes == [True]
    assert cutting.log.epochs.latest_entry == EpochEntry(5, 13)
    cutting.sim.append(batch(), epoch=5)
    again = cutting.sim.kill_and_open(recovery_point=13)
    assert again.epochs.entries == (EpochEntry(0, 0), EpochEntry(5, 13))


@pytest.mark.spec("LS-33", "LS-23")
def test_a_flush_that_began_before_the_cut_moves_no_recovery_point() -> None:
    cutting = Cutting()
    cutting.sim.fill(3)
    cutting.log.flush()
    cutting.start(cutting.log.truncating(13))
    cutting.jobs.run_all()
    assert cutting.outcomes == [True]
    assert cutting.log.recovery_point == 13
    cutting.sim.fill(30)
    assert cutting.log.recovery_point <= cutting.log.log_end_offset


@pytest.mark.spec("LS-31", "LS-33")
def test_no_record_is_stable_until_producers_are_rebuilt() -> None:
    """The marker of a transaction goes with the cut, though it was below the high watermark."""
    sim = SimLog()
    sim.append(batch())
    sim.append(in_transaction(7, 0))
    sim.append(marker(7, commit=True), origin=Origin.COORDINATOR)
    sim.all_moved_to_end()
    log, outcomes = sim.log, list[object]()
    assert log.last_stable_offset == 3
    JobRun("truncate-log", log.truncating(2), sim.world.jobs, outcomes.append, outcomes.append).start()
    while not outcomes:
        assert log.last_stable_offset == 0
        log.update_high_watermark(2)
        assert log.read(0, 1000, Isolation.TXN_COMMITTED).records is None
        sim.world.jobs.run_one()
    assert (log.last_stable_offset, log.high_watermark) == (1, 2)
    assert log.producers.is_in_transaction(7, 0)


@pytest.mark.spec("LS-34")
def test_a_slice_of_what_is_cut_off_is_void_from_the_first_step_on() -> None:
    cutting = Cutting()
    tail = cutting.log.read(12, 1000)
    cutting.start(cutting.log.truncating(13))
    with pytest.raises(SegmentGoneError):
        tail.read()


@both
@pytest.mark.parametrize("done_steps", range(6))
def test_a_log_that_is_let_go_of_no_longer_touches_files(
    steps_of: Callable[[Cutting], Steps[Any]], end: int, done_steps: int
) -> None:
    cutting = Cutting()
    owner = OwnerCalls(cutting.sim.world, cutting.sim.tape)
    cutting.start(steps_of(cutting))
    for _ in range(done_steps):
        cutting.jobs.run_one()
    assert not cutting.outcomes
    cutting.log.abandon()
    owner.calls.clear()
    cutting.jobs.run_all()
    (error,) = cutting.outcomes
    assert isinstance(error, CalledOffError)
    assert owner.calls == []


@both
def test_a_log_is_not_closed_cleanly_in_the_middle(steps_of: Callable[[Cutting], Steps[Any]], end: int) -> None:
    cutting = Cutting()
    cutting.start(steps_of(cutting))
    with pytest.raises(StorageError, match="truncation"):
        cutting.log.close()
    cutting.jobs.run_all()
    (error,) = cutting.outcomes
    assert isinstance(error, CalledOffError)


@both
@pytest.mark.parametrize("op", ["sync", "sync_dir", "rename", "truncate", "unlink"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_disk_that_fails_at_any_step_ends_the_writing(
    steps_of: Callable[[Cutting], Steps[Any]], end: int, op: Any, code: int
) -> None:
    failures = 0
    for skip in range(12):
        cutting = Cutting()
        cutting.sim.disk.fail_next(op, "*", code, skip=skip)
        cutting.start(steps_of(cutting))
        cutting.jobs.run_all()
        cutting.sim.disk.faults.heal()
        (outcome,) = cutting.outcomes
        assert not cutting.log.is_truncating
        if not isinstance(outcome, StorageError):  # the epochs, in the background, can be written again
            continue
        failures += 1
        with pytest.raises(StorageError):
            cutting.sim.append(batch())
        cutting.log.bounds.check()
        found = cutting.sim.kill_and_open(recovery_point=min(end, 40), log_start_offset=end if end > 40 else 0)
        assert found.log_end_offset >= end
    assert failures or end > 40
