"""What brokers of this release refuse in a cluster: several replicas, and work that two brokers would share."""

from __future__ import annotations

from typing import Any

import pytest

from support.clients.sim_transactions import SimProducer
from support.universe.node_cluster import BROKERS, Cluster
from tailrace.metadata.versions import SUPPORTED_FEATURES
from tailrace.model.internal_topics import CONSUMER_OFFSETS, INTERNAL_TOPICS
from tailrace.protocol.message import Request
from tailrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tailrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tailrace.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from tailrace.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.produce import ProduceRequest
from tailrace.protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from tailrace.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

FOREIGN = 21
"""A broker that can replicate, and that no process stands behind."""
GROUP, TRANSACTIONAL_ID, SHARE = 0, 1, 2
COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, NOT_ENOUGH_REPLICAS = 15, 16, 19
INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT = 38, 39


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(5)
    cluster.until(cluster.are_brokers_ready, "brokers are registered and unfenced")
    return cluster


def create(cluster: Cluster, factor: int = -1, assigned: list[int] | None = None) -> Any:
    """The result for topic `t`."""
    assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=assigned)] if assigned else []
    topic = CreatableTopic(
        name="t", num_partitions=-1 if assigned else 1, replication_factor=factor, assignments=assignments
    )
    (result,) = cluster.ask(11, CreateTopicsRequest(topics=[topic], timeout_ms=20_000), 7).topics
    return result


def reassign(cluster: Cluster, replicas: list[int]) -> Any:
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=[partition])])
    return cluster.ask(11, request, 1).responses[0].partitions[0]


def register_foreign_broker(cluster: Cluster) -> None:
    """As a broker of Kafka registers: without the feature by which Tailrace brokers are known."""
    active = cluster.active()
    assert active is not None
    controller = cluster.node(active).local_controller
    assert controller is not None
    answers: list[Any] = []

    def ask(request: Request, version: int) -> Any:
        process = cluster.machine(active).process
        assert process is not None
        answers.clear()
        process.perform(lambda: controller.handle(request, version, None, answers.append))
        cluster.until(lambda: bool(answers), "a response")
        assert answers[0].error_code == 0, answers[0]
        return answers[0]

    features = [
        Feature(name=name, min_supported_version=first, max_supported_version=last)
        for name, (first, last) in SUPPORTED_FEATURES.items()
    ]
    registered = ask(
        BrokerRegistrationRequest(
            broker_id=FOREIGN,
            cluster_id=cluster.node(active).cluster_id,
            incarnation_id=bytes([9]) * 16,
            listeners=[Listener(name="PLAINTEXT", host="foreign", port=9092, security_protocol=0)],
            features=features,
            log_dirs=[bytes([200]) * 16],
        ),
        4,
    )
    beat = BrokerHeartbeatRequest(
        broker_id=FOREIGN,
        broker_epoch=registered.broker_epoch,
        current_metadata_offset=cluster.node(active).image.offset,
    )
    assert not ask(beat, 1).is_fenced
    cluster.until(lambda: FOREIGN in cluster.node(11).image.brokers, "the broker knows the other one")


# Replicas


def test_brokers_of_tailrace_alone_refuse_several_replicas(cluster: Cluster) -> None:
    for result in (create(cluster, factor=2), create(cluster, assigned=[11, 12])):
        assert result.error_code == INVALID_REPLICATION_FACTOR
        assert "single replicas only in this release" in result.error_message
    assert create(cluster, factor=1).error_code == 0


def test_brokers_that_can_replicate_count_for_the_replication_factor(cluster: Cluster) -> None:
    register_foreign_broker(cluster)
    result = create(cluster, factor=2)
    assert result.error_code == INVALID_REPLICATION_FACTOR
    assert "because only 1 broker(s)" in result.error_message


def test_a_partition_cannot_be_moved_to_or_from_a_tailrace_broker(cluster: Cluster) -> None:
    assert create(cluster, assigned=[11]).error_code == 0
    register_foreign_broker(cluster)
    for target in ([12], [11, 12], [FOREIGN]):
        result = reassign(cluster, target)
        assert result.error_code == INVALID_REPLICA_ASSIGNMENT
        assert "single replicas only in this release" in result.error_message
    assert reassign(cluster, [11]).error_code == 0


def test_an_assigned_follower_logs_an_error_and_stays_out_of_the_isr(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    register_foreign_broker(cluster)
    assert create(cluster, assigned=[FOREIGN, 11, 12]).error_code == 0
    cluster.until(lambda: "t" in cluster.node(11).image.topics, "the broker knows the topic")
    cluster.universe.run_for(5_000)
    assert cluster.node(11).image.topics["t"].partitions[0].isr == (FOREIGN,)
    cluster.universe.run_for(30_000)  # the foreign broker is fenced by then
    partition = cluster.node(11).image.topics["t"].partitions[0]
    assert partition.leader not in BROKERS
    assert not {*partition.isr, *partition.elr} & set(BROKERS)
    lines = [each.message for each in caplog.records if each.levelname == "ERROR"]
    for broker in BROKERS:
        assert sum(f"broker={broker} partitions=1 first=t-0" in line for line in lines) == 1
    assert reassign(cluster, [FOREIGN]).error_code == 0


def test_topics_of_coordinators_have_one_replica(cluster: Cluster) -> None:
    for key_type in (GROUP, TRANSACTIONAL_ID):
        coordinator_of(cluster, key_type, "key")
    topic_id = "AAAAAAAAAAAAAAAAAAAAKg"
    coordinator_of(cluster, SHARE, f"group:{topic_id}:0")
    topics = cluster.node(11).image.topics
    assert topics.keys() >= INTERNAL_TOPICS
    for name in INTERNAL_TOPICS:
        assert {len(each.replicas) for each in topics[name].partitions.values()} == {1}


# Work of two brokers


def coordinator_of(cluster: Cluster, key_type: int, key: str) -> int:
    found: list[int] = []

    def is_found() -> bool:
        response = cluster.ask(11, FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), 6)
        (row,) = response.coordinators
        found[:] = [row.node_id] if row.error_code == 0 else []
        return bool(found)

    while not is_found():
        cluster.universe.run_for(100)
    return found[0]


