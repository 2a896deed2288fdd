"""The cluster as a client sees it: brokers, topics and leaders, and one connection to each broker it talks to.

It begins with the bootstrap addresses, of which one must answer, and learns the others from Metadata. What it knows of
a topic is kept until somebody finds it wrong (`forget`) or it is older than `METADATA_MAX_AGE_S`.

One thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final, NamedTuple

from tailrace.client.address import Address
from tailrace.client.caller import NO_LEADER, Broker, Caller
from tailrace.client.errors import LEADER_NOT_AVAILABLE, NONE, UNKNOWN_TOPIC_OR_PARTITION, NotABrokerError, error_of
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.describe_quorum import DescribeQuorumRequest
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

METADATA_MAX_AGE_S: Final = 300.0
NO_ID: Final = bytes(16)


class Partition(NamedTuple):
    number: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


class Topic(NamedTuple):
    name: str
    id: bytes
    """NO_ID where the broker is too old to tell."""
    is_internal: bool
    partitions: Mapping[int, Partition]
    learned_at_s: float


class Cluster(Caller):
    """Requests without a node id go to any broker."""

    @cached_property
    def _topics(self) -> dict[str, Topic]:
        """Those that are known, by name."""
        return {}

    def learn_nodes(self) -> None:
        """See Caller."""
        self.refresh(())

    # Metadata

    def refresh(self, topics: Iterable[str] | None, *, may_create: bool = False) -> MetadataResponse:
        """Ask for these topics, none at all `()`, or every one (None). Errors of single topics stay in the answer."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=may_create)
        connection = self.any_connection()
        if not connection.has_api(MetadataRequest.KEY) and connection.has_api(DescribeQuorumRequest.KEY):
            raise NotABrokerError(f"{connection.address} is a listener of a controller, not of a broker")
        response: MetadataResponse = connection.call(request, self.timeout_s)
        if response.error_code != NONE:
            raise error_of(response.error_code)
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.brokers = {
            each.node_id: Broker(each.node_id, Address(each.host, each.port), each.rack) for each in response.brokers
        }
        now_s = self.clock()
        for each in response.topics:
            if each.error_code == NONE and each.name is not None:
                partitions = {
                    part.partition_index: Partition(
                        part.partition_index,
                        part.leader_id,
                        part.leader_epoch,
                        tuple(part.replica_nodes),
                        tuple(part.isr_nodes),
                        tuple(part.offline_replicas),
                    )
                    for part in each.partitions
                }
                in_order = dict(sorted(partitions.items()))
                self._topics[each.name] = Topic(each.name, each.topic_id, each.is_internal, in_order, now_s)
            elif each.name is not None:
                self._topics.pop(each.name, None)
        return response

    def topics(self) -> list[Topic]:
        """All there are, by name."""
        response = self.retry("asking which topics there are", lambda: self.refresh(None))
        names = sorted(each.name for each in response.topics if each.name is not None)
        return [self._topics[name] for name in names if name in self._topics]

    def topic(self, name: str, *, may_create: bool = False, waits: bool = False) -> Topic:
        """UnknownTopicOrPartitionError where it is not there; with `waits`, only when it does not come in time."""
        known = self._topics.get(name)
        if known is not None and self.clock() - known.learned_at_s < METADATA_MAX_AGE_S:
            return known

        def ask() -> Topic:
            (answer,) = self.refresh([name], may_create=may_create).topics
            if answer.error_code != NONE:
                raise error_of(answer.error_code, f"topic {name}: {_WHY.get(answer.error_code, 'not to be had')}")
            return self._topics[name]

        return self.retry(f"asking about topic {name}", ask, waits_for_topics=waits or may_create)

    def leader(self, partition: TopicPartition) -> Partition:
        """With a leader that is there; retriable errors where it has none now."""
        topic = self.topic(partition.topic)
        found = topic.partitions.get(partition.partition)
        if found is None:
            self.forget(partition.topic)
            raise error_of(
                UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {partition.topic} has no partition {partition.partition}, but {_partitions(topic)}",
            )
        if found.leader == NO_LEADER:
            self.forget(partition.topic)
            raise error_of(LEADER_NOT_AVAILABLE, f"{partition} has no leader now; its replicas are {found.replicas}")
        return found

    def knows_ids(self, names: Iterable[str]) -> bool:
        """Whether topics may be spoken of by id, as the newest versions of Produce and Fetch do."""
        return all(self.topic(name).id != NO_ID for name in names)

    def forget(self, topic: str) -> None:
        """What is known of it turned out wrong: ask again before it is used next."""
        self._topics.pop(topic, None)


_WHY: Final = {
    UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic",
    LEADER_NOT_AVAILABLE: "it has no leader yet",
    17: "no topic can have this name",
    29: "not allowed",
}


def _partitions(topic: Topic) -> str:
    count = len(topic.partitions)
    return "partition 0 only" if count == 1 else f"partitions 0 to {count - 1}"
