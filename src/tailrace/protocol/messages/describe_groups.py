"""DescribeGroups, api key 15."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BOOL, BYTES, INT16, INT32, STRING, array_of, field


class DescribeGroupsRequest(Request, key=15, versions="0-6", flexible="5+"):
    groups: list[str] = field(array_of(STRING))
    include_authorized_operations: bool = field(BOOL, "3+")


class DescribedGroupMember(Struct):
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, "4+", nullable="4+", default=None, ignorable=True)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    member_metadata: bytes = field(BYTES)
    member_assignment: bytes = field(BYTES)


class DescribedGroup(Struct):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, "6+", nullable="6+", default=None)
    group_id: str = field(STRING)
    group_state: str = field(STRING)
    protocol_type: str = field(STRING)
    protocol_data: str = field(STRING)
    members: list[DescribedGroupMember] = field(array_of(DescribedGroupMember))
    authorized_operations: int = field(INT32, "3+", default=-2147483648)


class DescribeGroupsResponse(Response, key=15, versions="0-6", flexible="5+"):
    throttle_time_ms: int = field(INT32, "1+", ignorable=True)
    groups: list[DescribedGroup] = field(array_of(DescribedGroup))