def key_of(cluster: Cluster, key_type: int, broker_id: int) -> str:
    """One that this broker coordinates."""
    return next(key for key in map("key-{}".format, range(100)) if coordinator_of(cluster, key_type, key) == broker_id)


class Routed:
    """Sends each request of a transaction to the broker that it is for."""

    def __init__(self, cluster: Cluster, coordinator: int, leader: int, group_coordinator: int) -> None:
        self._cluster = cluster
        self._coordinator = coordinator
        self._special: dict[type[Request], int] = {
            ProduceRequest: leader,
            TxnOffsetCommitRequest: group_coordinator,
        }

    def ask(self, request: Request, version: int) -> Any:
        return self._cluster.ask(self._special.get(type(request), self._coordinator), request, version)


@pytest.fixture
def producers(cluster: Cluster) -> tuple[Cluster, SimProducer, SimProducer]:
    """Of topic `orders`, whose partition 0 is led by 11 and partition 1 by 12. Their coordinator is 11, and what they
    write goes to 12. The first one adds partitions by writing to them."""
    assert cluster.create_topic("orders", through=11) == 0
    cluster.until(lambda: "orders" in cluster.node(12).image.topics, "the broker knows the topic")
    name = key_of(cluster, TRANSACTIONAL_ID, 11)
    made = [
        SimProducer(Routed(cluster, 11, 12, 12), name, is_new=is_new)  # type: ignore[arg-type]
        for is_new in (True, False)
    ]
    return cluster, made[0], made[1]


def test_a_transaction_cannot_write_to_a_partition_of_another_broker(
    producers: tuple[Cluster, SimProducer, SimProducer], caplog: pytest.LogCaptureFixture
) -> None:
    cluster, new, old = producers
    until_initialized(cluster, new)
    assert new.write("orders", 1) == NOT_ENOUGH_REPLICAS
    assert new.end(commit=False) == 0
    until_initialized(cluster, old)
    assert old.add("orders", 1) == COORDINATOR_NOT_AVAILABLE
    assert old.write_only("orders", old.batch("orders", 1, 1), 1) == NOT_ENOUGH_REPLICAS
    assert end_of(cluster, 12, "orders", 1) == 0
    (line,) = [each.message for each in caplog.records if "transaction refused" in each.message]
    assert "partition=orders-1 leader=12 coordinator=11" in line


def test_a_transaction_on_one_broker_is_committed(producers: tuple[Cluster, SimProducer, SimProducer]) -> None:
    cluster, new, _ = producers
    new.client = Routed(cluster, 11, 11, 11)  # type: ignore[assignment]
    until_initialized(cluster, new)
    assert new.write("orders", 0) == 0
    assert new.end(commit=True) == 0
    cluster.until(lambda: end_of(cluster, 11, "orders", 0) == 2, "the marker is written")


def test_offsets_of_a_group_of_another_broker_are_refused(
    producers: tuple[Cluster, SimProducer, SimProducer],
) -> None:
    cluster, new, old = producers
    group = key_of(cluster, GROUP, 12)
    until_initialized(cluster, new)
    assert new.commit_offset(group, "orders", 7) in (COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR)
    until_initialized(cluster, old)
    assert old.commit_offset(group, "orders", 7) == COORDINATOR_NOT_AVAILABLE
    index = cluster.node(12).groups.partition_for(group)
    assert end_of(cluster, 12, CONSUMER_OFFSETS, index) == 0


def test_records_are_not_shared_if_another_broker_has_the_state(
    producers: tuple[Cluster, SimProducer, SimProducer],
) -> None:
    cluster, _, _ = producers
    topic_id = cluster.node(12).image.topics["orders"].id
    group = next(
        group
        for group in map("group-{}".format, range(100))
        if coordinator_of(cluster, SHARE, f"{group}:{topic_id}:1") == 11
    )
    request = ShareFetchRequest(
        group_id=group,
        member_id="AAAAAAAAAAAAAAAAAAAAKg",
        share_session_epoch=0,
        max_wait_ms=10_000,
        min_bytes=1,
        max_bytes=1 << 20,
        max_records=10,
        batch_size=10,
        topics=[FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition_index=1)])],
    )
    response = cluster.ask(12, request, 2)
    assert response.error_code == 0
    codes = [part.error_code for topic in response.responses for part in topic.partitions]
    assert codes == [COORDINATOR_NOT_AVAILABLE]


def until_initialized(cluster: Cluster, producer: SimProducer) -> None:
    """The log of the coordinator may still be loading."""
    while producer.initialise():
        cluster.universe.run_for(100)


def end_of(cluster: Cluster, broker_id: int, topic: str, index: int) -> int:
    log = cluster.node(broker_id).replicas.partition(topic, index).log
    assert log is not None
    return log.log_end_offset
