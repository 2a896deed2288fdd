"""JoinGroup: become a member of a classic group, or join again when it is balanced anew. Answered when all have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.broker.group_caller import caller_of
from tailrace.coordinator.classic.held_reply import HeldReply
from tailrace.model.errors import InvalidGroupIdError, InvalidSessionTimeoutError, TailraceError
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from tailrace.broker.node import Node

_FIRST_VERSION_WITH_REBALANCE_TIMEOUT: Final = 1
_FIRST_VERSION_WITHOUT_PROTOCOL: Final = 7
"""Where no protocol was chosen, these are told null; older ones know only an empty name."""


def handle(
    node: Node, context: RequestContext, request: JoinGroupRequest, reply: Callable[[JoinGroupResponse], None]
) -> None:
    def answer(response: JoinGroupResponse) -> None:
        name = response.protocol_name or None
        response.protocol_name = (name or "") if context.version < _FIRST_VERSION_WITHOUT_PROTOCOL else name
        reply(response)

    held = HeldReply(answer)

    def failed(error: TailraceError) -> None:
        held(JoinGroupResponse(error_code=error.code))

    if context.version < _FIRST_VERSION_WITH_REBALANCE_TIMEOUT:
        request.rebalance_timeout_ms = request.session_timeout_ms
    refusal = _refusal(node, request)
    if refusal:
        held(JoinGroupResponse(member_id=request.member_id, error_code=refusal))
        return
    caller = caller_of(context)
    node.groups.submit(
        "classic-group-join",
        request.group_id,
        lambda machine: machine.classic.join(caller, request, held),
        held,
        failed,
    )


def _refusal(node: Node, request: JoinGroupRequest) -> int:
    if not request.group_id:
        return InvalidGroupIdError.code
    config = node.config
    if not config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms:
        return InvalidSessionTimeoutError.code
    return 0
