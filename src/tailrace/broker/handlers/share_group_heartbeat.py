"""ShareGroupHeartbeat: a member of a share group is alive, says what it wants to read and is told what it may."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.broker.group_caller import caller_of
from tailrace.broker.share_initialization import initialize
from tailrace.coordinator.share_groups.manager import HeartbeatAnswer, check_heartbeat
from tailrace.model.errors import TailraceError
from tailrace.model.noop import noop
from tailrace.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

if TYPE_CHECKING:
    from tailrace.broker.node import Node

Reply = Callable[[ShareGroupHeartbeatResponse], None]


def handle(node: Node, context: RequestContext, request: ShareGroupHeartbeatRequest, reply: Reply) -> None:
    node.shares.check_enabled()
    caller = caller_of(context)

    def answered(answer: HeartbeatAnswer) -> None:
        reply(answer.response)
        if answer.initialization is not None:
            initialize(node, answer.initialization, noop)

    def failed(error: TailraceError) -> None:
        reply(ShareGroupHeartbeatResponse(error_code=error.code, error_message=str(error)))

    try:
        check_heartbeat(request)  # before a coordinator is looked for
    except TailraceError as error:
        failed(error)
        return
    node.groups.submit(
        "share-group-heartbeat",
        request.group_id,
        lambda machine: machine.share.heartbeat(request, caller),
        answered,
        failed,
    )
