"""CreatePartitions, api key 37."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BOOL, INT16, INT32, STRING, array_of, field


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = field(array_of(INT32))


class CreatePartitionsTopic(Struct):
    name: str = field(STRING)
    count: int = field(INT32)
    assignments: list[CreatePartitionsAssignment] | None = field(array_of(CreatePartitionsAssignment), nullable="0+")


class CreatePartitionsRequest(Request, key=37, versions="0-3", flexible="2+"):
    topics: list[CreatePartitionsTopic] = field(array_of(CreatePartitionsTopic))
    timeout_ms: int = field(INT32)
    validate_only: bool = field(BOOL)


class CreatePartitionsTopicResult(Struct):
    name: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)


class CreatePartitionsResponse(Response, key=37, versions="0-3", flexible="2+"):
    throttle_time_ms: int = field(INT32)
    results: list[CreatePartitionsTopicResult] = field(array_of(CreatePartitionsTopicResult))
