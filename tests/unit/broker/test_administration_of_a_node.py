"""What clients ask of the controller and of a broker's disks, in every version, on a whole simulated node."""

from __future__ import annotations

from typing import Any

import pytest

from support.brokers.handler_calls import versions_of
from support.brokers.simulated import BROKER, CONTROLLER, SimBroker, SimClient
from support.logs.builders import batch
from tailrace.config.listeners import Listener
from tailrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tailrace.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tailrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tailrace.protocol.messages.describe_cluster import DescribeClusterRequest
from tailrace.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tailrace.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from tailrace.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tailrace.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

UNKNOWN_TOPIC, ELECTION_NOT_NEEDED, NO_REASSIGNMENT, INVALID_UPDATE_VERSION, UNKNOWN_BROKER = 3, 84, 85, 95, 102


@pytest.fixture
def broker() -> SimBroker:
    return SimBroker().start()


@pytest.fixture
def client(broker: SimBroker) -> SimClient:
    return broker.client()


def metadata(client: SimClient, *names: str, create: bool = False) -> dict[str, Any]:
    topics = [MetadataRequestTopic(name=name) for name in names]
    answer = client.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=create), 12)
    return {topic.name: topic for topic in answer.topics}


@pytest.mark.parametrize("version", versions_of(CreateTopicsRequest))
def test_topics_are_made(client: SimClient, version: int) -> None:
    wanted = [CreatableTopic(name="orders", num_partitions=3, replication_factor=1)]
    (made,) = client.ask(CreateTopicsRequest(topics=wanted, timeout_ms=1000), version).topics
    assert (made.name, made.error_code) == ("orders", 0)
    seen = metadata(client, "orders")["orders"]
    assert [(p.leader_id, p.isr_nodes, p.error_code) for p in seen.partitions] == [(1, [1], 0)] * 3
    if version >= 7:
        assert made.topic_id == seen.topic_id


def test_a_topic_is_made_on_first_use(client: SimClient) -> None:
    assert metadata(client, "new")["new"].error_code == UNKNOWN_TOPIC
    assert metadata(client, "new", create=True)["new"].partitions[0].leader_id == 1
    assert client.produce("new", batch(1, 10)).error_code == 0


@pytest.mark.parametrize("version", versions_of(CreatePartitionsRequest))
def test_partitions_are_added(client: SimClient, version: int) -> None:
    client.create_topic("orders")
    more = CreatePartitionsTopic(name="orders", count=3, assignments=None)
    (result,) = client.ask(CreatePartitionsRequest(topics=[more], timeout_ms=1000), version).results
    assert (result.name, result.error_code) == ("orders", 0)
    assert len(metadata(client, "orders")["orders"].partitions) == 3
    assert client.produce("orders", batch(1, 10), partition=2).error_code == 0


@pytest.mark.parametrize("version", versions_of(DeleteTopicsRequest))
def test_topics_are_deleted(client: SimClient, version: int) -> None:
    made = client.create_topic("orders")
    if version >= 6:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=made.topic_id)], timeout_ms=1000)
    else:
        request = DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000)
    (deleted,) = client.ask(request, version).responses
    assert (deleted.name, deleted.error_code) == ("orders", 0)
    assert metadata(client, "orders")["orders"].error_code == UNKNOWN_TOPIC


@pytest.mark.parametrize("version", versions_of(ElectLeadersRequest))
def test_a_preferred_leader_needs_no_election(client: SimClient, version: int) -> None:
    client.create_topic("orders")
    some = [TopicPartitions(topic="orders", partitions=[0])]
    answer = client.ask(ElectLeadersRequest(topic_partitions=some, timeout_ms=1000), version)
    (result,) = answer.replica_election_results
    assert [row.error_code for row in result.partition_result] == [ELECTION_NOT_NEEDED]


@pytest.mark.parametrize("version", versions_of(UpdateFeaturesRequest))
def test_a_feature_that_nobody_knows(client: SimClient, version: int) -> None:
    update = FeatureUpdateKey(feature="nope", max_version_level=1)
    answer = client.ask(UpdateFeaturesRequest(feature_updates=[update], timeout_ms=1000), version)
    assert answer.error_code == INVALID_UPDATE_VERSION


