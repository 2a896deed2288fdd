"""Heartbeat: a member of a classic group lives, and hears whether the group is being balanced anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.model.errors import CoordinatorLoadInProgressError, InvalidGroupIdError, TailraceError
from tailrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def handle(
    node: Node, context: RequestContext, request: HeartbeatRequest, reply: Callable[[HeartbeatResponse], None]
) -> None:
    def failed(error: TailraceError) -> None:
        # While the group is being loaded nothing is known against the member, and sessions have not begun.
        code = 0 if isinstance(error, CoordinatorLoadInProgressError) else error.code
        reply(HeartbeatResponse(error_code=code))

    if not request.group_id:
        failed(InvalidGroupIdError("a group must have a name"))
        return
    node.groups.submit(
        "classic-group-heartbeat",
        request.group_id,
        lambda machine: machine.classic.heartbeat(request),
        reply,
        failed,
    )
