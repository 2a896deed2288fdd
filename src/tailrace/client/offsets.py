"""Which offset a point in time has: ListOffsets to the leaders of partitions.

Besides milliseconds since 1970 there are the points that have no time:

    LATEST −1               the end: behind the last record that a reader of the isolation at hand may see
    EARLIEST −2             the first record that is there
    MAX_TIMESTAMP −3        the record with the greatest timestamp
    EARLIEST_LOCAL −4, LATEST_TIERED −5, EARLIEST_PENDING_UPLOAD −6    of tiered storage
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tailrace.client.cluster import Cluster
from tailrace.client.errors import NONE, error_of
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
NO_OFFSET: Final = -1
CONSUMER: Final = -1


class FoundOffset(NamedTuple):
    """NO_OFFSET where there is no such record; `timestamp` is the record's, −1 where there is no record."""

    offset: int
    timestamp: int
    leader_epoch: int


def find_offsets(
    cluster: Cluster, points: Mapping[TopicPartition, int], *, isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, FoundOffset]:
    """Of each partition the first record at or after its point in time. All of them, or the error of one."""
    found: dict[TopicPartition, FoundOffset] = {}

    def ask() -> None:
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in points.keys() - found.keys():
            by_leader.setdefault(cluster.leader(partition).leader, []).append(partition)
        errors = []
        for node_id, partitions in by_leader.items():
            request = _request(cluster, points, partitions, isolation)
            response: ListOffsetsResponse = cluster.call(request, node_id=node_id)
            errors += _take(response, found)
        for partition, error in errors:
            cluster.forget(partition.topic)
            raise error

    cluster.retry("looking up offsets", ask)
    return {partition: found[partition] for partition in points}


def _request(
    cluster: Cluster, points: Mapping[TopicPartition, int], partitions: list[TopicPartition], isolation: int
) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for partition in sorted(partitions):
        topic = topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic))
        epoch = cluster.leader(partition).leader_epoch
        topic.partitions.append(
            ListOffsetsPartition(
                partition_index=partition.partition, current_leader_epoch=epoch, timestamp=points[partition]
            )
        )
    return ListOffsetsRequest(
        replica_id=CONSUMER,
        isolation_level=isolation,
        topics=list(topics.values()),
        timeout_ms=int(cluster.timeout_s * 1000),
    )


def _take(
    response: ListOffsetsResponse, found: dict[TopicPartition, FoundOffset]
) -> list[tuple[TopicPartition, TailraceError]]:
    errors = []
    for topic in response.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            if each.error_code == NONE:
                found[partition] = FoundOffset(each.offset, each.timestamp, each.leader_epoch)
            else:
                errors.append((partition, error_of(each.error_code, f"looking up an offset of {partition}")))
    return errors
