from __future__ import annotations

from typing import Any

import pytest

from support.brokers.handler_calls import ask
from support.brokers.stub import StubNode, broker, topic, topic_id
from tailrace.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
    TopicRequest,
)

UNKNOWN_TOPIC, INVALID_TOPIC, INVALID_REQUEST = 3, 17, 42


def pages(node: StubNode, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    asked = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else RequestCursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    return ask(node, asked)


def told(answer: Any) -> list[tuple[str, list[int]]]:
    return [(t.name, [p.partition_index for p in t.partitions]) for t in answer.topics]


def next_of(answer: Any) -> tuple[str, int] | None:
    cursor = answer.next_cursor
    return None if cursor is None else (cursor.topic_name, cursor.partition_index)


@pytest.fixture
def node() -> StubNode:
    node = StubNode()
    node.learn(broker(1), *topic("data", 3, leader_epoch=2, elr=[7]), *topic("auto"))
    return node


def test_all_topics_in_order_of_their_names(node: StubNode) -> None:
    answer = pages(node)
    assert told(answer) == [("auto", [0]), ("data", [0, 1, 2])]
    assert next_of(answer) is None
    described = answer.topics[1]
    assert (described.topic_id, described.topic_authorized_operations) == (topic_id("data"), 3576)
    first = described.partitions[0]
    assert (first.leader_id, first.leader_epoch, first.replica_nodes, first.isr_nodes) == (1, 2, [1], [1])
    assert (first.eligible_leader_replicas, first.last_known_elr, first.offline_replicas) == ([7], [], [])


def test_a_page_ends_inside_a_topic_or_before_one(node: StubNode) -> None:
    inside = pages(node, limit=2)
    assert (told(inside), next_of(inside)) == ([("auto", [0]), ("data", [0])], ("data", 1))
    before = pages(node, limit=1)
    assert (told(before), next_of(before)) == ([("auto", [0])], ("data", 0))


def test_pages_follow_one_another(node: StubNode) -> None:
    cursor, found = None, []
    for _ in range(4):
        page = pages(node, limit=1, cursor=cursor)
        found += told(page)
        cursor = next_of(page)
    assert found == [("auto", [0]), ("data", [0]), ("data", [1]), ("data", [2])]
    assert cursor is None


@pytest.mark.parametrize("limit", [0, -1])
def test_a_page_has_at_least_one_partition(node: StubNode, limit: int) -> None:
    assert told(pages(node, "data", limit=limit)) == [("data", [0])]


def test_the_broker_has_a_limit_too(node: StubNode) -> None:
    node.config.max_request_partition_size_limit = 2
    assert next_of(pages(node, "data", limit=100)) == ("data", 2)


def test_topics_by_name_are_sorted_and_named_once(node: StubNode) -> None:
    assert told(pages(node, "data", "auto", "data")) == [("auto", [0]), ("data", [0, 1, 2])]


def test_names_that_are_unknown_or_illegal(node: StubNode) -> None:
    answer = pages(node, "nope", "bad/name")
    assert [(t.name, t.error_code) for t in answer.topics] == [("bad/name", INVALID_TOPIC), ("nope", UNKNOWN_TOPIC)]


def test_a_cursor_behind_the_last_partition(node: StubNode) -> None:
    answer = pages(node, "data", cursor=("data", 30))
    assert (told(answer), next_of(answer)) == ([("data", [])], None)


def test_a_cursor_may_name_a_topic_that_is_gone(node: StubNode) -> None:
    assert told(pages(node, cursor=("b", 1))) == [("data", [0, 1, 2])]


@pytest.mark.parametrize("cursor", [("auto", 0), ("zzz", 0), ("data", -1)])
def test_a_cursor_that_does_not_fit_the_request(node: StubNode, cursor: tuple[str, int]) -> None:
    answer = pages(node, "data", cursor=cursor)
    assert [(t.name, t.error_code) for t in answer.topics] == [("data", INVALID_REQUEST)]


def test_a_leader_on_another_listener(node: StubNode) -> None:
    node.learn(broker(2, listeners=("INTERNAL",)), *topic("far", replicas=(2,)))
    (partition,) = pages(node, "far").topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.offline_replicas) == (0, -1, [2])
