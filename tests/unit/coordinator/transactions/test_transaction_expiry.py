"""Transactions that take too long are aborted; transactional ids that nobody uses are forgotten."""

from __future__ import annotations

import pytest

from support.coordinators.replica_pair import refusal
from support.coordinators.transactions import ID, P0, TransactionPair
from tailrace.coordinator.transactions import expiry
from tailrace.coordinator.transactions.decisions import ProducerKey
from tailrace.coordinator.transactions.state import TransactionState
from tailrace.coordinator.transactions.transaction import LAST_CLIENT_EPOCH, NO_TIMEOUT
from tailrace.model.errors import InvalidProducerIdMappingError, ProducerFencedError

S = TransactionState
LOOK_MS = 10_000
DAY_MS = 86_400_000
HOUR_MS = 3_600_000


@pytest.mark.spec("CO-08")
@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_that_takes_too_long_is_aborted(version: int) -> None:
    pair = TransactionPair(version)
    producer = pair.producer(timeout_ms=25_000)
    pair.add(producer, P0, version=version)
    for _ in range(2):
        pair.pass_time(LOOK_MS)
    assert pair.state is S.ONGOING
    pair.pass_time(LOOK_MS)
    assert pair.state is S.COMPLETE_ABORT
    assert pair.marked() == [(1001, 1, False, (P0,))]
    assert refusal(pair.add(producer, P0)) is ProducerFencedError
    assert refusal(pair.end(producer, version=0)) is ProducerFencedError


@pytest.mark.spec("CO-08")
def test_the_look_is_as_often_as_configured() -> None:
    pair = TransactionPair(transaction_abort_timed_out_transaction_cleanup_interval_ms="500")
    pair.add(pair.producer(timeout_ms=100), P0)
    pair.pass_time(400)
    assert pair.state is S.ONGOING
    pair.pass_time(100)
    assert pair.state is S.COMPLETE_ABORT


def test_a_transaction_of_two_phases_has_no_end_of_its_own() -> None:
    pair = TransactionPair()
    pair.add(pair.producer(timeout_ms=NO_TIMEOUT), P0)
    for _ in range(20):
        pair.pass_time(DAY_MS * 5)
    assert pair.state is S.ONGOING


def test_an_abort_that_fails_is_tried_at_the_next_look() -> None:
    pair = TransactionPair()
    pair.add(pair.producer(timeout_ms=1000), P0)
    with pair.refused_appends():
        pair.pass_time(LOOK_MS)
        assert pair.state is S.ONGOING
    pair.pass_time(LOOK_MS)
    assert pair.state is S.COMPLETE_ABORT


def test_an_abort_at_the_last_epoch_takes_another_id() -> None:
    pair = TransactionPair()
    producer = pair.producer(timeout_ms=1000)
    machine = pair.leader.machine
    machine.transactions[ID] = pair.transaction()._replace(epoch=LAST_CLIENT_EPOCH)
    pair.add(ProducerKey(producer.id, LAST_CLIENT_EPOCH), P0)
    pair.pass_time(LOOK_MS)
    assert (pair.transaction().producer_id, pair.transaction().epoch) == (1002, 0)


@pytest.mark.spec("CO-08")
def test_the_next_coordinator_counts_from_the_transactions_beginning() -> None:
    pair = TransactionPair()
    pair.add(pair.producer(timeout_ms=15_000), P0)
    pair.pass_time(9_000)
    pair.replicate()
    pair.fail_over()
    pair.pass_time(LOOK_MS)
    assert pair.state is S.COMPLETE_ABORT


@pytest.mark.spec("CO-08")
def test_an_idle_transactional_id_is_forgotten() -> None:
    pair = TransactionPair()
    idle = pair.producer()
    pair.producer(key="busy")
    pair.add(pair.producer(key="open", timeout_ms=NO_TIMEOUT), P0, key="open")
    for _ in range(6):
        pair.pass_time(DAY_MS)
    pair.producer(key="busy")
    pair.pass_time(DAY_MS + HOUR_MS)
    assert set(pair.leader.machine.transactions) == {"busy", "open"}
    assert refusal(pair.add(idle, P0)) is InvalidProducerIdMappingError
    pair.replicate()
    pair.fail_over()
    assert set(pair.leader.machine.transactions) == {"busy", "open"}, "the log says so too"
    assert pair.init() == [(1004, 0)]


def test_very_many_idle_ids_are_forgotten_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "IDS_AT_ONCE", 7)
    monkeypatch.setattr(expiry, "BATCH_BYTES", 60)
    pair = TransactionPair(transactional_id_expiration_ms="1000")
    for number in range(20):
        pair.producer(key=f"id-{number}")
    end = pair.leader.log.log_end_offset
    pair.pass_time(HOUR_MS)
    assert pair.leader.machine.transactions == {}
    assert pair.leader.log.log_end_offset == end + 20
    pair.producer()
    pair.pass_time(HOUR_MS + 1000)
    assert pair.leader.machine.transactions == {}, "and the next look comes"


def test_tombstones_that_cannot_be_written_are_written_later() -> None:
    pair = TransactionPair(transactional_id_expiration_ms="1000")
    pair.producer()
    with pair.refused_appends():
        pair.pass_time(HOUR_MS)
        assert ID in pair.leader.machine.transactions
    pair.pass_time(1000)
    assert pair.leader.machine.transactions == {}
