"""LeaveGroup, api key 13."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, STRING, array_of, field


class MemberIdentity(Struct):
    member_id: str = field(STRING, "3+")
    group_instance_id: str | None = field(STRING, "3+", nullable="3+", default=None)
    reason: str | None = field(STRING, "5+", nullable="5+", default=None, ignorable=True)


class LeaveGroupRequest(Request, key=13, versions="0-5", flexible="4+"):
    group_id: str = field(STRING)
    member_id: str = field(STRING, "0-2")
    members: list[MemberIdentity] = field(array_of(MemberIdentity), "3+")


class MemberResponse(Struct):
    member_id: str = field(STRING, "3+")
    group_instance_id: str | None = field(STRING, "3+", nullable="3+")
    error_code: int = field(INT16, "3+")


class LeaveGroupResponse(Response, key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: int = field(INT32, "1+", ignorable=True)
    error_code: int = field(INT16)
    members: list[MemberResponse] = field(array_of(MemberResponse), "3+")
