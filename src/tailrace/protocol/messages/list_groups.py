"""ListGroups, api key 16."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, STRING, array_of, field


class ListGroupsRequest(Request, key=16, versions="0-5", flexible="3+"):
    states_filter: list[str] = field(array_of(STRING), "4+")
    types_filter: list[str] = field(array_of(STRING), "5+")


class ListedGroup(Struct):
    group_id: str = field(STRING)
    protocol_type: str = field(STRING)
    group_state: str = field(STRING, "4+", ignorable=True)
    group_type: str = field(STRING, "5+", ignorable=True)


class ListGroupsResponse(Response, key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: int = field(INT32, "1+", ignorable=True)
    error_code: int = field(INT16)
    groups: list[ListedGroup] = field(array_of(ListedGroup))
