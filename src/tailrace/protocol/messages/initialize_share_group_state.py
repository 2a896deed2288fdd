"""InitializeShareGroupState, api key 83."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, INT64, STRING, UUID, array_of, field


class PartitionData(Struct):
    partition: int = field(INT32)
    state_epoch: int = field(INT32)
    start_offset: int = field(INT64)


class InitializeStateData(Struct):
    topic_id: bytes = field(UUID)
    partitions: list[PartitionData] = field(array_of(PartitionData))


class InitializeShareGroupStateRequest(Request, key=83, versions="0", flexible="0+"):
    group_id: str = field(STRING)
    topics: list[InitializeStateData] = field(array_of(InitializeStateData))


class PartitionResult(Struct):
    partition: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)


class InitializeStateResult(Struct):
    topic_id: bytes = field(UUID)
    partitions: list[PartitionResult] = field(array_of(PartitionResult))


class InitializeShareGroupStateResponse(Response, key=83, versions="0", flexible="0+"):
    results: list[InitializeStateResult] = field(array_of(InitializeStateResult))
