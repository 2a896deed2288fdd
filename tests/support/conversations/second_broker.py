"""A second broker that consists of requests: it registers, replicas move to it and it leads them, and it is removed.

The requests of a broker go to the controller's listener, those of an administrator to both listeners.
"""

from __future__ import annotations

import time
from typing import Any

from support.conversations.conversation import Talk, make_topic
from support.requests.brokers import LOST, proposal
from support.requests.reassignments import reassignment
from tailrace.protocol.messages.alter_partition import AlterPartitionRequest, RequestTopicData
from tailrace.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, RequestDirectoryData
from tailrace.protocol.messages.assign_replicas_to_dirs import RequestPartitionData as AssignedPartition
from tailrace.protocol.messages.assign_replicas_to_dirs import RequestTopicData as AssignedTopic
from tailrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tailrace.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from tailrace.protocol.messages.describe_cluster import DescribeClusterRequest
from tailrace.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from tailrace.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tailrace.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.protocol.messages.unregister_broker import UnregisterBrokerRequest

TOPIC = "moved"
FIRST, SECOND = 1, 7
DIRECTORY, OTHER_DIRECTORY = b"the second's dir", b"its other direct"
INCARNATION = b"an incarnation.."
CAUGHT_UP = 2**40
"""A metadata offset that no log of these tests reaches."""
REGISTRATION, HEARTBEAT, PROPOSAL = 4, 2, 3


def second_broker(broker: Talk, controller: Talk) -> None:
    make_topic(broker, TOPIC, 3)
    cluster: Any = broker._client.ask(DescribeClusterRequest(), 1)
    found: Any = broker._client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 12)
    registered = _Registration(controller, cluster.cluster_id)
    registered.refused()
    epoch = registered.accepted()
    second = _SecondBroker(broker, controller, epoch, found.topics[0].topic_id)
    second.reassigned_while_fenced()
    second.unfenced()
    second.reassigned()
    second.elected()
    second.directories()
    second.removed()
    second.replaced()
    second.unregistered()


def supported_features(controller: Talk) -> list[Feature]:
    """The features that the server itself supports."""
    request = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
    response: Any = controller._client.ask(request, 4)
    return [
        Feature(name=each.name, min_supported_version=each.min_version, max_supported_version=each.max_version)
        for each in response.supported_features
    ]


class _Registration:
    def __init__(self, controller: Talk, cluster_id: str) -> None:
        self._controller = controller
        self._cluster_id = cluster_id
        self._features = supported_features(controller)

    def _ask(self, name: str, version: int = REGISTRATION, **fields: Any) -> Any:
        request = BrokerRegistrationRequest(
            broker_id=SECOND,
            cluster_id=self._cluster_id,
            incarnation_id=INCARNATION,
            listeners=[Listener(name="PLAINTEXT", host="nowhere.invalid", port=9092)],
            features=self._features,
            rack=None,
            log_dirs=[DIRECTORY],
        )
        for key, value in fields.items():
            setattr(request, key, value)
        response: Any = self._controller._client.ask(request, version)
        self._controller.note(name, response)
        return response

    def refused(self) -> None:
        for version in range(REGISTRATION + 1):
            self._ask(f"registered without features, version {version}", version, features=[])
        self._ask("registered without directories", log_dirs=[])
        self._ask("registered with a directory twice", log_dirs=[DIRECTORY, DIRECTORY])
        self._ask("registered with a reserved directory", log_dirs=[LOST])
        self._ask("registered with the directory of another", log_dirs=[self._controller.facts.directory_id])
        self._ask("registered as a broker that runs", broker_id=FIRST)
        self._ask("registered for a migration", is_migrating_zk_broker=True)
        old = [Feature(name=each.name, min_supported_version=0, max_supported_version=0) for each in self._features]
        self._ask("registered with old features", features=old)
        self._ask("registered as broker -1", broker_id=-1, log_dirs=[OTHER_DIRECTORY])
        self._controller.ask("broker -1 unregistered", UnregisterBrokerRequest(broker_id=-1), 0)

    def accepted(self) -> int:
        first: int = self._ask("registered").broker_epoch
        self._ask("registered again", previous_broker_epoch=-1)
        epoch: int = self._ask("registered again after an epoch", previous_broker_epoch=first).broker_epoch
        return epoch


