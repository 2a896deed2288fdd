"""DeleteGroups, api key 42."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, STRING, array_of, field


class DeleteGroupsRequest(Request, key=42, versions="0-2", flexible="2+"):
    groups_names: list[str] = field(array_of(STRING))


class DeletableGroupResult(Struct):
    group_id: str = field(STRING)
    error_code: int = field(INT16)


class DeleteGroupsResponse(Response, key=42, versions="0-2", flexible="2+"):
    throttle_time_ms: int = field(INT32)
    results: list[DeletableGroupResult] = field(array_of(DeletableGroupResult))
