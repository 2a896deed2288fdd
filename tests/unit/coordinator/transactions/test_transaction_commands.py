"""The coordinator's commands over a real log: who is answered what, who is fenced, and what survives a failover."""

from __future__ import annotations

from typing import Any

import pytest

from support.coordinators.replica_pair import refusal
from support.coordinators.transactions import ID, P0, P1, TIMEOUT_MS, TransactionPair
from tailrace.coordinator.outcome import Outcome
from tailrace.coordinator.transactions.decisions import ProducerKey
from tailrace.coordinator.transactions.state import TransactionState
from tailrace.coordinator.transactions.transaction import LAST_CLIENT_EPOCH
from tailrace.coordinator.transactions.transaction_log import to_record
from tailrace.model.errors import (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    NotCoordinatorError,
    ProducerFencedError,
    TransactionAbortableError,
)

S = TransactionState


# InitProducerId


@pytest.mark.spec("CO-07")
def test_a_new_transactional_id_gets_a_new_producer_id() -> None:
    pair = TransactionPair()
    assert pair.init() == [(1001, 0)]
    assert pair.init(key="other") == [(1002, 0)]
    assert pair.init() == [(1001, 1)]
    assert pair.transaction().timeout_ms == TIMEOUT_MS


@pytest.mark.spec("CO-07")
def test_an_id_that_comes_later_and_one_that_never_comes() -> None:
    pair = TransactionPair()
    pair.gives_ids = False
    first, second = pair.init(), pair.init()
    assert (first, second) == ([], [])
    pair.give_id()
    pair.give_id()
    assert (first, second) == ([(1001, 0)], [(1001, 1)])  # the id of the second is not needed any more
    answers = pair.init(key="other")
    pair.refuse_id()
    assert refusal(answers) is CoordinatorLoadInProgressError
    assert "other" not in pair.leader.machine.transactions


@pytest.mark.spec("CO-07")
def test_an_id_that_comes_after_a_failover_changes_nothing() -> None:
    pair = TransactionPair()
    pair.gives_ids = False
    answers = pair.init()
    pair.fail_over()
    pair.give_id()
    assert refusal(answers) is NotCoordinatorError
    assert pair.leader.machine.transactions == {}


@pytest.mark.spec("CO-07")
def test_a_producer_goes_on_after_an_error_with_what_it_has() -> None:
    pair = TransactionPair()
    producer = pair.producer()
    assert pair.init(producer) == [(1001, 1)]
    assert pair.init(producer) == [(1001, 1)], "it has not heard the answer"
    pair.producer()
    assert refusal(pair.init(producer)) is ProducerFencedError
    assert refusal(pair.init(ProducerKey(5, 2))) is ProducerFencedError
    assert pair.transaction().epoch == 2


@pytest.mark.spec("CO-07")
def test_used_up_epochs_bring_another_id_at_an_initialisation() -> None:
    pair = TransactionPair()
    at_epoch(pair, LAST_CLIENT_EPOCH)
    before = pair.transaction().producer_id
    assert pair.init(ProducerKey(before, LAST_CLIENT_EPOCH)) == [(1002, 0)]
    assert pair.init(ProducerKey(before, LAST_CLIENT_EPOCH)) == [(1002, 0)], "it has not heard of its new id"
    assert refusal(pair.init(ProducerKey(before, 5))) is ProducerFencedError
    at_epoch(pair, LAST_CLIENT_EPOCH)
    assert pair.init() == [(1003, 0)]


def test_a_repeated_initialisation_at_the_last_epoch_is_answered_again() -> None:
    pair = TransactionPair()
    at_epoch(pair, LAST_CLIENT_EPOCH - 1)
    producer = ProducerKey(1001, LAST_CLIENT_EPOCH - 1)
    assert pair.init(producer) == pair.init(producer) == [(1001, LAST_CLIENT_EPOCH)]
    assert refusal(pair.init(ProducerKey(1001, 4))) is ProducerFencedError


@pytest.mark.spec("CO-07", "CO-08")
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_successor_aborts_what_is_under_way_and_comes_again(version: int) -> None:
    pair = TransactionPair(version)
    old = pair.producer()
    pair.add(old, P0)
    assert refusal(pair.init()) is ConcurrentTransactionsError
    assert pair.marked() == [(1001, 1, False, (P0,))]
    assert pair.state is S.COMPLETE_ABORT
    assert pair.init() == [(1001, 2)]
    assert refusal(pair.add(old, P1)) is ProducerFencedError
    assert refusal(pair.end(old)) is ProducerFencedError
    assert refusal(pair.end(old, version=0)) is ProducerFencedError


