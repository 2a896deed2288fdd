"""Producers go on after a clean and a restart as if nothing had happened."""

from __future__ import annotations

import pytest

from support.compaction.compacted_logs import CompactedLog
from support.logs.builders import in_transaction, marker, produced_by
from tailrace.model.errors import InvalidProducerEpochError, OutOfOrderSequenceError
from tailrace.storage import names
from tailrace.storage.origin import Origin


def without_snapshots(log: CompactedLog) -> None:
    """Restart with nothing but the batches to rebuild producers from."""
    log.log.flush()
    log.world.jobs.run_all()
    end = log.log.recovery_point
    log.world.kill()
    for name in log.names():
        if name.endswith(names.SNAPSHOT_SUFFIX):
            log.disk.unlink(f"{log.log.dir}/{name}")
    log.open(recovery_point=end)


def cleaned(*, transactional: bool = False) -> CompactedLog:
    """Producer 1 wrote three batches of keys that others have written since: nothing of them stays."""
    log = CompactedLog()
    log.put([(b"a", b"1")], producer_id=1)
    log.put([(b"a", b"2"), (b"b", b"2")], producer_id=1)
    log.put([(b"a", b"3"), (b"b", b"3"), (b"c", b"3")], producer_id=1, transactional=transactional)
    if transactional:
        log.end(1, commit=False)
    log.put([(b"a", b"4"), (b"b", b"4"), (b"c", b"4")])
    log.settle()
    log.clean()
    return log


@pytest.mark.spec("RF-14", "LM-21")
@pytest.mark.parametrize("transactional", [False, True])
def test_the_last_batch_of_a_producer_stays_though_empty(transactional: bool) -> None:
    log = cleaned(transactional=transactional)
    assert log.shape()[0] == (3, 5, 0, None)
    assert [offset for offset, *_ in log.shape()][-1] == (7 if transactional else 6)
    without_snapshots(log)
    entry = log.log.producers.producers[1]
    assert (entry.last_seq, entry.last_data_offset) == (5, 5)
    assert log.log.last_stable_offset == log.log.high_watermark


@pytest.mark.spec("RF-14")
@pytest.mark.parametrize("loses_snapshots", [False, True])
def test_the_next_sequence_is_taken_and_a_resend_found(loses_snapshots: bool) -> None:
    log = cleaned()
    if loses_snapshots:
        without_snapshots(log)
    else:
        log.reopen()
    (resent,) = log.append(produced_by(1, 3, 3))
    assert (resent.is_duplicate if hasattr(resent, "is_duplicate") else resent.first_offset) in (True, 3)
    assert log.log.log_end_offset == 9
    with pytest.raises(OutOfOrderSequenceError):
        log.append(produced_by(1, 7, 1))
    (taken,) = log.append(produced_by(1, 6, 1))
    assert taken.first_offset == 9


@pytest.mark.spec("RF-14", "LM-21")
def test_the_epoch_of_a_marker_outlives_its_records() -> None:
    """A marker with a raised epoch is the last that is known of its producer: it fences those before."""
    log = CompactedLog()
    log.put([(b"a", b"1")], producer_id=1, transactional=True)
    log.append(marker(1, commit=False, epoch=4), origin=Origin.COORDINATOR)
    log.put([(b"a", b"2")])
    for _ in range(3):
        log.settle()
        log.clean()
        log.wait(100_000)
        log.put([(b"z", b"")])
    log.settle()
    log.clean()
    without_snapshots(log)
    assert log.log.producers.producers[1].producer_epoch == 4
    with pytest.raises(InvalidProducerEpochError):
        log.append(in_transaction(1, 0, epoch=3))


@pytest.mark.spec("LM-21")
def test_an_expired_producer_keeps_nothing() -> None:
    log = CompactedLog()
    log.put([(b"a", b"1")], producer_id=1)
    log.put([(b"a", b"2")])
    log.settle()
    log.wait(log.log.producers.producer_expiration_ms)
    log.log.producers.remove_expired(log.now_ms)
    log.clean()
    assert [first for first, *_ in log.shape()] == [1]


@pytest.mark.spec("RF-14")
def test_transactions_stay_decided() -> None:
    log = CompactedLog()
    for n in range(3):
        log.put([(b"a", b"%d" % n)], producer_id=n, transactional=True)
        log.end(n, commit=n == 0)
    log.settle()
    log.clean()
    assert log.table() == {b"a": b"0"}
    without_snapshots(log)
    assert log.table() == {b"a": b"0"}
    assert log.log.producers.ongoing == ()
    log.all_moved_to_end()
    log.put([(b"a", b"next")], producer_id=1, transactional=True)
    assert log.log.producers.first_undecided_offset == 6
