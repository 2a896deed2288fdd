"""Topics, their partitions, records and offsets, administered.

Every method asks until it has an answer that lasts (`Cluster.retry`), and raises the broker's error otherwise. What
changes the cluster waits, where it says so, until the change can be seen.

One thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tailrace.client.cluster import Cluster, Topic
from tailrace.client.errors import (
    NONE,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC_OR_PARTITION,
    NoAnswerError,
    error_of,
)
from tailrace.client.offsets import READ_UNCOMMITTED, FoundOffset, find_offsets
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from tailrace.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tailrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState

BROKER_DEFAULT: Final = -1
TO_HIGH_WATERMARK: Final = -1


class CreatedTopic(NamedTuple):
    """Numbers are −1 and the id is zero where the broker is too old to tell, or only validated."""

    name: str
    id: bytes
    partitions: int
    replication_factor: int


class Admin:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    # Topics

    def topics(self, *, with_internal: bool = True) -> list[Topic]:
        """All there are, by name."""
        return [topic for topic in self._cluster.topics() if with_internal or not topic.is_internal]

    def topic(self, name: str) -> Topic:
        """As it is now; UnknownTopicOrPartitionError where there is none."""
        self._cluster.forget(name)
        return self._cluster.topic(name)

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = BROKER_DEFAULT,
        replication_factor: int = BROKER_DEFAULT,
        configs: Mapping[str, str] | None = None,
        assignment: Mapping[int, Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Waits until every partition has a leader. `assignment` names the replicas of each, and excludes numbers."""
        wanted = CreatableTopic(
            name=name,
            num_partitions=BROKER_DEFAULT if assignment else partitions,
            replication_factor=BROKER_DEFAULT if assignment else replication_factor,
            assignments=[
                CreatableReplicaAssignment(partition_index=number, broker_ids=list(nodes))
                for number, nodes in (assignment or {}).items()
            ],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=self._timeout_ms(), validate_only=validate_only)
        attempts = 0

        def ask() -> CreatedTopic:
            nonlocal attempts
            attempts += 1
            response: CreateTopicsResponse = self._cluster.call(request)
            (said,) = response.topics
            is_our_own = said.error_code == TOPIC_ALREADY_EXISTS and attempts > 1  # the first answer was lost
            if said.error_code != NONE and not is_our_own:
                raise error_of(said.error_code, said.error_message)
            return CreatedTopic(name, said.topic_id, said.num_partitions, said.replication_factor)

        created = self._cluster.retry(f"creating topic {name}", ask)
        if not validate_only:
            self._wait_until(f"topic {name} to have leaders", lambda: self._has_leaders(name))
        return created

    def delete_topic(self, name: str) -> None:
        """Waits until no broker that we ask knows it any more."""
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=self._timeout_ms()
        )
        attempts = 0

        def ask() -> None:
            nonlocal attempts
            attempts += 1
            connection = self._cluster.any_connection()
            if connection.version_for(request.KEY) < DELETES_BY_STATE:
                request.topics = []
            response: DeleteTopicsResponse = self._cluster.call(request)
            (said,) = response.responses
            is_our_own = said.error_code == UNKNOWN_TOPIC_OR_PARTITION and attempts > 1
            if said.error_code != NONE and not is_our_own:
                raise error_of(said.error_code, said.error_message or f"deleting topic {name}")

        self._cluster.retry(f"deleting topic {name}", ask)
        self._wait_until(f"topic {name} to go", lambda: not self._is_there(name))

    def add_partitions(self, name: str, total: int, *, validate_only: bool = False) -> None:
        """So that the topic has `total` partitions. Waits until they have leaders."""
        wanted = CreatePartitionsTopic(name=name, count=total, assignments=None)
        request = CreatePartitionsRequest(topics=[wanted], timeout_ms=self._timeout_ms(), validate_only=validate_only)

        def ask() -> None:
            response: CreatePartitionsResponse = self._cluster.call(request)
            (said,) = response.results
            if said.error_code != NONE:
                raise error_of(said.error_code, said.error_message)

        self._cluster.retry(f"adding partitions to {name}", ask)
        if not validate_only:
            self._wait_until(f"topic {name} to have {total} leaders", lambda: self._has_leaders(name, total))

    def _has_leaders(self, name: str, count: int = 1) -> bool:
        try:
            partitions = self.topic(name).partitions
        except TailraceError as error:
            if error.code != UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return False
        return len(partitions) >= count and all(each.leader >= 0 for each in partitions.values())

    def _is_there(self, name: str) -> bool:
        (said,) = self._cluster.refresh([name]).topics
        return said.error_code == NONE

    def _wait_until(self, what: str, is_so: Callable[[], bool]) -> None:
        deadline, backoff = self._cluster.deadline(), self._cluster.backoff()
        while not is_so():
            if deadline.is_over:
                raise NoAnswerError(f"waited {deadline.seconds:g} s for {what}")
            backoff.wait(deadline)

    # Records and offsets

    def find_offsets(
        self, points: Mapping[TopicPartition, int], *, isolation: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, FoundOffset]:
        """By time, or by the points that have no time: see `client.offsets`."""
        return find_offsets(self._cluster, points, isolation=isolation)

    def offsets_of(self, partitions: Iterable[TopicPartition], point: int) -> dict[TopicPartition, int]:
        found = find_offsets(self._cluster, dict.fromkeys(partitions, point))
        return {partition: each.offset for partition, each in found.items()}

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Records below these offsets, or below the high watermark (TO_HIGH_WATERMARK). Gives the new log starts."""
        starts: dict[TopicPartition, int] = {}

        def ask() -> None:
            by_leader: dict[int, dict[str, DeleteRecordsTopic]] = {}
            for partition in before.keys() - starts.keys():
                topics = by_leader.setdefault(self._cluster.leader(partition).leader, {})
                topic = topics.setdefault(partition.topic, DeleteRecordsTopic(name=partition.topic))
                wanted = DeleteRecordsPartition(partition_index=partition.partition, offset=before[partition])
                topic.partitions.append(wanted)
            errors = []
            for node_id, topics in by_leader.items():
                request = DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=self._timeout_ms())
                response: DeleteRecordsResponse = self._cluster.call(request, node_id=node_id)
                for said in response.topics:
                    for each in said.partitions:
                        partition = TopicPartition(said.name, each.partition_index)
                        if each.error_code == NONE:
                            starts[partition] = each.low_watermark
                        else:
                            errors.append((partition, each.error_code))
            for partition, code in errors:
                self._cluster.forget(partition.topic)
                raise error_of(code, f"deleting records of {partition} below {before[partition]}")

        self._cluster.retry("deleting records", ask)
        return {partition: starts[partition] for partition in before}

    def _timeout_ms(self) -> int:
        return int(self._cluster.timeout_s * 1000)


DELETES_BY_STATE: Final = 6
