"""WriteShareGroupState: what has become of records that share groups have read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.broker.share_state_calls import ask_each
from tailrace.coordinator.share_state.batches import StateBatch
from tailrace.coordinator.share_state.state import StateChange
from tailrace.protocol.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node

Reply = Callable[[WriteShareGroupStateResponse], None]


def handle(node: Node, context: RequestContext, request: WriteShareGroupStateRequest, reply: Reply) -> None:
    def done(found: list[tuple[bytes, list[PartitionResult]]]) -> None:
        reply(
            WriteShareGroupStateResponse(
                results=[WriteStateResult(topic_id=topic_id, partitions=rows) for topic_id, rows in found]
            )
        )

    topics = [(topic.topic_id, topic.partitions) for topic in request.topics]
    ask_each(
        node,
        request.group_id,
        topics,
        lambda machine, key, part: machine.write(key, _change(part)),
        lambda index, _: PartitionResult(partition=index),
        lambda index, error: PartitionResult(partition=index, error_code=error.code, error_message=str(error)),
        done,
    )


def _change(part: PartitionData) -> StateChange:
    return StateChange(
        part.state_epoch,
        part.leader_epoch,
        part.start_offset,
        part.delivery_complete_count,
        tuple(
            StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in part.state_batches
        ),
    )
