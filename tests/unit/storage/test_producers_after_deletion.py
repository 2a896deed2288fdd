"""Producers whose batches were deleted stay known, through any number of restarts."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from support.logs.builders import CONFIG, SimLog, bases, in_transaction, produced_by
from tailrace.model.errors import InvalidProducerEpochError
from tailrace.storage import names

RETAINED = replace(CONFIG, cleanup_policy=("delete",), retention_ms=1000, file_delete_delay_ms=10)


def settled() -> SimLog:
    sim = SimLog(RETAINED)
    sim.append(produced_by(7, 0, epoch=1), produced_by(8, 0), in_transaction(9, 0))
    sim.all_moved_to_end()
    return sim


def known(sim: SimLog) -> dict[int, tuple[int, int]]:
    return {each.producer_id: (each.producer_epoch, each.last_seq) for each in sim.log.producers.producers.values()}


def expire_everything(sim: SimLog) -> int:
    """Returns the log start, which is a durable checkpoint of the caller's."""
    sim.world.clock.advance(5000)
    sim.log.delete_old_segments(lambda log_start: None)
    sim.world.jobs.run_all()
    return sim.log.log_start_offset


@pytest.mark.spec("LM-35", "LS-30")
@pytest.mark.parametrize("kills", [1, 2, 3])
def test_where_all_went_the_snapshot_at_the_log_start_outlives_every_kill(kills: int) -> None:
    sim = settled()
    before = known(sim)
    log_start = expire_everything(sim)
    assert log_start == sim.log.log_end_offset == 3
    for _ in range(kills):
        sim.kill_and_open(log_start_offset=log_start, recovery_point=log_start)
        assert known(sim) == before == {7: (1, 0), 8: (0, 0), 9: (0, 0)}
        assert names.snapshot_name(3) in sim.names()
        assert sim.log.producers.first_unstable_offset is not None
    assert sim.append(produced_by(8, 0))[0].is_duplicate
    with pytest.raises(InvalidProducerEpochError):
        sim.append(produced_by(7, 1, epoch=0))


@pytest.mark.spec("LS-30", "LS-49")
@pytest.mark.parametrize("kills", [1, 2, 3])
def test_a_log_start_in_the_middle_of_a_segment_costs_no_producer(kills: int) -> None:
    """The segment before is gone, and of its own only the second half is still in the log."""
    sim = settled()
    log_start = expire_everything(sim)
    sim.append(produced_by(8, 1))
    sim.append(produced_by(10, 0))
    sim.fill(3)
    sim.all_moved_to_end()
    before = known(sim)
    sim.log.increment_log_start(log_start + 3)
    for _ in range(kills):
        sim.kill_and_open(log_start_offset=log_start + 3, recovery_point=log_start)
        assert known(sim) == before
    assert sim.append(produced_by(8, 1))[0].is_duplicate
    sim.append(produced_by(8, 2))


@pytest.mark.spec("LS-49")
def test_what_lies_between_a_snapshot_and_the_log_start_is_played() -> None:
    sim = settled()
    log_start = expire_everything(sim)
    sim.append(produced_by(8, 1))
    sim.fill(3)
    sim.log.roll()
    sim.world.jobs.run_all()
    sim.fill(1)
    sim.all_moved_to_end()
    sim.log.increment_log_start(log_start + 2)
    sim.disk.unlink(f"{sim.log.dir}/{names.snapshot_name(7)}")
    sim.kill_and_open(log_start_offset=log_start + 2, recovery_point=7)
    assert known(sim)[8] == (0, 1)
    sim.append(produced_by(8, 2))


@pytest.mark.spec("LM-35", "LS-30")
@pytest.mark.parametrize("recovery_point", [2, 4])
def test_a_log_start_that_comes_before_its_snapshot_is_written(recovery_point: int) -> None:
    sim = SimLog(RETAINED)
    sim.append(produced_by(7, 0), produced_by(8, 0))
    sim.all_moved_to_end()
    sim.log.roll()
    sim.log.increment_log_start(2)  # the flush that the snapshot waits for is on its way
    sim.world.jobs.run_all()
    sim.fill(2)
    sim.all_moved_to_end()
    before = known(sim)
    sim.log.delete_old_segments(lambda log_start: None)
    for _ in range(2):
        sim.kill_and_open(log_start_offset=2, recovery_point=recovery_point)
        assert known(sim) == before == {7: (0, 0), 8: (0, 0)}


@pytest.mark.spec("LM-35", "LS-30")
def test_a_recovery_leaves_a_snapshot_where_it_began() -> None:
    """The snapshots found were strays, and the segment before the recovery point is deleted later."""
    sim = SimLog(RETAINED)
    sim.append(produced_by(7, 0, epoch=1))
    sim.fill(1)
    sim.log.roll()
    sim.world.jobs.run_all()
    sim.append(produced_by(8, 0))
    sim.all_moved_to_end()
    before = known(sim)
    sim.disk.unlink(f"{sim.log.dir}/{names.snapshot_name(2)}")
    sim.kill_and_open(recovery_point=2)
    sim.all_moved_to_end()
    sim.log.increment_log_start(3)
    sim.log.flush()
    sim.world.jobs.run_all()
    sim.log.delete_old_segments(lambda log_start: None)
    sim.world.jobs.run_all()
    assert bases(sim.log) == [2]
    sim.kill_and_open(log_start_offset=3, recovery_point=2)
    assert known(sim) == before == {7: (1, 0), 8: (0, 0)}


def test_a_file_that_is_gone_already_keeps_no_other_behind(caplog: pytest.LogCaptureFixture) -> None:
    """Segments of one name may be removed soon after one another: the first unlink takes the second's file along."""
    sim = SimLog(RETAINED)
    for _ in range(3):
        sim.fill(2)
        sim.log.roll()
    sim.all_moved_to_end()
    sim.world.jobs.run_all()
    expire_everything(sim)
    gone = f"{sim.log.dir}/{names.log_name(0)}.deleted"
    sim.tape.fail_next("unlink", gone, errno.ENOENT)
    sim.world.jobs.tick(sim.world.clock.now_ms() + 1000)
    sim.world.jobs.run_all()
    assert [name for name in sim.names() if name.endswith(".deleted")] == [gone.rpartition("/")[2]]
    assert "stay" not in caplog.text
