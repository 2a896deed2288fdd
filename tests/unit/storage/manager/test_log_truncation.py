"""Truncation of many logs at a time through the log manager: checkpoints first, then the steps of each, as jobs."""

from __future__ import annotations

import errno
import random
from collections.abc import Mapping

import pytest

from support.logs.directory_moves import MovingWorld
from support.logs.job_thread import OwnerCalls
from support.logs.managers import P0, ManagedWorld, offsets_in
from tailrace.model.errors import LogDirUnavailableError, LogTruncatingError, StorageError, TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.sim.faults import SimulatedCrash
from tailrace.storage.steps import CalledOffError

Outcome = Mapping[TopicPartition, TailraceError]


def filled(count: int = 3, records: int = 40, **options: object) -> tuple[ManagedWorld, list[TopicPartition]]:
    run = ManagedWorld(**options)  # type: ignore[arg-type]
    run.start()
    partitions = [TopicPartition("t", index) for index in range(count)]
    for partition in partitions:
        run.create(partition)
        run.append(partition, records)
        run.flush(partition)
    return run, partitions


@pytest.mark.spec("LM-36", "LS-33")
def test_the_owner_does_no_fsync_and_checkpoints_once_for_all_logs() -> None:
    run, partitions = filled(8)
    owner = OwnerCalls(run.world, run.tape)
    run.tape.rewind()
    outcomes: list[Outcome] = []
    run.manager.truncate_to(dict.fromkeys(partitions, 11), outcomes.append)
    run.manager.truncate_fully_and_start_at(partitions[0], 500, outcomes.append)
    assert outcomes == []
    run.run()
    assert outcomes == [{}, {}]
    assert owner.of("sync", "sync_dir") == []
    checkpoints = [path for path in run.tape.of("rename") if path.startswith("/a/recovery-point")]
    assert len(checkpoints) <= 2, "one for all, and perhaps one for the log that starts over"
    assert [run.log(each).log_end_offset for each in partitions] == [500, *[11] * 7]
    run.restart(power=True)
    assert [offsets_in(run.log(each)) for each in partitions] == [[], *[list(range(11))] * 7]


def test_a_log_is_whole_until_checkpoints_are_written_and_then_refuses_appends() -> None:
    run, (first, *_) = filled()
    outcomes: list[Outcome] = []
    run.manager.truncate_to({first: 11}, outcomes.append)
    while run.log(first).log_end_offset == 40:
        assert offsets_in(run.log(first)) == list(range(40))
        with pytest.raises(LogTruncatingError):
            run.append(first)
        assert run.jobs.run_one()
    assert run.log(first).log_end_offset == 11
    with pytest.raises(LogTruncatingError):
        run.append(first)
    run.run()
    assert outcomes == [{}]
    run.append(first)
    assert run.log(first).log_end_offset == 12


def test_truncations_of_one_log_follow_each_other() -> None:
    run, (first, second, _) = filled()
    outcomes: list[tuple[str, Outcome]] = []
    run.manager.truncate_to({first: 30, second: 30}, lambda errors: outcomes.append(("a", errors)))
    run.manager.truncate_to({first: 20}, lambda errors: outcomes.append(("b", errors)))
    run.manager.truncate_fully_and_start_at(first, 100, lambda errors: outcomes.append(("c", errors)))
    run.manager.truncate_to({first: 5}, lambda errors: outcomes.append(("d", errors)))
    run.run()
    assert sorted(outcomes) == [("a", {}), ("b", {}), ("c", {}), ("d", {})]
    assert [name for name, _ in outcomes if name != "a"] == ["b", "c", "d"]
    assert (run.log(first).log_start_offset, run.log(first).log_end_offset) == (5, 5)
    assert run.log(second).log_end_offset == 30


def test_a_checkpoint_that_fails_leaves_the_log_as_it_was() -> None:
    run, (first, *_) = filled()
    run.disk.fail_next("create", "/*/recovery-point*", errno.ENOSPC, times=None)  # type: ignore[arg-type]
    with pytest.raises(StorageError):
        run.truncate_to({first: 11})
    run.disk.faults.heal()
    assert offsets_in(run.log(first)) == list(range(40))
    run.manager.checkpoint_recovery_points()
    run.run()
    assert b"t 0 40" in run.read(f"{run.manager.directory_of(first).path}/recovery-point-offset-checkpoint")  # type: ignore[union-attr]
    run.truncate_to({first: 11})
    run.append(first)


def test_a_truncation_that_is_no_longer_wanted_leaves_the_log_and_its_checkpoints_as_they_were() -> None:
    run, (first, second, _) = filled()
    run.log(first).update_high_watermark(40)
    run.manager.increment_log_start(first, 9, lambda: None, pytest.fail)
    run.manager.checkpoint_recovery_points()
    run.run()
    directory = run.log(first).dir.rpartition("/")[0]
    checkpoints = [f"{directory}/{name}-offset-checkpoint" for name in ("recovery-point", "log-start")]
    before = [run.read(path) for path in checkpoints]
    outcomes: list[Outcome] = []

    def is_wanted(partition: TopicPartition) -> bool:
        run.log(partition).begin_epoch(5)  # it leads by now
        return partition != first

    run.manager.truncate_to({first: 5, second: 11}, outcomes.append, is_wanted)
    run.run()
    run.manager.truncate_fully_and_start_at(first, 500, outcomes.append, is_wanted=is_wanted)
    run.run()
    assert [type(outcome.get(first)) for outcome in outcomes] == [CalledOffError] * 2
    assert offsets_in(run.log(first)) == list(range(9, 40))
    assert run.log(second).log_end_offset == 11
    assert [run.read(path) for path in checkpoints] == before
    run.append(first)
    run.flush(first)
    run.restart(power=True)
    assert offsets_in(run.log(first)) == list(range(9, 41))


