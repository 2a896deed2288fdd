"""AlterShareGroupOffsets: a share group without members is to go on somewhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.broker.share_initialization import Results, initialize
from tailrace.broker.share_sessions import Place
from tailrace.coordinator.share_groups.offsets import Alteration, alter
from tailrace.model.errors import InvalidGroupIdError, TailraceError
from tailrace.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node

Reply = Callable[[AlterShareGroupOffsetsResponse], None]


def handle(node: Node, context: RequestContext, request: AlterShareGroupOffsetsRequest, reply: Reply) -> None:
    node.shares.check_enabled()
    if not request.group_id:
        raise InvalidGroupIdError("a group id must not be empty")

    def noted(alteration: Alteration) -> None:
        def done(results: Results) -> None:
            reply(_with(alteration.response, results))

        initialize(node, alteration.initialization, done)

    def failed(error: TailraceError) -> None:
        reply(AlterShareGroupOffsetsResponse(error_code=error.code, error_message=str(error)))

    node.groups.submit(
        "alter-share-offsets", request.group_id, lambda machine: alter(machine.share, request), noted, failed
    )


def _with(response: AlterShareGroupOffsetsResponse, results: Results) -> AlterShareGroupOffsetsResponse:
    for topic in response.responses:
        for row in topic.partitions:
            error = results.get(Place(topic.topic_id, row.partition_index))
            if error is not None:
                row.error_code, row.error_message = error.code, str(error)
    return response
