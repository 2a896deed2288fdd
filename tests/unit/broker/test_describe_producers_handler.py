from __future__ import annotations

from typing import Any

import pytest

from support.brokers.handler_calls import ask
from support.brokers.nodes import LogNode
from support.brokers.stub import topic
from tailrace.broker.handlers import describe_producers
from tailrace.protocol.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest

UNKNOWN_TOPIC, NOT_LEADER, INVALID_TOPIC, INVALID_REQUEST = 3, 6, 17, 42


def describe(node: LogNode, name: str, *indexes: int) -> list[Any]:
    request = DescribeProducersRequest(topics=[TopicRequest(name=name, partition_indexes=list(indexes))])
    (answered,) = ask(node, request).topics
    assert answered.name == name
    return list(answered.partitions)


@pytest.fixture
def node() -> LogNode:
    node = LogNode()
    node.learn(*topic("orders", 2))
    return node


def test_what_the_log_remembers_of_a_producer(node: LogNode) -> None:
    node.produce("orders", producer_id=7, producer_epoch=2, base_sequence=0, timestamps=(1000,))
    node.produce("orders", producer_id=7, producer_epoch=2, base_sequence=1, timestamps=(2000,))
    first, second = describe(node, "orders", 0, 1)
    assert first.active_producers == [
        ProducerState(producer_id=7, producer_epoch=2, last_sequence=1, last_timestamp=2000, coordinator_epoch=-1)
    ]
    assert (second.error_code, second.active_producers) == (0, [])


def test_an_open_transaction(node: LogNode) -> None:
    node.produce("orders", timestamps=(1000,))
    node.produce("orders", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True, timestamps=(2000,))
    (partition,) = describe(node, "orders", 0)
    assert [p.current_txn_start_offset for p in partition.active_producers] == [1]


def test_partitions_that_are_not_here(node: LogNode) -> None:
    node.learn(*topic("elsewhere", replicas=(2,)))
    assert [p.error_code for p in describe(node, "orders", 0, 9)] == [0, UNKNOWN_TOPIC]
    assert [p.error_code for p in describe(node, "elsewhere", 0)] == [NOT_LEADER]
    (unknown,) = describe(node, "nope", 0)
    assert (unknown.error_code, unknown.error_message) == (UNKNOWN_TOPIC, "there is no topic nope")
    assert [p.error_code for p in describe(node, "bad/name", 0, 1)] == [INVALID_TOPIC, INVALID_TOPIC]
    assert describe(node, "orders") == []


def test_a_follower_tells_too(node: LogNode) -> None:
    node.learn(*topic("followed", replicas=(2, 1)))
    assert [p.error_code for p in describe(node, "followed", 0)] == [0]


def test_an_answer_has_an_end(node: LogNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_producers, "MAX_PRODUCERS", 2)
    node.produce("orders", producer_id=7, producer_epoch=0, base_sequence=0, timestamps=(1000,))
    assert [p.error_code for p in describe(node, "orders", 0, 0, 0, 0)] == [0, 0, INVALID_REQUEST, INVALID_REQUEST]
