"""What the property test of compaction found, each by itself: things that were right until power was lost."""

from __future__ import annotations

from support.compaction.compacted_logs import CompactedLog
from support.logs.builders import SimLog, batch, in_transaction, marker, produced_by
from tailrace.sim.faults import Survival
from tailrace.storage import names
from tailrace.storage.origin import Origin


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
