"""DeleteShareGroupState: states that no share group needs any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.broker.share_state_calls import ask_each
from tailrace.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node

Reply = Callable[[DeleteShareGroupStateResponse], None]


def handle(node: Node, context: RequestContext, request: DeleteShareGroupStateRequest, reply: Reply) -> None:
    def done(found: list[tuple[bytes, list[PartitionResult]]]) -> None:
        reply(
            DeleteShareGroupStateResponse(
                results=[DeleteStateResult(topic_id=topic_id, partitions=rows) for topic_id, rows in found]
            )
        )

    topics = [(topic.topic_id, topic.partitions) for topic in request.topics]
    ask_each(
        node,
        request.group_id,
        topics,
        lambda machine, key, part: machine.delete(key),
        lambda index, _: PartitionResult(partition=index),
        lambda index, error: PartitionResult(partition=index, error_code=error.code, error_message=str(error)),
        done,
    )
