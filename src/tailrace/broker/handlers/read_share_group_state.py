"""ReadShareGroupState: the whole state of partitions, for the brokers that lead them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.broker.share_state_calls import ask_each
from tailrace.coordinator.share_state.state import ShareState
from tailrace.protocol.messages.read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node

Reply = Callable[[ReadShareGroupStateResponse], None]


def handle(node: Node, context: RequestContext, request: ReadShareGroupStateRequest, reply: Reply) -> None:
    def done(found: list[tuple[bytes, list[PartitionResult]]]) -> None:
        reply(
            ReadShareGroupStateResponse(
                results=[ReadStateResult(topic_id=topic_id, partitions=rows) for topic_id, rows in found]
            )
        )

    topics = [(topic.topic_id, topic.partitions) for topic in request.topics]
    ask_each(
        node,
        request.group_id,
        topics,
        lambda machine, key, part: machine.read(key, part.leader_epoch),
        _row,
        lambda index, error: PartitionResult(partition=index, error_code=error.code, error_message=str(error)),
        done,
    )


def _row(index: int, state: ShareState) -> PartitionResult:
    return PartitionResult(
        partition=index,
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        state_batches=[
            StateBatch(first_offset=first, last_offset=last, delivery_state=delivery_state, delivery_count=count)
            for first, last, delivery_state, count in state.batches
        ],
    )