class _SecondBroker:
    def __init__(self, broker: Talk, controller: Talk, epoch: int, topic_id: bytes) -> None:
        self._broker = broker
        self._controller = controller
        self._epoch = epoch
        self._topic_id = topic_id

    def _reassign(self, who: Talk, name: str, *targets: tuple[int, list[int] | None], factor: bool = True) -> None:
        request = AlterPartitionReassignmentsRequest(timeout_ms=20_000, topics=[reassignment(TOPIC, *targets)])
        request.allow_replication_factor_change = factor
        who.ask(name, request, 1)

    def _listed(self, name: str) -> None:
        named = [ListPartitionReassignmentsTopics(name=TOPIC, partition_indexes=[0, 2, 9])]
        for who, listener in ((self._broker, "broker"), (self._controller, "controller")):
            for what, topics in (("all", None), ("some", named)):
                request = ListPartitionReassignmentsRequest(timeout_ms=20_000, topics=topics)
                who.ask(f"{name}: {what} listed by the {listener}", request, 0)

    def _heartbeat(self, name: str, **fields: Any) -> None:
        request = BrokerHeartbeatRequest(broker_id=SECOND, broker_epoch=self._epoch, **fields)
        self._controller.ask(name, request, HEARTBEAT)

    def _propose(self, name: str, *isr: int, partition_epoch: int, broker_id: int = FIRST, index: int = 0) -> None:
        """As the leader in its present epoch."""
        epochs = {FIRST: self._controller.facts.broker_epoch, SECOND: self._epoch}
        leader_epoch = self._partitions()[index].leader_epoch
        made = proposal(PROPOSAL, *isr, index=index, leader_epoch=leader_epoch, partition_epoch=partition_epoch)
        for member in made.new_isr_with_epochs:
            member.broker_epoch = epochs.get(member.broker_id, -1)
        topics = [RequestTopicData(topic_id=self._topic_id, partitions=[made])]
        request = AlterPartitionRequest(broker_id=broker_id, broker_epoch=epochs[broker_id], topics=topics)
        self._controller.ask(name, request, PROPOSAL)

    def _partitions(self) -> list[Any]:
        time.sleep(0.2)  # a broker learns of changes a moment after the controller has made them
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=TOPIC)], response_partition_limit=100)
        response: Any = self._broker._client.ask(request, 0)
        partitions: list[Any] = response.topics[0].partitions
        return partitions

    def _described(self, name: str) -> None:
        """Partitions 0 and 2: what becomes of partition 1 is not as in Kafka."""
        self._broker.note(f"{name}: described", self._partitions()[::2])

    def reassigned_while_fenced(self) -> None:
        self._reassign(self._broker, "with the same factor", (0, [1, 7]), factor=False)
        self._reassign(self._broker, "to both", (0, [1, 7]), (2, [7, 1]), (9, [1]))
        self._listed("to both")
        self._described("to both")
        self._propose("a fenced member", 1, 7, partition_epoch=1)
        self._propose("the partition epoch before", 1, partition_epoch=0)
        self._reassign(self._controller, "cancelled", (0, None), (1, None), (2, None))
        self._reassign(self._broker, "cancelled twice", (0, None))
        self._listed("cancelled")
        self._described("cancelled")

    def unfenced(self) -> None:
        self._heartbeat("behind", current_metadata_offset=0)
        self._heartbeat("fenced as it wants", current_metadata_offset=CAUGHT_UP, want_fence=True)
        self._heartbeat("unfenced", current_metadata_offset=CAUGHT_UP)
        self._heartbeat("unfenced again", current_metadata_offset=CAUGHT_UP)

    def reassigned(self) -> None:
        self._reassign(self._broker, "moved", (0, [7]))
        self._listed("moved")
        self._propose("no member", partition_epoch=3)
        self._propose("a member that is no replica", 1, 5, partition_epoch=3)
        self._propose("both members", 1, 7, partition_epoch=3)
        self._listed("moved to the end")
        self._described("moved to the end")
        self._propose("by the leader before", 7, partition_epoch=4)
        self._propose("by the new leader", 7, broker_id=SECOND, partition_epoch=4)
        self._reassign(self._controller, "back to the first", (0, [1]))
        self._listed("back to the first")
        self._propose("with the first", 7, 1, broker_id=SECOND, partition_epoch=5)
        self._described("back to the first")

    def elected(self) -> None:
        self._reassign(self._broker, "to both, unfenced", (2, [7, 1]))
        self._propose("both of partition 2", 1, 7, index=2, partition_epoch=3)
        self._described("both of partition 2")
        for kind in (0, 1):
            topics = [TopicPartitions(topic=TOPIC, partitions=[0, 2])]
            request = ElectLeadersRequest(election_type=kind, topic_partitions=topics)
            self._broker.ask(f"elected, type {kind}", request, 2)
        self._described("elected")

    def directories(self) -> None:
        def assign(name: str, directory: bytes, index: int = 2) -> None:
            topics = [AssignedTopic(topic_id=self._topic_id, partitions=[AssignedPartition(partition_index=index)])]
            directories = [RequestDirectoryData(id=directory, topics=topics)]
            request = AssignReplicasToDirsRequest(broker_id=SECOND, broker_epoch=self._epoch, directories=directories)
            self._controller.ask(name, request, 0)

        assign("assigned", DIRECTORY)
        assign("assigned again", DIRECTORY)
        assign("assigned without being a replica", DIRECTORY, 1)
        assign("assigned to a directory that it does not have", OTHER_DIRECTORY)
        self._described("assigned to a directory that it does not have")
        assign("assigned back", DIRECTORY)
        self._heartbeat("with an offline directory", current_metadata_offset=CAUGHT_UP, offline_log_dirs=[DIRECTORY])
        self._described("with an offline directory")

    def removed(self) -> None:
        self._heartbeat("wants to stop", current_metadata_offset=CAUGHT_UP, want_shut_down=True)
        self._heartbeat("is fenced", current_metadata_offset=CAUGHT_UP, want_fence=True)
        self._described("is fenced")
        self._reassign(self._broker, "all back", (0, [1]), (1, [1]), (2, [1]))
        self._listed("all back")
        self._described("all back")

    def replaced(self) -> None:
        """Kafka goes on removing a replica that it has begun to add."""
        self._reassign(self._broker, "replaced: to the second", (1, [7]))
        self._reassign(self._broker, "replaced: to the first", (1, [1]))
        self._listed("replaced")
        self._reassign(self._broker, "replaced: cancelled", (1, None))
        self._listed("replaced and cancelled")
        self._reassign(self._broker, "reassigned twice", (1, [7, 1]), (1, [1, 7]))
        self._reassign(self._broker, "cancelled at the end", (1, None))

    def unregistered(self) -> None:
        self._broker.ask("unregistered", UnregisterBrokerRequest(broker_id=SECOND), 0)
        self._described("unregistered")
        self._reassign(self._broker, "to the unregistered", (0, [1, 7]))
        self._heartbeat("after its end", current_metadata_offset=CAUGHT_UP)
