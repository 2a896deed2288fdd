"""What the property test of compaction found, each by itself: things that were right until power was lost."""

from __future__ import annotations

from support.compaction.compacted_logs import COMPACTED, CompactedLog
from support.logs.builders import SimLog, batch, in_transaction, marker, produced_by
from tailrace.sim.faults import Survival
from tailrace.storage import names
from tailrace.storage.origin import Origin
from tailrace.storage.verify import verify_directory


def test_nothing_goes_for_a_record_that_is_not_durable() -> None:
    log = CompactedLog()
    log.put([(b"a", b"1")])
    log.settle()
    log.flushed()
    log.put([(b"a", b"2")])
    log.settle()
    log.put([(b"b", b"")], producer_id=1)
    end = log.log.log_end_offset
    steps = log.cleaning()
    work = next(steps)
    while not [name for name in log.names() if name.endswith(names.SWAP_SUFFIX)]:
        work = steps.send(work())
    assert log.log.recovery_point == end


def test_an_aborted_transaction_that_was_cut_off_does_not_come_back() -> None:
    log = SimLog()
    log.append(batch())
    log.append(in_transaction(1, 0))
    log.append(marker(1, commit=False), origin=Origin.COORDINATOR)
    log.log.flush()
    log.world.jobs.run_all()
    log.log.truncate_to(2)
    log.log.roll()
    log.disk.sync_dir(log.log.dir)  # the new segment is there, and the old one counts as durable
    log.world.restart(Survival.NOTHING)
    log.open(recovery_point=2)
    assert log.log.log_end_offset == 2
    assert log.log.aborted_transactions(0, 10) == ()


def test_a_snapshot_from_before_what_was_deleted_is_not_taken_for_the_state() -> None:
    log = SimLog()
    for sequence in range(3):
        log.append(produced_by(1, sequence))
        log.log.roll()
        log.world.jobs.run_all()
    log.append(produced_by(2, 0))
    log.all_moved_to_end()
    for snapshot in (2, 3):
        log.disk.unlink(f"{log.log.dir}/{names.snapshot_name(snapshot)}")
    log.kill_and_open(log_start_offset=3)
    assert 1 not in log.log.producers.producers
    log.append(produced_by(1, 3))


def test_what_a_killed_process_wrote_is_durable_after_a_clean_close() -> None:
    log = SimLog()
    log.append(produced_by(1, 0))
    log.log.roll()
    log.world.jobs.run_all()
    log.append(produced_by(1, 1))
    before = log.disk.size(f"{log.log.dir}/{names.snapshot_name(1)}")
    recovery_point = log.log.recovery_point
    log.kill_and_open(recovery_point=recovery_point)
    log.log.close()
    log.world.restart(Survival.NOTHING)
    assert log.disk.size(f"{log.log.dir}/{names.snapshot_name(1)}") == before > 0


def test_what_a_load_after_a_clean_close_wrote_is_durable_after_the_next_one() -> None:
    log = SimLog()
    log.append(produced_by(1, 0))
    log.log.roll()
    log.append(produced_by(1, 1))
    log.log.close()
    for name in [each for each in log.names() if each.endswith(names.SNAPSHOT_SUFFIX)]:
        log.disk.unlink(f"{log.log.dir}/{name}")
    log.disk.sync_all()
    log.open(was_clean=True)
    log.log.close()
    log.world.restart(Survival.NOTHING)
    assert f"{names.snapshot_name(2)}" in log.names()
    assert list(verify_directory(log.disk, log.log.dir)) == []


def test_snapshots_go_with_compacted_segments_when_a_newer_one_is_durable() -> None:
    """Else nothing would know a producer any longer whose batches were deleted."""
    log = CompactedLog()
    log.put([(b"a", b"1")], producer_id=1)
    log.settle()
    log.flushed()
    log.log.increment_log_start(1)
    log.log.delete_old_segments(lambda _: None)
    for value in (b"2", b"3"):
        log.put([(b"a", value)])
        log.settle()
        log.flushed()
    log.clean()
    log.wait(2 * COMPACTED.file_delete_delay_ms)
    log.world.jobs.run_all()
    log.world.restart(Survival.NOTHING)
    log.open(recovery_point=3, log_start_offset=1)
    assert log.log.producers.producers[1].last_seq == 0


def test_a_transaction_index_that_a_recovery_wrote_is_durable() -> None:
    """The next recovery takes the segment for durable if another one follows it at the recovery point."""
    for seed in range(30):
        log = SimLog(seed=seed)
        log.append(in_transaction(1, 0))
        log.append(marker(1, commit=False), origin=Origin.COORDINATOR)
        log.log.flush()
        log.world.jobs.run_all()
        log.world.restart(Survival.NOTHING)
        log.open(recovery_point=2)
        before = log.log.aborted_transactions(0, 10)
        assert len(before) == 1
        log.log.roll()
        log.disk.sync_dir(log.log.dir)
        log.world.restart(Survival.ANY)  # perhaps the index was cut, and its entry is lost
        log.open(recovery_point=2)
        assert log.log.aborted_transactions(0, 10) == before, seed
