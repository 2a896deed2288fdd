"""Three or five controllers under random commands and elections.

Nothing acknowledged is lost, every request is answered once, and all controllers have the state of the committed log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from suite.seeds import seeds
from support.metadata.controller_quorum import Asked, ControllerCluster, Member
from support.metadata.controllers import CLUSTER_ID, topic
from tailrace.protocol.message import Record, Request
from tailrace.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from tailrace.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from tailrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tailrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tailrace.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature
from tailrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tailrace.protocol.messages.create_topics import CreateTopicsRequest
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tailrace.protocol.messages.describe_quorum import DescribeQuorumRequest
from tailrace.protocol.messages.elect_leaders import ElectLeadersRequest
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tailrace.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tailrace.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tailrace.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tailrace.protocol.records.brokers import RegisterBrokerRecord
from tailrace.protocol.records.ledger import ProducerIdsRecord
from tailrace.protocol.records.settings import ConfigRecord
from tailrace.protocol.records.topics import PartitionRecord, RemoveTopicRecord, TopicRecord

NOT_CONTROLLER = 41
BROKERS = (1, 11, 12)
NAMES = ("orders", "a.b", "a_c", "clicks")


class Scenario:
    """Random events. Broker 1 runs in the process of controller 1."""

    def __init__(self, seed: int) -> None:
        self.cluster = ControllerCluster(seed, 5 if seed % 3 == 0 else 3)
        self.dice = self.cluster.dice
        self.value = 0
        self.producer_ids: set[int] = set()
        self.acknowledged = 0
        self.refused = 0

    def begin(self) -> None:
        """A leader, with some brokers if they are lucky."""
        leader = self.cluster.members[0]
        self.cluster.elect(leader)
        self.cluster.commit(1)
        for _ in range(6):
            leader.ask(self.register(leader))
            self.cluster.commit(len(self.cluster.log))
            leader.ask(self.beat(leader))

    def step(self) -> None:
        cluster, dice = self.cluster, self.dice
        member = dice.choice(cluster.members)
        event = dice.random()
        if cluster.leader is None and dice.random() < 0.3:
            cluster.elect(member)
            cluster.commit(dice.randint(0, len(cluster.log)))
        elif event < 0.55:
            target = cluster.leader if cluster.leader is not None and dice.random() < 0.8 else member
            target.ask(self.request(target))
        elif event < 0.68:
            cluster.commit(dice.randint(1, 4))
        elif event < 0.78:
            cluster.catch_up(member, dice.randint(1, 20))
        elif event < 0.81:
            cluster.snapshot_to(member)
        elif event < 0.86:
            cluster.clock.ms += dice.choice((100, 1000, 10_000))
            for each in cluster.members:
                each.controller.tick(cluster.clock.monotonic_ms())
        elif event < 0.91:
            cluster.depose(at_once=dice.random() < 0.5)
        elif event < 0.93:
            cluster.restart(member)
        else:
            cluster.notify_deposed()
        for each in cluster.members:
            each.jobs.run_due()
        self.check_acknowledged()

    def end(self) -> None:
        """The network heals: one leader commits everything, and everybody applies it."""
        cluster = self.cluster
        cluster.elect(self.dice.choice(cluster.members))
        cluster.commit(len(cluster.log))
        cluster.commit(len(cluster.log))
        for member in cluster.members:
            member.jobs.run_due()
            cluster.catch_up(member, len(cluster.log))
        cluster.commit(len(cluster.log))
        assert cluster.leader is not None
        (response,) = cluster.leader.ask(CreateTopicsRequest(topics=[topic("end", assignments={0: [99]})])).responses
        assert codes_of(response) == [39]
        self.check_acknowledged()
        for member in (*cluster.members, *cluster.killed):
            assert all(len(each.responses) == 1 for each in member.asked if not each.is_lost)
        cluster.check()

    # Commands

    def request(self, member: Member) -> Request:
        return self.dice.choice(_REQUESTS)(self, member)

    def create(self, member: Member) -> Request:
        return CreateTopicsRequest(topics=[topic(self.dice.choice(NAMES), self.dice.randint(1, 3))])

    def delete(self, member: Member) -> Request:
        names = list(member.controller.image.topics) or ["none"]
        return DeleteTopicsRequest(topics=[DeleteTopicState(name=self.dice.choice(names))])

    def grow(self, member: Member) -> Request:
        name = self.dice.choice(NAMES)
        return CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=name, count=self.dice.randint(2, 6))])

    def configure(self, member: Member) -> Request:
        self.value += 1
        config = AlterableConfig(name="retention.ms", config_operation=0, value=str(self.value))
        name = self.dice.choice(NAMES)
        return IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=2, resource_name=name, configs=[config])]
        )

    def register(self, member: Member) -> Request:
        broker_id = self.dice.choice(BROKERS)
        own = self.cluster.members[0].incarnation
        return BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=own if broker_id == 1 else bytes([broker_id, self.dice.randint(0, 1)]) * 8,
            features=[Feature(name="metadata.version", min_supported_version=7, max_supported_version=30)]
            + [
                Feature(name=name, min_supported_version=0, max_supported_version=2)
                for name in ("group.version", "share.version", "streams.version", "transaction.version")
            ],
            log_dirs=[bytes([200, broker_id]) * 8],
        )

    def beat(self, member: Member) -> Request:
        brokers = member.controller.image.brokers
        broker_id = self.dice.choice(BROKERS)
        return BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=brokers[broker_id].epoch if broker_id in brokers else 0,
            current_metadata_offset=member.loader.image.offset,
            want_fence=self.dice.random() < 0.1,
            want_shut_down=self.dice.random() < 0.1,
        )

    def allocate(self, member: Member) -> Request:
        brokers = member.controller.image.brokers
        broker_id = self.dice.choice(BROKERS)
        epoch = brokers[broker_id].epoch if broker_id in brokers else 0
        return AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch)

    def alter_partition(self, member: Member) -> Request:
        image = member.controller.image
        rows = [
            (each.id, index, partition)
            for each in image.topics.values()
            for index, partition in each.partitions.items()
            if partition.leader in image.brokers
        ]
        if not rows:
            return self.create(member)
        topic_id, index, partition = self.dice.choice(rows)
        isr = [BrokerState(broker_id=each, broker_epoch=-1) for each in partition.isr]
        proposal = RequestPartitionData(
            partition_index=index,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=isr,
        )
        return AlterPartitionRequest(
            broker_id=partition.leader,
            broker_epoch=image.brokers[partition.leader].epoch,
            topics=[RequestTopicData(topic_id=topic_id, partitions=[proposal])],
        )

    def reassign(self, member: Member) -> Request:
        replicas = self.dice.choice((None, [11], [12, 11], [1, 12], [11, 12, 1]))
        rows = [ReassignablePartition(partition_index=self.dice.randint(0, 2), replicas=replicas)]
        return AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=self.dice.choice(NAMES), partitions=rows)]
        )

    def list_reassignments(self, member: Member) -> Request:
        return ListPartitionReassignmentsRequest(topics=None)

    def update_features(self, member: Member) -> Request:
        level = self.dice.randint(0, 1)
        update = FeatureUpdateKey(feature="share.version", max_version_level=level, upgrade_type=2 - level)
        return UpdateFeaturesRequest(feature_updates=[update])

    def unregister(self, member: Member) -> Request:
        return UnregisterBrokerRequest(broker_id=self.dice.choice(BROKERS))

    def elect_leaders(self, member: Member) -> Request:
        return ElectLeadersRequest(topic_partitions=None)

    def describe(self, member: Member) -> Request:
        return DescribeQuorumRequest()

    # Acknowledged commands are in the committed log

    def check_acknowledged(self) -> None:
        """Of the responses that came since the last check."""
        records: list[Record] | None = None
        for member in self.cluster.members:
            for asked in [each for each in member.asked if each.responses and not each.is_checked]:
                asked.is_checked = True
                records = self.cluster.committed_records if records is None else records
                self._check(asked, records)

    def _check(self, asked: Asked, records: list[Record]) -> None:
        (response,) = asked.responses
        answer: Any = response
        request: Any = asked.request
        if NOT_CONTROLLER in codes_of(answer):
            self.refused += 1
            return
        if any(codes_of(answer)):
            return
        self.acknowledged += 1
        match request:
            case CreateTopicsRequest():
                (row,) = answer.topics
                assert any(isinstance(each, TopicRecord) and each.topic_id == row.topic_id for each in records)
            case DeleteTopicsRequest():
                (row,) = answer.responses
                assert any(isinstance(each, RemoveTopicRecord) and each.topic_id == row.topic_id for each in records)
            case CreatePartitionsRequest():
                count = request.topics[0].count
                assert any(isinstance(r, PartitionRecord) and r.partition_id == count - 1 for r in records)
            case IncrementalAlterConfigsRequest():
                value = request.resources[0].configs[0].value
                assert any(isinstance(each, ConfigRecord) and each.value == value for each in records)
            case BrokerRegistrationRequest():
                registered = [each for each in records if isinstance(each, RegisterBrokerRecord)]
                assert (request.broker_id, answer.broker_epoch, request.incarnation_id) in [
                    (each.broker_id, each.broker_epoch, each.incarnation_id) for each in registered
                ]
            case AllocateProducerIdsRequest():
                first = answer.producer_id_start
                assert first not in self.producer_ids
                self.producer_ids.add(first)
                assert any(isinstance(r, ProducerIdsRecord) and r.next_producer_id == first + 1000 for r in records)


_REQUESTS: tuple[Callable[[Scenario, Member], Request], ...] = (
    *[Scenario.create] * 3,
    *[Scenario.register] * 3,
    *[Scenario.beat] * 6,
    *[Scenario.configure] * 2,
    Scenario.delete,
    Scenario.grow,
    *[Scenario.allocate] * 2,
    *[Scenario.alter_partition] * 2,
    *[Scenario.reassign] * 2,
    Scenario.list_reassignments,
    Scenario.update_features,
    Scenario.unregister,
    Scenario.elect_leaders,
    Scenario.describe,
)


def codes_of(message: Any) -> list[int]:
    """All error codes in a response, at any depth."""
    found = [message.error_code] if hasattr(message, "error_code") else []
    for each in message.__fields__:
        value = getattr(message, each.name)
        if isinstance(value, list):
            found += [code for item in value if hasattr(item, "__fields__") for code in codes_of(item)]
    return found


@pytest.mark.spec("RP-01")
@pytest.mark.parametrize("seed", seeds())
def test_acknowledged_commands_survive_every_failover(seed: int) -> None:
    scenario = Scenario(seed)
    scenario.begin()
    for step in range(200):
        scenario.step()
        if step % 10 == 0:
            scenario.cluster.check()
    scenario.end()
    assert all("never" not in each.loader.image.topics for each in scenario.cluster.members)
    assert scenario.acknowledged > 0
    assert scenario.refused > 0