def test_a_broker_that_never_was_cannot_be_unregistered(client: SimClient) -> None:
    assert client.ask(UnregisterBrokerRequest(broker_id=7), 0).error_code == UNKNOWN_BROKER


@pytest.mark.parametrize("version", versions_of(DescribeQuorumRequest))
def test_the_quorum_of_one(broker: SimBroker, version: int) -> None:
    log = RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData()])
    for listener in (broker.client(), broker.client(CONTROLLER)):
        answer = listener.ask(DescribeQuorumRequest(topics=[log]), version)
        (partition,) = answer.topics[0].partitions
        assert (answer.error_code, partition.error_code, partition.leader_id) == (0, 0, 1)
        assert [voter.replica_id for voter in partition.current_voters] == [1]
        assert partition.high_watermark == broker.node.quorum.high_watermark
        assert [node.node_id for node in answer.nodes] == ([1] if version >= 2 else [])


def test_the_controllers_of_the_cluster(broker: SimBroker) -> None:
    answer = broker.client(CONTROLLER).ask(DescribeClusterRequest(endpoint_type=2), 1)
    assert [(b.broker_id, b.host, b.port) for b in answer.brokers] == [(1, CONTROLLER.host, CONTROLLER.port)]
    assert answer.controller_id == 1


def test_producers_get_ids_that_no_other_has_also_after_a_crash(broker: SimBroker) -> None:
    def ids(count: int) -> list[int]:
        client = broker.client()
        request = InitProducerIdRequest(transactional_id=None)
        return [client.ask(request, 4).producer_id for _ in range(count)]

    before = ids(2100)
    broker.lose_power()
    broker.start()
    after = ids(10)
    assert len({*before, *after}) == 2110
    assert min(before) >= 0


def test_a_partition_is_moved_to_another_disk_and_the_controller_knows() -> None:
    broker = SimBroker(log_dirs="/a,/b").start()
    client = broker.client()
    client.create_topic("orders")
    client.produce("orders", batch(3, 10))
    (source,) = [r.log_dir for r in client.ask(DescribeLogDirsRequest(topics=None), 4).results if r.topics]
    target = {"/a": "/b", "/b": "/a"}[source]
    wanted = [AlterReplicaLogDir(path=target, topics=[AlterReplicaLogDirTopic(name="orders", partitions=[0])])]
    (moved,) = client.ask(AlterReplicaLogDirsRequest(dirs=wanted), 2).results
    assert [row.error_code for row in moved.partitions] == [0]
    broker.pass_time(2000)
    (place,) = [r.log_dir for r in client.ask(DescribeLogDirsRequest(topics=None), 4).results if r.topics]
    assert place == target
    directory = broker.node.logs.directories.at(target)
    assert broker.node.image.topics["orders"].partitions[0].directories == (directory.id,)
    broker.kill()
    assert broker.start().client().fetch("orders", 0).high_watermark == 3


@pytest.mark.parametrize("listener", [BROKER, CONTROLLER], ids=lambda each: each.name)
@pytest.mark.parametrize("version", versions_of(AlterPartitionReassignmentsRequest))
def test_reassignments(broker: SimBroker, listener: Listener, version: int) -> None:
    client = broker.client(listener)
    client.create_topic("orders")
    rows = [ReassignablePartition(partition_index=index, replicas=replicas) for index, replicas in ((0, [1]), (1, [1]))]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="orders", partitions=rows)])
    (altered,) = client.ask(request, version).responses
    assert [each.error_code for each in altered.partitions] == [0, UNKNOWN_TOPIC]
    rows[0].replicas = [1, 2]
    rows[1].partition_index, rows[1].replicas = 0, None
    (refused,) = client.ask(request, version).responses
    assert [each.error_code for each in refused.partitions] == [39, NO_REASSIGNMENT]
    assert client.ask(ListPartitionReassignmentsRequest(topics=None), 0).topics == []
