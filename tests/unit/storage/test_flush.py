"""Flushing: when an fsync happens, what it covers, and when the recovery point may say so."""

from __future__ import annotations

import errno

import pytest

from support.logs.builders import (
    DIRECTORY,
    SimLog,
    batch,
    bytes_of,
    holds,
    in_transaction,
    marker,
    produced_by,
    sized_batch,
    with_config,
)
from tailrace.model.errors import StorageError
from tailrace.sim.faults import Survival
from tailrace.storage.origin import Origin

SYNCS = ("sync", "sync_dir")


@pytest.fixture
def sim() -> SimLog:
    """With its epoch noted and durable, so that what comes after is the appends' own."""
    made = SimLog()
    made.append(batch(1))
    made.world.jobs.run_all()
    made.tape.rewind()
    return made


@pytest.mark.spec("LS-23")
def test_with_the_defaults_an_append_syncs_nothing(sim: SimLog) -> None:
    for n in range(200):
        sim.append(batch(3, 500), produced_by(7, n), batch(1))
    sim.append(in_transaction(8, 0), marker(8, commit=False), origin=Origin.COORDINATOR)
    sim.world.jobs.run_all()
    assert sim.tape.of(*SYNCS) == []
    assert sim.log.recovery_point == 0
    assert sim.log.flush_due_ms() > 2**62


@pytest.mark.spec("LS-23")
def test_flush_messages_starts_one_when_so_many_records_wait() -> None:
    sim = SimLog(with_config(flush_messages=5))
    sim.append(batch(1))
    sim.world.jobs.run_all()
    sim.tape.rewind()
    sim.append(batch(3))
    assert sim.world.jobs.pending == []
    sim.append(batch(1))
    assert sim.world.jobs.pending == ["flush-log"]
    assert sim.tape.of(*SYNCS) == []  # the append itself does not wait for the disk
    sim.world.jobs.run_all()
    assert sim.tape.of("sync").count(f"{DIRECTORY}/00000000000000000000.log") == 1
    assert sim.log.recovery_point == 5
    sim.append(batch(4))
    assert sim.world.jobs.pending == []
    sim.append(batch(1))
    assert sim.world.jobs.pending == ["flush-log"]


@pytest.mark.spec("LS-23")
def test_nothing_is_synced_at_or_below_the_recovery_point(sim: SimLog) -> None:
    sim.append(batch(9))
    sim.log.flush(6)
    sim.world.jobs.run_all()
    assert sim.log.recovery_point == 6
    sim.tape.rewind()
    done: list[int] = []
    for offset in (0, 5, 6):
        sim.log.flush(offset, done=lambda offset=offset: done.append(offset))  # type: ignore[misc]
    assert done == [0, 5, 6]
    assert (sim.world.jobs.pending, sim.tape.of(*SYNCS)) == ([], [])
    sim.log.flush(7)
    sim.world.jobs.run_all()
    assert (sim.log.recovery_point, len(sim.tape.of("sync"))) == (7, 3)  # data and two indexes


@pytest.mark.spec("LS-23")
def test_the_recovery_point_moves_when_the_job_is_done_and_not_before(sim: SimLog) -> None:
    sim.append(batch(4))
    done: list[str] = []
    sim.log.flush(done=lambda: done.append("done"))
    sim.append(batch(5))
    assert (sim.log.recovery_point, done) == (0, [])
    sim.world.jobs.run_one()
    assert sim.world.jobs.pending == ["flush-log: done"]
    assert (sim.log.recovery_point, done) == (0, [])
    sim.world.jobs.run_one()
    assert (sim.log.recovery_point, done) == (5, ["done"])  # where it stood when the flush began


@pytest.mark.spec("LS-23")
def test_a_flush_covers_every_segment_from_the_recovery_point_and_names_the_directory_last(sim: SimLog) -> None:
    sim.log.roll()
    sim.append(batch(1))
    sim.log.roll()
    sim.append(batch(1))
    sim.world.jobs.forget()  # the flushes of the rolls never came to run
    sim.tape.rewind()
    sim.log.flush()
    sim.world.jobs.run_all()
    logs = [path for path in sim.tape.of("sync") if path.endswith(".log")]
    assert logs == [f"{DIRECTORY}/{base:020}.log" for base in (0, 1, 2)]
    syncs = [call for call in sim.tape.calls if call[0] in SYNCS]
    last_log = syncs.index(("sync", logs[-1]))
    assert ("sync_dir", DIRECTORY) in syncs[last_log:]
    sim.append(batch(1))
    sim.tape.rewind()
    sim.log.flush()
    sim.world.jobs.run_all()
    assert [path for path in sim.tape.of("sync") if path.endswith(".log")] == logs[-1:]


