"""AddRaftVoter, api key 80."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BOOL, INT16, INT32, STRING, UINT16, UUID, array_of, field


class Listener(Struct):
    name: str = field(STRING)
    host: str = field(STRING)
    port: int = field(UINT16)


class AddRaftVoterRequest(Request, key=80, versions="0-1", flexible="0+"):
    cluster_id: str | None = field(STRING, nullable="0+")
    timeout_ms: int = field(INT32)
    voter_id: int = field(INT32)
    voter_directory_id: bytes = field(UUID)
    listeners: list[Listener] = field(array_of(Listener))
    ack_when_committed: bool = field(BOOL, "1+", default=True)


class AddRaftVoterResponse(Response, key=80, versions="0-1", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", ignorable=True)