@pytest.mark.spec("CO-07")
def test_a_successor_of_the_last_epoch_gets_another_id() -> None:
    pair = TransactionPair()
    at_epoch(pair, LAST_CLIENT_EPOCH)
    pair.add(ProducerKey(1001, LAST_CLIENT_EPOCH), P0)
    assert refusal(pair.init()) is ConcurrentTransactionsError
    assert pair.marked() == [(1001, 32_767, False, (P0,))]
    assert pair.init() == [(1002, 1)]


@pytest.mark.spec("CO-07")
def test_before_version_2_the_last_epoch_is_left_when_the_successor_comes_again() -> None:
    pair = TransactionPair(version=1)
    at_epoch(pair, LAST_CLIENT_EPOCH)
    pair.add(ProducerKey(1001, LAST_CLIENT_EPOCH), P0, version=0)
    assert refusal(pair.init()) is ConcurrentTransactionsError
    assert pair.init() == [(1002, 0)]


def test_an_abort_that_needs_an_id_waits_for_it() -> None:
    pair = TransactionPair()
    at_epoch(pair, LAST_CLIENT_EPOCH)
    pair.add(ProducerKey(1001, LAST_CLIENT_EPOCH), P0)
    pair.gives_ids = False
    answers = pair.init()
    assert (answers, pair.state) == ([], S.ONGOING)
    pair.end(ProducerKey(1001, LAST_CLIENT_EPOCH), version=0)
    pair.give_id()
    assert refusal(answers) is ConcurrentTransactionsError, "it has ended meanwhile"
    assert pair.state is S.COMPLETE_COMMIT


# AddPartitionsToTxn


@pytest.mark.spec("CO-08")
def test_partitions_are_added_once() -> None:
    pair = TransactionPair()
    producer = pair.producer()
    assert pair.add(producer, P0) == [{}]
    end = pair.leader.log.log_end_offset
    assert pair.add(producer, P0) == [{}]
    assert pair.leader.log.log_end_offset == end, "nothing new, nothing written"
    assert pair.add(producer, P0, P1) == [{}]
    assert pair.transaction().partitions == {P0, P1}


@pytest.mark.spec("CO-08", "CO-09")
def test_partitions_are_verified() -> None:
    pair = TransactionPair()
    assert refusal(pair.verify(ProducerKey(1, 1), P0)) is InvalidProducerIdMappingError
    producer = pair.producer()
    pair.add(producer, P0)
    ((answer),) = pair.verify(producer, P0, P1)
    assert {each: type(error) for each, error in answer.items()} == {P1: TransactionAbortableError}
    assert pair.verify(producer, P0) == [{}]
    assert refusal(pair.verify(ProducerKey(9, 0), P0)) is InvalidProducerIdMappingError
    assert refusal(pair.verify(ProducerKey(1001, 1), P0)) is ProducerFencedError


@pytest.mark.spec("CO-08")
def test_strangers_add_nothing() -> None:
    pair = TransactionPair()
    assert refusal(pair.add(ProducerKey(1, 1), P0)) is InvalidProducerIdMappingError
    producer = pair.producer()
    assert refusal(pair.add(ProducerKey(9, 0), P0)) is InvalidProducerIdMappingError
    assert refusal(pair.add(ProducerKey(producer.id, 1), P0)) is ProducerFencedError
    assert pair.state is S.EMPTY


# EndTxn


@pytest.mark.spec("CO-08")
@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_sends_markers_and_raises_the_epoch(is_commit: bool) -> None:
    pair = TransactionPair()
    producer = pair.producer()
    pair.add(producer, P0, P1)
    assert pair.end(producer, is_commit) == [(1001, 1)]
    assert pair.marked() == [(1001, 1, is_commit, (P0, P1))]
    assert pair.orders[0].transaction_version == 2
    assert pair.state is (S.COMPLETE_COMMIT if is_commit else S.COMPLETE_ABORT)
    assert pair.end(producer, is_commit) == [(1001, 1)], "it has not heard the answer"
    assert refusal(pair.end(producer, not is_commit)) is InvalidTxnStateError
    assert len(pair.orders) == 1


@pytest.mark.spec("CO-08")
def test_an_end_at_one_epoch() -> None:
    pair = TransactionPair()
    producer = pair.producer()
    assert refusal(pair.end(producer, version=0)) is InvalidTxnStateError
    pair.add(producer, P0, version=0)
    assert pair.end(producer, version=0) == [(1001, 0)]
    assert pair.marked() == [(1001, 0, True, (P0,))]
    assert pair.orders[0].transaction_version == 0
    assert pair.end(producer, version=0) == [(1001, 0)]
    assert refusal(pair.end(producer, is_commit=False, version=0)) is InvalidTxnStateError
    assert refusal(pair.end(ProducerKey(1001, 1), version=0)) is ProducerFencedError
    assert refusal(pair.end(ProducerKey(1, 0), version=0)) is InvalidProducerIdMappingError


