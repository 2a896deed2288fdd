"""Requests of transactions that no conversation shows: fields of versions to come, none at all, a loading broker."""

from __future__ import annotations

from typing import Any

import pytest

from support.brokers.simulated import SimBroker
from support.clients.sim_transactions import FEW_PARTITIONS, SimProducer, find
from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import init_producer_id
from tailrace.coordinator.shard import ShardState
from tailrace.coordinator.transactions.transaction import NO_TIMEOUT
from tailrace.model.errors import (
    CoordinatorLoadInProgressError,
    InvalidRequestError,
    InvalidTransactionTimeoutError,
    NotCoordinatorError,
    OperationNotAttemptedError,
    TopicAuthorizationError,
    TransactionalIdAuthorizationError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from tailrace.model.internal_topics import TRANSACTION_STATE
from tailrace.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from tailrace.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.list_transactions import ListTransactionsRequest

NAME = "mine"


@pytest.fixture
def broker() -> SimBroker:
    made = SimBroker(**FEW_PARTITIONS).start()
    find(made.client(), 1, NAME)
    return made


def initialised(broker: SimBroker, **fields: Any) -> Any:
    """By version 6, which nobody may send yet."""
    answers: list[Any] = []
    request = InitProducerIdRequest(**{"transactional_id": NAME, "transaction_timeout_ms": 1000, **fields})
    context = RequestContext(6, "client", "PLAINTEXT", "10.0.0.1", 0)
    init_producer_id.handle(broker.node, context, request, answers.append)
    broker.run()
    (answer,) = answers
    return answer


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"enable2_pc": True}, TransactionalIdAuthorizationError),
        ({"enable2_pc": True, "keep_prepared_txn": True}, TransactionalIdAuthorizationError),
        ({"keep_prepared_txn": True}, UnsupportedVersionError),
        ({"transaction_timeout_ms": 900_001}, InvalidTransactionTimeoutError),
        ({"transaction_timeout_ms": 0, "keep_prepared_txn": True}, UnsupportedVersionError),
        ({"producer_id": 5, "enable2_pc": True}, InvalidRequestError),
        ({"transactional_id": "", "enable2_pc": True}, InvalidRequestError),
    ],
)
def test_two_phases_are_for_brokers_that_allow_them(broker: SimBroker, fields: Any, error: Any) -> None:
    answer = initialised(broker, **fields)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (error.code, -1, -1)


def test_a_transaction_of_two_phases_has_no_timeout() -> None:
    broker = SimBroker(**FEW_PARTITIONS, transaction_two_phase_commit_enable="true").start()
    find(broker.client(), 1, NAME)
    assert initialised(broker, enable2_pc=True, transaction_timeout_ms=0).error_code == 0
    (state,) = (each for each in broker.node.transactions.machines() if each.transactions)
    assert state.transactions[NAME].timeout_ms == NO_TIMEOUT
    answer = initialised(broker, enable2_pc=True, keep_prepared_txn=True)
    assert answer.error_code == UnsupportedVersionError.code


def test_brokers_that_ask_for_nothing_are_answered(broker: SimBroker) -> None:
    response = broker.client().ask(AddPartitionsToTxnRequest(), 5)
    assert (response.error_code, response.results_by_transaction) == (0, [])


def test_the_longest_name_there_is(broker: SimBroker) -> None:
    name = "x" * 32_767
    writer = SimProducer(broker.client(), name, is_new=True)
    assert writer.initialise() == 0
    described = writer.client.ask(DescribeTransactionsRequest(transactional_ids=[name]), 0)
    assert described.transaction_states[0].transaction_state == "Empty"


@pytest.mark.spec("CO-08")
def test_more_partitions_than_a_record_can_hold() -> None:
    broker = SimBroker(**FEW_PARTITIONS, message_max_bytes="1000").start()
    client = broker.client()
    client.create_topic("orders", 300)
    writer = SimProducer(client, NAME, is_new=False)
    assert writer.initialise() == 0
    assert writer.add("orders", *range(50)) == 0
    assert writer.add("orders", *range(300)) == UnknownServerError.code
    (state,) = (each for each in broker.node.transactions.machines() if each.transactions)
    assert len(state.transactions[NAME].partitions) == 50
    assert writer.end(commit=True) == 0


@pytest.mark.spec("CO-10")
def test_who_does_not_coordinate_says_so() -> None:
    broker = SimBroker(**FEW_PARTITIONS).start()
    request = InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=1000)
    assert broker.client().ask(request, 4).error_code == NotCoordinatorError.code
    response = broker.client().ask(DescribeTransactionsRequest(transactional_ids=[NAME, "other"]), 0)
    assert [row.error_code for row in response.transaction_states] == [NotCoordinatorError.code] * 2
    assert broker.client().ask(ListTransactionsRequest(), 2).transaction_states == []


@pytest.mark.spec("CO-10")
def test_a_broker_that_loads_says_so(broker: SimBroker) -> None:
    client, runtime = broker.client(), broker.node.transactions
    shard = runtime.shard(runtime.partition_for(NAME))
    assert shard is not None
    shard.state = ShardState.LOADING
    code = CoordinatorLoadInProgressError.code
    assert client.ask(ListTransactionsRequest(), 2).error_code == code
    described = client.ask(DescribeTransactionsRequest(transactional_ids=[NAME]), 0)
    assert described.transaction_states[0].error_code == code
    assert SimProducer(client, NAME, is_new=True).initialise() == code


def test_topics_of_the_coordinators_are_no_part_of_a_transaction(broker: SimBroker) -> None:
    client = broker.client()
    client.create_topic("orders", 1)
    given = client.ask(InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=1000), 4)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=NAME,
        v3_and_below_producer_id=given.producer_id,
        v3_and_below_producer_epoch=given.producer_epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in ("orders", TRANSACTION_STATE, "nowhere")
        ],
    )
    answer = client.ask(request, 3)
    codes = {
        topic.name: topic.results_by_partition[0].partition_error_code for topic in answer.results_by_topic_v3_and_below
    }
    assert codes == {
        "orders": OperationNotAttemptedError.code,
        TRANSACTION_STATE: TopicAuthorizationError.code,
        "nowhere": UnknownTopicOrPartitionError.code,
    }


def test_a_transaction_that_is_named_again_and_again_is_described_once(broker: SimBroker) -> None:
    answer = broker.client().ask(DescribeTransactionsRequest(transactional_ids=[NAME, "other", NAME, NAME]), 0)
    assert [each.transactional_id for each in answer.transaction_states] == [NAME, "other"]
