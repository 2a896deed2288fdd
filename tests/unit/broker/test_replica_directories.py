from __future__ import annotations

from typing import Any

import pytest

from support.brokers.stub import StubNode, broker
from tailrace.broker.replica_directories import MAX_IN_REQUEST, PAUSE_MS
from tailrace.model.ids import TopicId
from tailrace.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)

NOT_LEADER, STALE_BROKER_EPOCH, UNKNOWN_TOPIC_ID = 6, 77, 100
T, U = TopicId(b"t" * 16), TopicId(b"u" * 16)
A, B = TopicId(b"a" * 16), TopicId(b"b" * 16)


@pytest.fixture
def node() -> StubNode:
    node = StubNode()
    node.learn(broker(1))
    return node


def told(request: Any) -> dict[bytes, dict[bytes, list[int]]]:
    assert isinstance(request, AssignReplicasToDirsRequest)
    return {
        d.id: {t.topic_id: [p.partition_index for p in t.partitions] for t in d.topics} for d in request.directories
    }


def answer(node: StubNode, error_code: int = 0, **codes: int) -> None:
    """As the controller would; `codes` are errors by partition, as `p0`."""
    request, _ = node.controller.sent[-1]
    directories = [
        ResponseDirectoryData(
            id=directory,
            topics=[
                ResponseTopicData(
                    topic_id=topic,
                    partitions=[
                        ResponsePartitionData(partition_index=index, error_code=codes.get(f"p{index}", 0))
                        for index in indexes
                    ],
                )
                for topic, indexes in topics.items()
            ],
        )
        for directory, topics in told(request).items()
    ]
    node.controller.answer(
        AssignReplicasToDirsResponse(error_code=error_code, directories=[] if error_code else directories)
    )


def test_one_request_at_a_time_with_all_that_has_gathered(node: StubNode) -> None:
    directories = node.replica_directories
    directories.report(T, 0, A)
    directories.report(T, 1, A)
    directories.report(U, 0, A)
    directories.report(T, 2, B)
    ((first, version),) = node.controller.sent
    assert (told(first), first.broker_id, first.broker_epoch, version) == ({A.raw: {T.raw: [0]}}, 1, 101, 0)
    answer(node)
    assert told(node.controller.sent[1][0]) == {A.raw: {T.raw: [1], U.raw: [0]}, B.raw: {T.raw: [2]}}
    answer(node)
    assert (len(directories), len(node.controller.sent)) == (0, 2)


def test_a_replica_that_has_moved_on_is_told_again(node: StubNode) -> None:
    node.replica_directories.report(T, 0, A)
    node.replica_directories.report(T, 0, B)
    answer(node)
    assert told(node.controller.sent[1][0]) == {B.raw: {T.raw: [0]}}


def test_what_fails_is_told_again_after_a_pause(node: StubNode) -> None:
    node.replica_directories.report(T, 0, A)
    answer(node, error_code=STALE_BROKER_EPOCH)
    node.replica_directories.report(T, 1, A)
    assert len(node.controller.sent) == 1
    node.world.jobs.tick(node.world.clock.now_ms() + PAUSE_MS)
    assert told(node.controller.sent[1][0]) == {A.raw: {T.raw: [0, 1]}}


@pytest.mark.parametrize("code", [UNKNOWN_TOPIC_ID, NOT_LEADER])
def test_a_replica_that_is_not_ours_any_more_is_forgotten(node: StubNode, code: int) -> None:
    node.replica_directories.report(T, 0, A)
    answer(node, p0=code)
    assert (len(node.replica_directories), len(node.controller.sent)) == (0, 1)


def test_one_that_failed_does_not_hold_up_the_others(node: StubNode) -> None:
    node.replica_directories.report(U, 9, A)
    node.replica_directories.report(T, 0, A)
    node.replica_directories.report(T, 1, A)
    answer(node)
    answer(node, p0=STALE_BROKER_EPOCH)
    assert len(node.replica_directories) == 1


def test_requests_are_not_too_large(node: StubNode) -> None:
    for index in range(MAX_IN_REQUEST + 2):
        node.replica_directories.report(T, index, A)
    answer(node)
    assert len(told(node.controller.sent[1][0])[A.raw][T.raw]) == MAX_IN_REQUEST
    answer(node)
    assert told(node.controller.sent[2][0]) == {A.raw: {T.raw: [MAX_IN_REQUEST + 1]}}
