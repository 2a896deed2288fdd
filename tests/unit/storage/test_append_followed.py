"""Sets of producers with ids in one append: those that simply follow share a write, and nothing else can be told."""

from __future__ import annotations

import errno

import pytest

from support.logs.builders import DIRECTORY, NOW_MS, SimLog, batch, in_transaction, marker, produced_by, with_config
from tailrace.model.errors import InvalidTxnStateError, OutOfOrderSequenceError, StorageError
from tailrace.storage.origin import Origin

LOG_FILE = f"{DIRECTORY}/00000000000000000000.log"
DAY_MS = 86_400_000


@pytest.fixture
def sim() -> SimLog:
    """Producer 5 has sent sequence 0, and 6 too."""
    sim = SimLog()
    sim.append(produced_by(5, 0), produced_by(6, 0))
    sim.tape.rewind()
    return sim


@pytest.mark.spec("LS-29")
def test_what_follows_shares_a_write(sim: SimLog) -> None:
    results = sim.append(produced_by(5, 1, 2), batch(1), produced_by(6, 1), produced_by(5, 3), produced_by(5, 4, 3))
    assert [each.first_offset for each in results] == [2, 4, 5, 6, 7]
    assert sim.tape.of("write") == [LOG_FILE]
    known = sim.log.producers.producers
    assert [(each.first_seq, each.last_seq, each.first_offset) for each in known[5].batches] == [
        (0, 0, 0), (1, 2, 2), (3, 3, 6), (4, 6, 7),
    ]  # fmt: skip
    assert (known[6].last_seq, known[6].last_data_offset) == (1, 5)


def test_what_follows_in_a_transaction_shares_a_write(sim: SimLog) -> None:
    sim.append(in_transaction(5, 1), in_transaction(6, 1))
    sim.tape.rewind()
    sim.append(in_transaction(5, 2), in_transaction(6, 2), in_transaction(5, 3), batch(1), in_transaction(5, 4))
    assert sim.tape.of("write") == [LOG_FILE]
    assert [txn.first_offset.offset for txn in sim.log.producers.ongoing] == [2, 3]
    assert sim.log.producers.producers[5].txn_first_offset == 2
    sim.append(marker(5, commit=False), origin=Origin.COORDINATOR)
    assert sim.log.aborted_transactions(0, 99) == ((5, 2, 9, 3),)


@pytest.mark.spec("LS-29")
def test_a_repetition_of_what_waits_is_known_as_one(sim: SimLog) -> None:
    results = sim.log.append_as_leader([produced_by(5, 1), produced_by(5, 2), produced_by(5, 1), produced_by(5, 4)], 0)
    assert [(each.first_offset, each.is_duplicate) for each in results] == [
        (2, False), (3, False), (2, True), (-1, False),
    ]  # fmt: skip
    assert isinstance(results[-1].error, OutOfOrderSequenceError)


def test_a_failed_write_is_not_believed(sim: SimLog) -> None:
    before = dict(sim.log.producers.producers)
    sim.disk.fail_next("write", "*.log", errno.ENOSPC)
    results = sim.log.append_as_leader([produced_by(5, 1), produced_by(5, 2)], 0)
    assert all(isinstance(each.error, StorageError) for each in results)
    assert sim.log.producers.producers == before
    assert [each.first_offset for each in sim.append(produced_by(5, 1), produced_by(5, 2))] == [2, 3]


def test_a_batch_ahead_of_one_that_is_being_verified_is_refused_as_ever(sim: SimLog) -> None:
    sim.log.start_verification(5, 0, 0, False)
    [refused, other] = sim.log.append_as_leader([produced_by(5, 1), produced_by(6, 1)], 0)
    assert isinstance(refused.error, OutOfOrderSequenceError)
    assert other.error is None


@pytest.mark.spec("LS-29")
def test_what_follows_but_is_known_is_a_repetition(sim: SimLog) -> None:
    """A producer was forgotten and began again in the same epoch; what the log is replayed from knows both times."""
    sim.append(produced_by(5, 1))
    sim.world.clock.advance(2 * DAY_MS)
    now_ms = sim.world.env.clock.now_ms()
    sim.log.producers.remove_expired(now_ms)
    sim.append(produced_by(5, 0, timestamp=now_ms))
    sim.kill_and_open()
    assert [each.first_seq for each in sim.log.producers.producers[5].batches] == [0, 1, 0]
    [result] = sim.append(produced_by(5, 1, timestamp=now_ms))
    assert (result.first_offset, result.is_duplicate) == (2, True)


@pytest.mark.spec("LS-29")
def test_a_higher_epoch_does_not_follow(sim: SimLog) -> None:
    [result] = sim.log.append_as_leader([produced_by(5, 1, epoch=1)], 0)
    assert isinstance(result.error, OutOfOrderSequenceError)


def test_what_is_outside_an_open_transaction_does_not_follow(sim: SimLog) -> None:
    sim.append(in_transaction(5, 1))
    [result] = sim.log.append_as_leader([produced_by(5, 2)], 0)
    assert isinstance(result.error, InvalidTxnStateError)


def test_nothing_else_of_the_producer_changes(sim: SimLog) -> None:
    sim.append(in_transaction(5, 1))
    sim.append(marker(5, commit=True, coordinator_epoch=3), origin=Origin.COORDINATOR)
    sim.append(produced_by(5, 2, 3, step_ms=7))
    known = sim.log.producers.producers[5]
    assert (known.coordinator_epoch, known.last_timestamp, known.txn_first_offset) == (3, NOW_MS + 14, None)
    assert sim.log.producers.map_end_offset == sim.log.log_end_offset


def test_what_was_written_before_a_later_set_is_not_believed_again() -> None:
    sim = SimLog(with_config(segment_bytes=400))
    sim.append(produced_by(5, 0))
    sim.append(produced_by(5, 1), produced_by(5, 0, epoch=1), batch(1, 150), batch(1, 150))
    assert sim.log.producers.producers[5].producer_epoch == 1


@pytest.mark.spec("LS-31")
def test_an_abort_that_could_not_be_entered_is_entered_with_what_follows(sim: SimLog) -> None:
    sim.append(in_transaction(5, 1))
    sim.disk.fail_next("write", "*.txnindex", errno.ENOSPC)
    sim.append(marker(5, commit=False), origin=Origin.COORDINATOR)
    sim.append(produced_by(6, 1))
    sim.all_moved_to_end()
    assert sim.log.aborted_transactions(0, 9) == ((5, 2, 3, 4),)
    assert sim.log.last_stable_offset == 5
