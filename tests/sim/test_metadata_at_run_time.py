"""Metadata of other controllers that arrives while a node runs or starts: what follows it is notified."""

from __future__ import annotations

import pytest

from support.brokers.simulated import SimBroker, SimClient
from support.logs.builders import batch
from tailrace.broker.metrics import BrokerState
from tailrace.metadata.replacement import image_of
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.settings import ConfigRecord
from tailrace.protocol.records.topics import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord


def create(client: SimClient, *names: str, **configs: str) -> None:
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        for name in names
    ]
    answer = client.ask(CreateTopicsRequest(topics=topics, timeout_ms=1000), 7)
    assert [each.error_code for each in answer.topics] == [0] * len(topics)


def commit(client: SimClient, *topics: str) -> dict[str, int]:
    request = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name=name, partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=3)]
            )
            for name in topics
        ],
    )
    return {each.name: each.partitions[0].error_code for each in client.ask(request, 8).topics}


@pytest.mark.spec("RP-01")
def test_a_snapshot_that_arrives_while_the_node_runs_replaces_everything() -> None:
    broker = SimBroker().start()
    client = broker.client()
    create(client, "kept", "deleted", "recreated", **{"retention.ms": "5000"})
    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    broker.pass_time(1000)
    assert commit(client, "kept", "deleted") == {"kept": 0, "deleted": 0}
    node = broker.node
    kept, deleted, old = (node.replicas.partition(name, 0) for name in ("kept", "deleted", "recreated"))
    old_id = node.image.topics["recreated"].id
    image = image_of(node.image.records())
    changes = [
        RemoveTopicRecord(topic_id=image.topics["deleted"].id),
        RemoveTopicRecord(topic_id=old_id),
        TopicRecord(name="recreated", topic_id=b"n" * 16),
        PartitionRecord(topic_id=b"n" * 16, partition_id=0, replicas=[1], isr=[1], leader=1, directories=[bytes(16)]),
        PartitionChangeRecord(topic_id=image.topics["kept"].id, partition_id=0, leader=1),
        ConfigRecord(resource_type=2, resource_name="kept", name="retention.ms", value="7000"),
        ConfigRecord(resource_type=4, resource_name="1", name="log.cleaner.threads", value="2"),
    ]
    epoch_before = kept.leader_epoch
    records = [*image.records(), *(VersionedRecord(change, 0) for change in changes)]
    node.metadata.loader.resigned()

    prepared = node.metadata.loader.prepare(iter(records))
    node.metadata.loader.loaded(prepared, node.image.offset, node.image.epoch, node.image.timestamp_ms)
    broker.run()

    assert deleted.log is None
    assert node.replicas.partition("kept", 0) is kept
    assert kept.leader_epoch == epoch_before + 1
    new = node.replicas.partition("recreated", 0)
    assert new is not old
    assert new.topic_id == b"n" * 16
    assert new.log is not None
    assert kept.log is not None
    assert kept.log.config.retention_ms == 7000
    assert new.log.config.retention_ms != 5000
    assert node.config.broker.cleaner.log_cleaner_threads == 2
    # The coordinator keeps the image as an object, and forgets the offsets of the deleted topic.
    assert commit(client, "kept", "deleted") == {"kept": 0, "deleted": 3}
    groups = [OffsetFetchRequestGroup(group_id="g", topics=None)]
    (found,) = client.ask(OffsetFetchRequest(groups=groups), 8).groups
    assert [topic.name for topic in found.topics] == ["kept"]
    # So does the controller: its next decision is based on the snapshot.
    node.metadata.loader.became_leader(node.quorum.epoch)
    create(client, "deleted")
    assert node.replicas.partition("deleted", 0) is not deleted
    broker.stop()


@pytest.mark.parametrize("opened", [0, 1, 2])
def test_changes_while_the_logs_are_being_opened_are_applied_when_they_are_open(opened: int) -> None:
    broker = SimBroker().start()
    create(broker.client(), "kept", "deleted", "recreated")
    broker.stop()
    broker.begin()
    node, jobs = broker.node, broker.jobs
    names = ("kept", "deleted", "recreated")
    while not node.image.topics or sum(node.logs.log(TopicPartition(name, 0)) is not None for name in names) < opened:
        jobs.run_one()
    assert node.counters.broker_state is BrokerState.RECOVERY
    assert not list(node.replicas.partitions())
    old_id = node.image.topics["recreated"].id
    changes = [
        RemoveTopicRecord(topic_id=node.image.topics["deleted"].id),
        RemoveTopicRecord(topic_id=old_id),
        TopicRecord(name="recreated", topic_id=b"n" * 16),
        PartitionRecord(topic_id=b"n" * 16, partition_id=0, replicas=[1], isr=[1], leader=1, directories=[bytes(16)]),
        ConfigRecord(resource_type=2, resource_name="kept", name="retention.ms", value="7000"),
    ]
    batch = [VersionedRecord(change, 0) for change in changes]
    node.metadata.loader.committed(batch, node.image.offset + len(batch), node.image.epoch, 0)
    for _ in range(100):
        broker.pass_time(10)
    assert broker.is_ready
    kept, new = node.replicas.partition("kept", 0), node.replicas.partition("recreated", 0)
    assert kept.log is not None
    assert kept.log.config.retention_ms == 7000
    assert new.topic_id == b"n" * 16
    assert new.log is not None
    assert node.logs.log(TopicPartition("deleted", 0)) is None
    broker.stop()


@pytest.mark.spec("RP-01")
def test_a_node_survives_the_resignation_of_its_controller() -> None:
    broker = SimBroker().start()
    node, client = broker.node, broker.client()
    create(client, "before")
    node.metadata.loader.resigned()
    topics = [CreatableTopic(name="waiting", num_partitions=1, replication_factor=1)]
    waiting = client.post(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7)
    broker.pass_time(3000)  # heartbeats fail and are repeated
    other = broker.client()
    assert other.produce("before", batch()).error_code == 0
    assert waiting not in client.read()
    node.metadata.loader.leader_changed(1, node.quorum.epoch)
    node.metadata.loader.became_leader(node.quorum.epoch)
    broker.pass_time(1000)
    assert [each.error_code for each in client.read()[waiting].topics] == [0]
    create(client, "after")
    for _ in range(20):  # longer than a session: the heartbeats continue
        broker.pass_time(1000)
    assert not node.image.brokers[1].is_fenced
    assert client.produce("after", batch()).error_code == 0
    assert set(node.image.topics) == {"before", "waiting", "after"}
    broker.stop()


def test_a_node_that_is_alone_refuses_changes_while_its_controller_is_not_active() -> None:
    broker = SimBroker(listeners="PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:0").start()
    broker.node.metadata.loader.resigned()
    topics = [CreatableTopic(name="refused", num_partitions=1, replication_factor=1)]
    (refused,) = broker.client().ask(CreateTopicsRequest(topics=topics, timeout_ms=1000), 7).topics
    assert (refused.error_code, refused.error_message) == (41, "No controller appears to be active.")
    broker.kill()