@pytest.mark.spec("CO-08")
def test_an_abort_of_nothing_brings_a_new_epoch_without_markers() -> None:
    pair = TransactionPair()
    producer = pair.producer()
    assert refusal(pair.end(producer)) is InvalidTxnStateError
    assert pair.end(producer, is_commit=False) == [(1001, 1)]
    assert (pair.state, pair.orders) == (S.COMPLETE_ABORT, [])
    assert pair.end(ProducerKey(1001, 1), is_commit=False) == [(1001, 2)]
    assert refusal(pair.end(producer, is_commit=False)) is ProducerFencedError


@pytest.mark.spec("CO-07", "CO-08")
def test_the_end_at_the_last_epoch_gives_another_id() -> None:
    pair = TransactionPair()
    at_epoch(pair, LAST_CLIENT_EPOCH)
    producer = ProducerKey(1001, LAST_CLIENT_EPOCH)
    pair.add(producer, P0)
    pair.gives_ids = False
    answers = pair.end(producer)
    assert answers == []
    pair.give_id()
    assert answers == [(1002, 0)]
    assert pair.marked() == [(1001, 32_767, True, (P0,))]
    assert pair.end(producer) == [(1002, 0)], "it has not heard of its new id"
    assert refusal(pair.end(ProducerKey(1001, 5))) is InvalidProducerIdMappingError


@pytest.mark.spec("CO-08")
@pytest.mark.parametrize("version", [0, 2])
def test_until_all_markers_are_written_everybody_waits(version: int) -> None:
    pair = TransactionPair()
    producer = pair.producer()
    pair.add(producer, P0)
    pair.held = []
    (after,) = pair.end(producer, version=version)
    assert pair.state is S.PREPARE_COMMIT
    for who in (producer, after):
        for is_commit in (True, False):
            assert refusal(pair.end(who, is_commit)) is ConcurrentTransactionsError
        assert refusal(pair.add(who, P1)) is ConcurrentTransactionsError
        assert refusal(pair.init(who)) is ConcurrentTransactionsError
    assert refusal(pair.end(ProducerKey(7, 7))) is ConcurrentTransactionsError
    assert refusal(pair.end(ProducerKey(7, 7), version=0)) is InvalidProducerIdMappingError
    assert refusal(pair.verify(after, P0)) is ConcurrentTransactionsError
    pair.release()
    assert pair.state is S.COMPLETE_COMMIT
    assert pair.add(after, P1) == [{}]


# What is answered when


@pytest.mark.spec("CO-08")
def test_markers_are_sent_when_the_decision_is_committed() -> None:
    pair = TransactionPair(in_sync=(1, 2))
    answers: list[Any] = pair.init()
    pair.replicate()
    (producer,) = answers
    pair.add(producer, P0)
    ended = pair.end(producer)
    assert (ended, pair.orders) == ([], [])
    pair.replicate()
    assert ended == [(1001, 1)]
    assert len(pair.orders) == 1
    pair.replicate()
    assert pair.state is S.COMPLETE_COMMIT


@pytest.mark.spec("CO-08")
def test_a_decision_that_is_committed_late_is_carried_out_all_the_same() -> None:
    pair = TransactionPair(in_sync=(1, 2), offsets_commit_timeout_ms="5000")
    answers: list[Any] = pair.init()
    pair.replicate()
    (producer,) = answers
    pair.add(producer, P0)
    ended = pair.end(producer)
    pair.pass_time(5000)
    assert refusal(ended) is CoordinatorNotAvailableError
    for _ in range(3):
        pair.pass_time(5000)
    assert pair.orders == []
    pair.replicate()
    pair.pass_time(1000)
    assert pair.marked() == [(1001, 1, True, (P0,))]
    pair.replicate()
    assert pair.state is S.COMPLETE_COMMIT


def test_a_refused_append_leaves_everything_as_it_was() -> None:
    pair = TransactionPair()
    producer = pair.producer()
    pair.add(producer, P0)
    before = pair.transaction()
    with pair.refused_appends():
        assert refusal(pair.end(producer)) is CoordinatorNotAvailableError
        assert refusal(pair.init(producer)) is CoordinatorNotAvailableError
        assert refusal(pair.add(producer, P1)) is CoordinatorNotAvailableError
    assert pair.transaction() == before
    assert pair.orders == []
    assert pair.end(producer) == [(1001, 1)]


def at_epoch(pair: TransactionPair, epoch: int) -> None:
    """As after very many initialisations."""
    producer = pair.producer()
    transaction = pair.transaction()._replace(epoch=epoch, producer_id=producer.id, last_epoch=-1)
    assert pair.ask(lambda _: Outcome([to_record(transaction, 2)], True), ID) == [True]
