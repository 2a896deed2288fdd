"""DescribeShareGroupOffsets: how far share groups have come, and how much lies before them.

The lag of a partition is what a member may still be given: the records from the group's start to the end of the log,
without those that are done with.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.broker.share_sessions import Place
from tailrace.coordinator.share_groups.offsets import initialized_partitions
from tailrace.coordinator.share_state.batches import NO_OFFSET
from tailrace.coordinator.share_state.key import SharePartitionKey
from tailrace.coordinator.share_state.shard import Summary
from tailrace.coordinator.share_state.state import UNKNOWN_COUNT
from tailrace.model.errors import TailraceError, UnsupportedVersionError
from tailrace.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from tailrace.storage.offset_lookup import LATEST

if TYPE_CHECKING:
    from tailrace.broker.node import Node

Reply = Callable[[DescribeShareGroupOffsetsResponse], None]
GroupRow = DescribeShareGroupOffsetsResponseGroup
Row = DescribeShareGroupOffsetsResponsePartition
UNKNOWN_LAG: Final = -1


def handle(node: Node, context: RequestContext, request: DescribeShareGroupOffsetsRequest, reply: Reply) -> None:
    rows: dict[int, GroupRow] = {}

    def add(at: int, row: GroupRow) -> None:
        rows[at] = row
        if len(rows) == len(request.groups):
            reply(DescribeShareGroupOffsetsResponse(groups=[rows[each] for each in range(len(request.groups))]))

    if not request.groups:
        reply(DescribeShareGroupOffsetsResponse())
    for at, group in enumerate(request.groups):
        if not node.shares.is_enabled:
            add(at, GroupRow(group_id=group.group_id, error_code=UnsupportedVersionError.code))
            continue
        _Description(node, group.group_id, partial(add, at)).run(group)


class _Description:
    """Of one group."""

    def __init__(self, node: Node, group_id: str, done: Callable[[GroupRow], None]) -> None:
        self._node = node
        self._group_id = group_id
        self._done = done
        self._rows: dict[Place, Row] = {}

    def run(self, group: DescribeShareGroupOffsetsRequestGroup) -> None:
        if group.topics is None:
            self._node.groups.read(
                self._group_id,
                lambda machine: initialized_partitions(machine.share, self._group_id),
                self._all_of_it,
                self._failed,
            )
            return
        unknown: list[DescribeShareGroupOffsetsResponseTopic] = []
        places: list[Place] = []
        for wanted in group.topics:
            topic = self._node.image.topics.get(wanted.topic_name)
            if topic is None:
                rows = [Row(partition_index=index, start_offset=NO_OFFSET) for index in wanted.partitions]
                unknown.append(DescribeShareGroupOffsetsResponseTopic(topic_name=wanted.topic_name, partitions=rows))
            else:
                places += [Place(topic.id, index) for index in wanted.partitions]
        self._ask(places, unknown)

    def _all_of_it(self, partitions: dict[bytes, frozenset[int]]) -> None:
        known = {
            each: indexes for each, indexes in partitions.items() if self._node.image.topic_by_id(each) is not None
        }
        self._ask([Place(topic_id, index) for topic_id, indexes in known.items() for index in sorted(indexes)], [])

    def _failed(self, error: TailraceError) -> None:
        self._done(GroupRow(group_id=self._group_id, error_code=error.code, error_message=str(error)))

    def _ask(self, asked: list[Place], unknown: list[DescribeShareGroupOffsetsResponseTopic]) -> None:
        places = list(dict.fromkeys(asked))

        def add(place: Place, row: Row) -> None:
            self._rows[place] = row
            if len(self._rows) == len(places):
                self._done(GroupRow(group_id=self._group_id, topics=[*self._topics(places), *unknown]))

        def failed(place: Place, error: TailraceError) -> None:
            row = Row(partition_index=place.partition, start_offset=NO_OFFSET, lag=UNKNOWN_LAG)
            row.error_code, row.error_message = error.code, str(error)
            add(place, row)

        if not places:
            self._done(GroupRow(group_id=self._group_id, topics=unknown))
        for place in places:
            self._node.shares.persister.summary(
                SharePartitionKey(self._group_id, *place),
                lambda summary, place=place: add(place, self._row(place, summary)),  # type: ignore[misc]
                partial(failed, place),
            )

    def _row(self, place: Place, summary: Summary) -> Row:
        row = Row(
            partition_index=place.partition,
            start_offset=summary.start_offset,
            leader_epoch=summary.leader_epoch,
            lag=UNKNOWN_LAG,
        )
        if summary.start_offset == NO_OFFSET or summary.delivery_complete_count == UNKNOWN_COUNT:
            return row
        try:
            found = self._node.replicas.partition_by_id(*place).list_offsets(LATEST)
        except TailraceError as error:
            return Row(partition_index=place.partition, error_code=error.code, error_message=str(error))
        if found is not None:
            row.lag = found.offset - summary.start_offset - summary.delivery_complete_count
        return row

    def _topics(self, places: list[Place]) -> list[DescribeShareGroupOffsetsResponseTopic]:
        topics: dict[bytes, DescribeShareGroupOffsetsResponseTopic] = {}
        for place in places:
            topic = self._node.image.topic_by_id(place.topic_id)
            name = "" if topic is None else topic.name
            row = DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=place.topic_id)
            topics.setdefault(place.topic_id, row).partitions.append(self._rows[place])
        return list(topics.values())
