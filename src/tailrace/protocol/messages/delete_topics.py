"""DeleteTopics, api key 20."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, STRING, UUID, array_of, field


class DeleteTopicState(Struct):
    name: str | None = field(STRING, "6+", nullable="6+", default=None)
    topic_id: bytes = field(UUID, "6+")


class DeleteTopicsRequest(Request, key=20, versions="1-6", flexible="4+"):
    topics: list[DeleteTopicState] = field(array_of(DeleteTopicState), "6+")
    topic_names: list[str] = field(array_of(STRING), "0-5", ignorable=True)
    timeout_ms: int = field(INT32)


class DeletableTopicResult(Struct):
    name: str | None = field(STRING, nullable="6+")
    topic_id: bytes = field(UUID, "6+", ignorable=True)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, "5+", nullable="5+", default=None, ignorable=True)


class DeleteTopicsResponse(Response, key=20, versions="1-6", flexible="4+"):
    throttle_time_ms: int = field(INT32, "1+", ignorable=True)
    responses: list[DeletableTopicResult] = field(array_of(DeletableTopicResult))
