"""Groups, administered: which there are, who is in them, how far they have come, and changing that.

All four kinds are handled alike where they can be. What a group is, its coordinator tells: nobody has to know before.

One thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from tailrace.client.cluster import Cluster
from tailrace.client.coordinators import GROUP, Coordinators
from tailrace.client.errors import GROUP_ID_NOT_FOUND, NONE, UNKNOWN_TOPIC_OR_PARTITION, error_of, refusal
from tailrace.client.group_descriptions import CLASSIC, SHARE, GroupDescription, GroupMember, describe_group
from tailrace.client.group_offsets import Committed, commit_offsets, fetch_offsets
from tailrace.client.offsets import LATEST, find_offsets
from tailrace.client.share_offsets import alter_share_offsets, delete_share_offsets, fetch_share_offsets
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tailrace.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tailrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

DEAD: Final = "Dead"


class GroupListing(NamedTuple):
    """`state` is empty where the broker is too old to tell."""

    group_id: str
    kind: str
    protocol_type: str
    state: str
    coordinator: int


class PartitionLag(NamedTuple):
    """`offset` is None where nothing is committed, `end` where the partition cannot be asked; `lag` where either is."""

    partition: TopicPartition
    offset: int | None
    end: int | None
    lag: int | None
    member: GroupMember | None
    metadata: str = ""


class GroupAdmin:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._coordinators = Coordinators(cluster, GROUP)

    # Looking

    def groups(self) -> list[GroupListing]:
        """All there are, by name; every broker is asked for those that it coordinates."""
        self._cluster.retry("asking which brokers there are", lambda: self._cluster.refresh(()))
        found: dict[str, GroupListing] = {}
        for node_id in sorted(self._cluster.brokers):
            for each in self._listed(node_id):
                found[each.group_id] = each
        return [found[group_id] for group_id in sorted(found)]

    def kind_of(self, group_id: str) -> str | None:
        """None where there is no such group."""

        def ask(node_id: int) -> str | None:
            return next((each.kind for each in self._listed(node_id) if each.group_id == group_id), None)

        return self._coordinators.ask(f"looking for group {group_id}", group_id, ask)

    def _listed(self, node_id: int) -> list[GroupListing]:
        def ask() -> list[GroupListing]:
            response: ListGroupsResponse = self._cluster.call(ListGroupsRequest(), node_id=node_id)
            if response.error_code != NONE:
                raise refusal(response.error_code, f"asking broker {node_id} for its groups")
            return [
                GroupListing(
                    each.group_id, each.group_type.lower() or CLASSIC, each.protocol_type, each.group_state, node_id
                )
                for each in response.groups
            ]

        return self._cluster.retry(f"asking broker {node_id} for its groups", ask)

    def describe(self, group_id: str) -> GroupDescription:
        """GroupIdNotFoundError where there is none."""
        kind = self.kind_of(group_id)
        if kind is None:
            raise error_of(GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
        return self._describe(group_id, kind)

    def _describe(self, group_id: str, kind: str) -> GroupDescription:
        def ask(node_id: int) -> GroupDescription:
            described = describe_group(self._cluster, node_id, group_id, kind)
            if described.state == DEAD:  # how older brokers say that there is none
                raise error_of(GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
            return described

        return self._coordinators.ask(f"describing group {group_id}", group_id, ask)

    def offsets(self, group_id: str, kind: str | None = None) -> dict[TopicPartition, Committed]:
        """That the group has committed, by partition; none for a group that is not there."""
        if (kind or self.kind_of(group_id)) == SHARE:
            found = fetch_share_offsets(self._cluster, self._coordinators, group_id)
            return {each: Committed(at.offset) for each, at in found.items() if at.offset >= 0}
        return fetch_offsets(self._cluster, self._coordinators, group_id)

    def lag(self, described: GroupDescription) -> list[PartitionLag]:
        """Of every partition that it has committed an offset of, or that a member has, by partition."""
        owners = {partition: member for member in described.members for partition in member.partitions}
        known_lags: dict[TopicPartition, int] = {}
        if described.kind == SHARE:
            found = fetch_share_offsets(self._cluster, self._coordinators, described.group_id)
            committed = {each: Committed(at.offset) for each, at in found.items() if at.offset >= 0}
            known_lags = {each: at.lag for each, at in found.items() if at.lag >= 0}
        else:
            committed = fetch_offsets(self._cluster, self._coordinators, described.group_id)
        ends = self._ends(sorted(committed.keys() | owners.keys()))
        lags = []
        for partition, end in ends.items():
            at = committed.get(partition)
            behind = max(end - at.offset, 0) if at is not None and end is not None else None
            lags.append(
                PartitionLag(
                    partition,
                    None if at is None else at.offset,
                    end,
                    known_lags.get(partition, behind),
                    owners.get(partition),
                    "" if at is None else at.metadata,
                )
            )
        return lags

    def _ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """None for partitions that are gone, or have no leader now."""
        ends: dict[TopicPartition, int | None] = {}
        there: list[TopicPartition] = []
        for partition in partitions:
            ends[partition] = None
            try:
                known = self._cluster.topic(partition.topic).partitions.get(partition.partition)
            except TailraceError as error:
                if error.code != UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                known = None
            if known is not None and known.leader >= 0:
                there.append(partition)
        found = find_offsets(self._cluster, dict.fromkeys(there, LATEST)) if there else {}
        return ends | {partition: each.offset for partition, each in found.items()}

    # Changing

    def alter_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int], kind: str | None = None) -> None:
        """The group must have no members; one that is not there is made."""
        if (kind or self.kind_of(group_id)) == SHARE:
            alter_share_offsets(self._cluster, self._coordinators, group_id, offsets)
        else:
            wanted = {partition: Committed(offset) for partition, offset in offsets.items()}
            commit_offsets(self._cluster, self._coordinators, group_id, wanted)

    def delete_offsets(self, group_id: str, topics: Iterable[str], kind: str | None = None) -> list[TopicPartition]:
        """Of these topics; GroupSubscribedToTopicError where a member reads one. Gives the partitions it was about."""
        wanted = set(topics)
        known = kind or self.kind_of(group_id)
        partitions = [each for each in self.offsets(group_id, known) if each.topic in wanted]
        if known == SHARE:
            delete_share_offsets(self._cluster, self._coordinators, group_id, sorted(wanted))
        elif partitions:
            self._delete_offsets(group_id, partitions)
        return partitions

    def _delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        topics: dict[str, OffsetDeleteRequestTopic] = {}
        for partition in partitions:
            topic = topics.setdefault(partition.topic, OffsetDeleteRequestTopic(name=partition.topic))
            topic.partitions.append(OffsetDeleteRequestPartition(partition_index=partition.partition))
        request = OffsetDeleteRequest(group_id=group_id, topics=list(topics.values()))

        def ask(node_id: int) -> None:
            response: OffsetDeleteResponse = self._cluster.call(request, node_id=node_id)
            if response.error_code != NONE:
                raise refusal(response.error_code, f"deleting offsets of group {group_id}")
            for topic in response.topics:
                for each in topic.partitions:
                    if each.error_code != NONE:
                        partition = TopicPartition(topic.name, each.partition_index)
                        raise refusal(each.error_code, f"deleting the offset of {partition} in group {group_id}")

        self._coordinators.ask(f"deleting offsets of group {group_id}", group_id, ask)

    def delete(self, group_id: str) -> None:
        """With its offsets. NonEmptyGroupError where it has members, GroupIdNotFoundError where it is not there."""
        self._coordinators.ask(f"deleting group {group_id}", group_id, partial(self._delete, group_id))

    def _delete(self, group_id: str, node_id: int) -> None:
        request = DeleteGroupsRequest(groups_names=[group_id])
        response: DeleteGroupsResponse = self._cluster.call(request, node_id=node_id)
        (said,) = response.results
        if said.error_code != NONE:
            raise refusal(said.error_code, f"deleting group {group_id}")
