"""LeaveGroup: members of a classic group go, or are taken out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.model.errors import InvalidGroupIdError, TailraceError, UnknownMemberIdError
from tailrace.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node

_FIRST_VERSION_OF_SEVERAL: Final = 3


def handle(
    node: Node, context: RequestContext, request: LeaveGroupRequest, reply: Callable[[LeaveGroupResponse], None]
) -> None:
    is_of_one = context.version < _FIRST_VERSION_OF_SEVERAL
    if is_of_one:
        request.members = [MemberIdentity(member_id=request.member_id)]

    def answer(response: LeaveGroupResponse) -> None:
        if is_of_one:
            response.error_code = response.error_code or next((row.error_code for row in response.members), 0)
            response.members = []
        reply(response)

    def failed(error: TailraceError) -> None:
        if isinstance(error, UnknownMemberIdError):
            answer(LeaveGroupResponse(members=[_unknown(member) for member in request.members]))
        else:
            answer(LeaveGroupResponse(error_code=error.code))

    if not request.group_id:
        failed(InvalidGroupIdError("a group must have a name"))
        return
    node.groups.submit(
        "classic-group-leave",
        request.group_id,
        lambda machine: machine.classic.leave(request),
        answer,
        failed,
    )


def _unknown(member: MemberIdentity) -> MemberResponse:
    return MemberResponse(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        error_code=UnknownMemberIdError.code,
    )
