"""SyncGroup, api key 14."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BYTES, INT16, INT32, STRING, array_of, field


class SyncGroupRequestAssignment(Struct):
    member_id: str = field(STRING)
    assignment: bytes = field(BYTES)


class SyncGroupRequest(Request, key=14, versions="0-5", flexible="4+"):
    group_id: str = field(STRING)
    generation_id: int = field(INT32)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, "3+", nullable="3+", default=None)
    protocol_type: str | None = field(STRING, "5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = field(STRING, "5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = field(array_of(SyncGroupRequestAssignment))


class SyncGroupResponse(Response, key=14, versions="0-5", flexible="4+"):
    throttle_time_ms: int = field(INT32, "1+", ignorable=True)
    error_code: int = field(INT16)
    protocol_type: str | None = field(STRING, "5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = field(STRING, "5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = field(BYTES)
