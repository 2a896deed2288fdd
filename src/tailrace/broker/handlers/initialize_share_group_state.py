"""InitializeShareGroupState: states of new partitions of a share group."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.broker.share_state_calls import ask_each
from tailrace.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node

Reply = Callable[[InitializeShareGroupStateResponse], None]


def handle(node: Node, context: RequestContext, request: InitializeShareGroupStateRequest, reply: Reply) -> None:
    def done(found: list[tuple[bytes, list[PartitionResult]]]) -> None:
        reply(
            InitializeShareGroupStateResponse(
                results=[InitializeStateResult(topic_id=topic_id, partitions=rows) for topic_id, rows in found]
            )
        )

    topics = [(topic.topic_id, topic.partitions) for topic in request.topics]
    ask_each(
        node,
        request.group_id,
        topics,
        lambda machine, key, part: machine.initialize(key, part.state_epoch, part.start_offset),
        lambda index, _: PartitionResult(partition=index),
        lambda index, error: PartitionResult(partition=index, error_code=error.code, error_message=str(error)),
        done,
    )
