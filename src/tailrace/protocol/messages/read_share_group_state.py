"""ReadShareGroupState, api key 84."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT8, INT16, INT32, INT64, STRING, UUID, array_of, field


class PartitionData(Struct):
    partition: int = field(INT32)
    leader_epoch: int = field(INT32)


class ReadStateData(Struct):
    topic_id: bytes = field(UUID)
    partitions: list[PartitionData] = field(array_of(PartitionData))


class ReadShareGroupStateRequest(Request, key=84, versions="0", flexible="0+"):
    group_id: str = field(STRING)
    topics: list[ReadStateData] = field(array_of(ReadStateData))


class StateBatch(Struct):
    first_offset: int = field(INT64)
    last_offset: int = field(INT64)
    delivery_state: int = field(INT8)
    delivery_count: int = field(INT16)


class PartitionResult(Struct):
    partition: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)
    state_epoch: int = field(INT32)
    start_offset: int = field(INT64)
    state_batches: list[StateBatch] = field(array_of(StateBatch))


class ReadStateResult(Struct):
    topic_id: bytes = field(UUID)
    partitions: list[PartitionResult] = field(array_of(PartitionResult))


class ReadShareGroupStateResponse(Response, key=84, versions="0", flexible="0+"):
    results: list[ReadStateResult] = field(array_of(ReadStateResult))
