"""Offsets that a group has committed: fetched and committed at its coordinator, each in one request.

Topics go by name: that is what a group's offsets are kept by, and it works with every broker that we speak to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tailrace.client.cluster import Cluster
from tailrace.client.coordinators import Coordinators
from tailrace.client.errors import NONE, refusal
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

FETCH_LAST_BY_NAME: Final = 9
COMMIT_LAST_BY_NAME: Final = 9


class Committed(NamedTuple):
    """`offset` is that of the next record to be read. The epoch is −1 where nobody said."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class MemberId(NamedTuple):
    """Who commits: a member in an epoch (or generation) of its group."""

    member_id: str
    epoch: int
    instance_id: str | None = None


NOBODY: Final = MemberId("", -1)
"""No member: an administrator, or a reader that only keeps its offsets in the group."""


def fetch_offsets(
    cluster: Cluster,
    coordinators: Coordinators,
    group_id: str,
    partitions: Iterable[TopicPartition] | None = None,
    member: MemberId = NOBODY,
) -> dict[TopicPartition, Committed]:
    """Of these partitions or of all that have one. Waits for transactions that are about to commit some."""
    topics: dict[str, OffsetFetchRequestTopics] | None = None if partitions is None else {}
    for partition in partitions or ():
        assert topics is not None
        topic = topics.setdefault(partition.topic, OffsetFetchRequestTopics(name=partition.topic))
        topic.partition_indexes.append(partition.partition)
    group = OffsetFetchRequestGroup(
        group_id=group_id,
        member_id=member.member_id or None,
        member_epoch=member.epoch,
        topics=None if topics is None else list(topics.values()),
    )
    request = OffsetFetchRequest(groups=[group], require_stable=True)

    def ask(node_id: int) -> dict[TopicPartition, Committed]:
        response: OffsetFetchResponse = cluster.call(request, node_id=node_id, newest=FETCH_LAST_BY_NAME)
        (said,) = response.groups
        if said.error_code != NONE:
            raise refusal(said.error_code, f"fetching offsets of group {group_id}")
        found = {}
        for topic in said.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                if each.error_code != NONE:
                    raise refusal(each.error_code, f"fetching the offset of {partition} in group {group_id}")
                if each.committed_offset >= 0:
                    found[partition] = Committed(
                        each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                    )
        return dict(sorted(found.items()))

    return coordinators.ask(f"fetching offsets of group {group_id}", group_id, ask)


def commit_offsets(
    cluster: Cluster,
    coordinators: Coordinators,
    group_id: str,
    offsets: Mapping[TopicPartition, Committed],
    member: MemberId = NOBODY,
    *,
    timeout_s: float | None = None,
) -> None:
    """All of them, or the error of the first that was refused; the others may be committed then."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for partition, committed in offsets.items():
        topic = topics.setdefault(partition.topic, OffsetCommitRequestTopic(name=partition.topic))
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    if not topics:
        return
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=member.epoch,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        topics=list(topics.values()),
    )

    def ask(node_id: int) -> None:
        response: OffsetCommitResponse = cluster.call(request, node_id=node_id, newest=COMMIT_LAST_BY_NAME)
        for topic in response.topics:
            for each in topic.partitions:
                if each.error_code != NONE:
                    partition = TopicPartition(topic.name, each.partition_index)
                    raise refusal(each.error_code, f"committing offset {offsets[partition].offset} of {partition}")

    coordinators.ask(f"committing offsets of group {group_id}", group_id, ask, timeout_s=timeout_s)
