"""DeleteShareGroupOffsets: a share group without members forgets topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.broker.share_deletion import Results, delete_states
from tailrace.coordinator.share_groups.offsets import Deletion, begin_deletion, end_deletion
from tailrace.model.errors import InvalidGroupIdError, TailraceError
from tailrace.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node

Reply = Callable[[DeleteShareGroupOffsetsResponse], None]
Row = DeleteShareGroupOffsetsResponseTopic


def handle(node: Node, context: RequestContext, request: DeleteShareGroupOffsetsRequest, reply: Reply) -> None:
    node.shares.check_enabled()
    group_id = request.group_id
    if not group_id:
        raise InvalidGroupIdError("a group id must not be empty")

    def failed(error: TailraceError) -> None:
        reply(DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=str(error)))

    def begun(deletion: Deletion) -> None:
        delete_states(node, group_id, deletion.partitions, lambda results: deleted(deletion, results))

    def deleted(deletion: Deletion, results: Results) -> None:
        rows = [*deletion.refused]
        gone: dict[bytes, str] = {}
        for topic_id in deletion.partitions:
            topic = node.image.topic_by_id(topic_id)
            row = Row(topic_id=topic_id, topic_name="" if topic is None else topic.name)
            rows.append(row)
            errors = (error for place, error in results.items() if place.topic_id == topic_id and error is not None)
            error = next(errors, None)
            if error is None:
                gone[topic_id] = row.topic_name
            else:
                row.error_code, row.error_message = error.code, str(error)
        response = DeleteShareGroupOffsetsResponse(responses=rows)
        if gone:
            node.groups.submit(
                "end-share-offset-deletion",
                group_id,
                lambda machine: end_deletion(machine.share, group_id, gone),
                lambda _: reply(response),
                failed,
            )
        else:
            reply(response)

    names = [topic.topic_name for topic in request.topics]
    node.groups.submit(
        "begin-share-offset-deletion",
        group_id,
        lambda machine: begin_deletion(machine.share, group_id, names),
        begun,
        failed,
    )
