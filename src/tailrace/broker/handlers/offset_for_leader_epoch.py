"""OffsetForLeaderEpoch: where a leader's epoch ended, for those who must find out where their log diverges."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.model.errors import TailraceError
from tailrace.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def handle(
    node: Node,
    context: RequestContext,
    request: OffsetForLeaderEpochRequest,
    reply: Callable[[OffsetForLeaderEpochResponse], None],
) -> None:
    topics = [
        OffsetForLeaderTopicResult(
            topic=topic.topic, partitions=[_end(node, topic.topic, wanted) for wanted in topic.partitions]
        )
        for topic in request.topics
    ]
    reply(OffsetForLeaderEpochResponse(topics=topics))


def _end(node: Node, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    row = EpochEndOffset(partition=wanted.partition)
    try:
        partition = node.replicas.partition(topic, wanted.partition)
        row.leader_epoch, row.end_offset = partition.end_offset_for_epoch(
            wanted.current_leader_epoch, wanted.leader_epoch
        )
    except TailraceError as error:
        row.error_code = error.code
    return row
