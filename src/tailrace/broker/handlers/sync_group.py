"""SyncGroup: the leader of a classic group brings everybody's assignment; all are answered with their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.coordinator.classic.held_reply import HeldReply
from tailrace.model.errors import InconsistentGroupProtocolError, InvalidGroupIdError, TailraceError
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from tailrace.broker.node import Node

_FIRST_VERSION_WITH_PROTOCOL: Final = 5


def handle(
    node: Node, context: RequestContext, request: SyncGroupRequest, reply: Callable[[SyncGroupResponse], None]
) -> None:
    held = HeldReply(reply)

    def failed(error: TailraceError) -> None:
        held(SyncGroupResponse(error_code=error.code))

    is_mute = request.protocol_type is None or request.protocol_name is None
    if is_mute and context.version >= _FIRST_VERSION_WITH_PROTOCOL:
        failed(InconsistentGroupProtocolError("in this version a member must say which protocol it means"))
        return
    if not request.group_id:
        failed(InvalidGroupIdError("a group must have a name"))
        return
    node.groups.submit(
        "classic-group-sync",
        request.group_id,
        lambda machine: machine.classic.sync(request, held),
        held,
        failed,
    )