def test_periodic_work_in_the_middle_changes_nothing() -> None:
    """Checkpoints, flushes and retention between any two steps, and in any order of jobs."""
    for seed in range(20):
        run, (first, *_) = filled()
        run.order = random.Random(seed)
        outcomes: list[Outcome] = []
        run.manager.truncate_to({first: 11}, outcomes.append)
        while not outcomes:
            run.manager.checkpoint_recovery_points()
            run.manager.checkpoint_log_starts()
            run.manager.flush_dirty_logs()
            run.log(first).flush()
            assert run.manager.delete_old_segments() == 0
            for _ in range(12):
                run.jobs.run_one(run.order)
        run.run()
        assert outcomes == [{}]
        assert run.log(first).recovery_point == 11
        assert offsets_in(run.log(first)) == list(range(11))
        run.append(first, 3)
        run.restart(power=True)
        assert offsets_in(run.log(first))[:11] == list(range(11))


@pytest.mark.parametrize("steps", range(8))
def test_a_partition_that_is_deleted_in_the_middle(steps: int) -> None:
    run, (first, second, _) = filled()
    outcomes: list[Outcome] = []
    run.manager.truncate_to({first: 11, second: 11}, outcomes.append)
    for _ in range(steps):
        run.jobs.run_one()
    run.delete(first)
    run.create(first)
    run.append(first, 5)
    run.run()
    (errors,) = outcomes
    assert isinstance(errors.get(first, LogDirUnavailableError("")), CalledOffError | LogDirUnavailableError)
    assert second not in errors
    assert run.log(second).log_end_offset == 11
    assert offsets_in(run.log(first)) == list(range(5))
    run.truncate_to({first: 2})
    assert run.log(first).log_end_offset == 2


@pytest.mark.parametrize("steps", range(8))
def test_a_shutdown_waits_for_truncations_and_is_clean(steps: int) -> None:
    run, (first, *_) = filled()
    outcomes: list[Outcome] = []
    run.manager.truncate_to({first: 11}, outcomes.append)
    run.manager.truncate_to({first: 7}, outcomes.append)
    for _ in range(steps):
        run.jobs.run_one()
    run.shutdown()
    assert len(outcomes) == 2
    run.restart()
    assert all(directory.was_clean for directory in run.manager.directories)
    assert run.log(first).log_end_offset in (11, 7, 40)
    assert run.log(first).log_end_offset in (7, 11) or outcomes[0]


def test_no_truncation_begins_while_the_logs_are_being_closed() -> None:
    run, (first, *_) = filled()
    outcomes: list[Outcome] = []
    closed: list[bool] = []
    run.manager.shutdown(lambda: closed.append(True))
    while not closed:
        run.manager.truncate_to({first: 11}, outcomes.append)
        run.jobs.run_one()
    run.run()
    assert outcomes
    assert all(isinstance(outcome[first], LogDirUnavailableError) for outcome in outcomes)
    run.restart()
    assert all(directory.was_clean for directory in run.manager.directories)
    assert offsets_in(run.log(first)) == list(range(40))


def test_a_directory_that_fails_in_the_middle_ends_the_truncation_with_an_error() -> None:
    run, partitions = filled(4)
    outcomes: list[Outcome] = []
    in_a = [each for each in partitions if run.log(each).dir.startswith("/a")]
    run.disk.fail_next("sync_dir", "/a/*")
    run.manager.truncate_to(dict.fromkeys(partitions, 11), outcomes.append)
    run.run()
    (errors,) = outcomes
    assert errors
    assert set(errors) <= set(in_a)
    assert all(run.manager.log(each) is None for each in in_a)
    assert all(run.log(each).log_end_offset == 11 for each in partitions if each not in in_a)
    run.shutdown()


@pytest.mark.parametrize("steps", range(0, 24, 3))
def test_a_move_does_not_end_in_the_middle(steps: int) -> None:
    run = MovingWorld(30)
    run.move()
    run.copy_until(30)
    for _ in range(steps):
        run.jobs.run_one()
    if not run.moved:
        run.truncate_to({P0: 20})
        run.pass_time(100)
        run.check_moved(20)


@pytest.mark.spec("LM-36", "LS-33")
def test_lost_power_at_any_operation_of_several_truncations_leaves_a_beginning_of_each() -> None:
    crash_at = 0
    while True:
        run, partitions = filled(2)
        crash_at += 1
        run.order = random.Random(crash_at)
        run.disk.crash_at(run.disk.ops + crash_at)
        outcomes: list[Outcome] = []
        try:
            run.manager.truncate_to({partitions[0]: 11, partitions[1]: 3}, outcomes.append)
            run.run()
        except SimulatedCrash:
            run.restart(power=True)
        else:
            break
        for partition, end in zip(partitions, (11, 3), strict=True):
            found = offsets_in(run.log(partition))
            assert found == list(range(len(found)))
            assert len(found) >= end
    assert crash_at > 20
