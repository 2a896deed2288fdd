"""ReadShareGroupStateSummary: how far share groups have come."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.broker.share_state_calls import ask_each
from tailrace.coordinator.share_state.shard import Summary
from tailrace.protocol.messages.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node

Reply = Callable[[ReadShareGroupStateSummaryResponse], None]


def handle(node: Node, context: RequestContext, request: ReadShareGroupStateSummaryRequest, reply: Reply) -> None:
    def done(found: list[tuple[bytes, list[PartitionResult]]]) -> None:
        reply(
            ReadShareGroupStateSummaryResponse(
                results=[ReadStateSummaryResult(topic_id=topic_id, partitions=rows) for topic_id, rows in found]
            )
        )

    topics = [(topic.topic_id, topic.partitions) for topic in request.topics]
    ask_each(
        node,
        request.group_id,
        topics,
        lambda machine, key, part: machine.summary(key),
        _row,
        lambda index, error: PartitionResult(partition=index, error_code=error.code, error_message=str(error)),
        done,
    )


def _row(index: int, summary: Summary) -> PartitionResult:
    return PartitionResult(
        partition=index,
        state_epoch=summary.state_epoch,
        leader_epoch=summary.leader_epoch,
        start_offset=summary.start_offset,
        delivery_complete_count=summary.delivery_complete_count,
    )
