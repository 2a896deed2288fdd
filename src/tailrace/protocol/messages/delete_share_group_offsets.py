"""DeleteShareGroupOffsets, api key 92."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, STRING, UUID, array_of, field


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = field(STRING)


class DeleteShareGroupOffsetsRequest(Request, key=92, versions="0", flexible="0+"):
    group_id: str = field(STRING)
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(array_of(DeleteShareGroupOffsetsRequestTopic))


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = field(STRING)
    topic_id: bytes = field(UUID)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)


class DeleteShareGroupOffsetsResponse(Response, key=92, versions="0", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(array_of(DeleteShareGroupOffsetsResponseTopic))