@pytest.mark.spec("LS-23")
def test_flushes_that_end_out_of_order_never_take_the_recovery_point_back(sim: SimLog) -> None:
    sim.append(batch(1))
    sim.log.flush()
    sim.append(batch(1))
    sim.log.flush()
    first, second = sim.world.jobs._steps
    sim.world.jobs._steps[:] = [second, first]
    sim.world.jobs.run_all()
    assert sim.log.recovery_point == 3


@pytest.mark.spec("LS-23")
def test_a_flush_from_before_a_truncation_says_nothing_of_what_came_after(sim: SimLog) -> None:
    sim.append(batch(4))
    sim.log.flush()
    sim.world.jobs.run_one()
    sim.log.truncate_to(1)
    sim.append(batch(4))
    sim.world.jobs.run_all()
    assert (sim.log.recovery_point, sim.log.log_end_offset) == (0, 5)
    sim.log.flush()
    sim.world.jobs.run_all()
    sim.log.truncate_to(3)
    assert sim.log.recovery_point <= 3


@pytest.mark.spec("LS-23")
def test_a_log_says_when_its_flush_is_due() -> None:
    sim = SimLog(with_config(flush_ms=1000))
    start_ms = sim.world.clock.now_ms()
    assert sim.log.flush_due_ms() == start_ms + 1000
    sim.world.clock.advance(700)
    sim.append(batch(1))
    sim.log.flush()
    assert sim.log.flush_due_ms() == start_ms + 1000
    sim.world.jobs.run_all()
    assert sim.log.flush_due_ms() == start_ms + 1700


@pytest.mark.spec("LS-23")
@pytest.mark.parametrize("seed", range(10))
def test_power_lost_after_a_flush_takes_nothing_below_the_recovery_point(seed: int) -> None:
    sim = SimLog(seed=seed)
    sim.append(batch(3), produced_by(7, 0))
    sim.log.roll()
    sim.append(sized_batch(9000), in_transaction(8, 0), marker(8, commit=False), origin=Origin.COORDINATOR)
    sim.log.flush()
    sim.world.jobs.run_all()
    durable = bytes_of(sim.log)
    recovery_point = sim.log.recovery_point
    sim.append(batch(3, 3000))
    sim.world.restart(Survival.ANY)
    sim.open(recovery_point=recovery_point)
    assert bytes_of(sim.log)[: len(durable)] == durable
    assert sim.log.aborted_transactions(0, 99) == ((8, 5, 6, 7),)
    [again] = sim.append(produced_by(7, 0))
    assert again.is_duplicate


@pytest.mark.spec("LS-23")
def test_power_lost_without_a_flush_may_take_everything() -> None:
    sim = SimLog()
    sim.append(batch(3))
    sim.world.restart(Survival.NOTHING)
    sim.open()
    assert holds(sim.log) == []


@pytest.mark.spec("LS-23")
@pytest.mark.parametrize("path", ["*.log", "*.index", "*.timeindex", "*.txnindex"])
def test_a_failed_fsync_ends_the_writing(sim: SimLog, path: str) -> None:
    """A later fsync would report success for bytes that the kernel has dropped."""
    sim.append(in_transaction(8, 0), marker(8, commit=False), origin=Origin.COORDINATOR)
    sim.disk.faults.failed_sync_drops = True
    sim.disk.fail_next("sync", path, errno.ENOSPC)
    sim.log.flush()
    sim.world.jobs.run_all()
    assert sim.log.recovery_point == 0
    with pytest.raises(StorageError):
        sim.append(batch(1))
    assert holds(sim.log) == [(0, 0), (1, 1), (2, 2)]
    sim.log.flush()
    sim.world.jobs.run_all()
    with pytest.raises(StorageError):
        sim.append(batch(1))


@pytest.mark.spec("LS-23")
def test_after_a_failed_fsync_no_later_flush_moves_the_recovery_point(sim: SimLog) -> None:
    sim.append(batch(1))
    sim.disk.fail_next("sync", "*.log", errno.EIO)
    sim.log.flush()
    sim.log.flush()
    sim.world.jobs.run_all()
    assert sim.log.recovery_point == 0


def test_a_closed_log_needs_no_recovery(sim: SimLog) -> None:
    sim.append(sized_batch(5000), produced_by(7, 0))
    expected = bytes_of(sim.log)
    sim.log.close()
    sim.world.restart(Survival.NOTHING)
    sim.tape.rewind()
    sim.open(was_clean=True)
    assert sim.tape.of("write") == []
    assert sim.log.recovery_point == sim.log.log_end_offset == 3
    assert bytes_of(sim.log) == expected
    [again] = sim.append(produced_by(7, 0))
    assert again.is_duplicate
