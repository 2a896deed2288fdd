"""RemoveRaftVoter, api key 81."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response
from tailrace.protocol.schema import INT16, INT32, STRING, UUID, field


class RemoveRaftVoterRequest(Request, key=81, versions="0", flexible="0+"):
    cluster_id: str | None = field(STRING, nullable="0+")
    voter_id: int = field(INT32)
    voter_directory_id: bytes = field(UUID)


class RemoveRaftVoterResponse(Response, key=81, versions="0", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", ignorable=True)
