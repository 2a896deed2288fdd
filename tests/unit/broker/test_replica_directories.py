from __future__ import annotations

from typing import Any

import pytest

from support.brokers.simulated import SimBroker
from support.brokers.stub import StubNode, broker
from tailrace.broker import cluster_metadata
from tailrace.broker.replica_directories import MAX_IN_REQUEST, PAUSE_MS
from tailrace.metadata.versions import LATEST_METADATA_VERSION, METADATA_VERSION
from tailrace.model.ids import DirectoryId, TopicId
from tailrace.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from tailrace.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

NOT_LEADER, STALE_BROKER_EPOCH, UNKNOWN_TOPIC_ID = 6, 77, 100
T, U = TopicId(b"t" * 16), TopicId(b"u" * 16)
A, B = DirectoryId(b"a" * 16), DirectoryId(b"b" * 16)


@pytest.fixture
def node() -> StubNode:
    node = StubNode()
    node.image.features[METADATA_VERSION] = LATEST_METADATA_VERSION
    node.learn(broker(1))
    return node


def reported(request: Any) -> dict[bytes, dict[bytes, list[int]]]:
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
        for directory, topics in reported(request).items()
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
    assert (reported(first), first.broker_id, first.broker_epoch, version) == ({A: {T: [0]}}, 1, 101, 0)
    answer(node)
    assert reported(node.controller.sent[1][0]) == {A: {T: [1], U: [0]}, B: {T: [2]}}
    answer(node)
    assert (len(directories), len(node.controller.sent)) == (0, 2)


def test_nothing_is_reported_before_this_process_is_registered(node: StubNode) -> None:
    """The metadata lists broker 1, but that is an earlier incarnation or another broker with the same id."""
    node.broker_epoch = -1
    node.replica_directories.report(T, 0, A)
    node.world.jobs.tick(node.world.clock.now_ms() + PAUSE_MS)
    assert node.controller.sent == []
    node.broker_epoch = 105
    node.world.jobs.tick(node.world.clock.now_ms() + PAUSE_MS)
    ((request, _),) = node.controller.sent
    assert isinstance(request, AssignReplicasToDirsRequest)
    assert (reported(request), request.broker_epoch) == ({A: {T: [0]}}, 105)


def test_a_replica_that_has_moved_on_is_told_again(node: StubNode) -> None:
    node.replica_directories.report(T, 0, A)
    node.replica_directories.report(T, 0, B)
    answer(node)
    assert reported(node.controller.sent[1][0]) == {B: {T: [0]}}


def test_what_fails_is_told_again_after_a_pause(node: StubNode) -> None:
    node.replica_directories.report(T, 0, A)
    answer(node, error_code=STALE_BROKER_EPOCH)
    node.replica_directories.report(T, 1, A)
    assert len(node.controller.sent) == 1
    node.world.jobs.tick(node.world.clock.now_ms() + PAUSE_MS)
    assert reported(node.controller.sent[1][0]) == {A: {T: [0, 1]}}


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
    assert len(reported(node.controller.sent[1][0])[A][T]) == MAX_IN_REQUEST
    answer(node)
    assert reported(node.controller.sent[2][0]) == {A: {T: [MAX_IN_REQUEST + 1]}}


def test_a_broker_reports_directories_when_the_metadata_version_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_metadata, "NEW_CLUSTER_FEATURES", {METADATA_VERSION: 14})
    broker = SimBroker().start()
    client = broker.client()
    client.create_topic("t")
    topic = broker.node.image.topics["t"]
    broker.pass_time(10 * PAUSE_MS)
    assert len(broker.node.replica_directories) == 0
    assert topic.partitions[0].directories == (bytes(16),)
    update = FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=LATEST_METADATA_VERSION)
    assert client.ask(UpdateFeaturesRequest(feature_updates=[update]), 1).error_code == 0
    assert len(broker.node.replica_directories) == 0
    (directory,) = broker.node.logs.directories
    assert directory.id is not None
    assert topic.partitions[0].directories == (bytes(directory.id),)
    assert topic.partitions[0].leader == 1
    epoch = broker.node.broker_epoch
    broker.pass_time(PAUSE_MS)
    registered = broker.node.image.brokers[1]
    assert (registered.directories, registered.epoch, registered.is_fenced) == ((directory.id,), epoch, False)
    assert broker.node.image.controllers.keys() == {1}
