"""ReadShareGroupStateSummary, api key 87."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, INT64, STRING, UUID, array_of, field


class PartitionData(Struct):
    partition: int = field(INT32)
    leader_epoch: int = field(INT32)


class ReadStateSummaryData(Struct):
    topic_id: bytes = field(UUID)
    partitions: list[PartitionData] = field(array_of(PartitionData))


class ReadShareGroupStateSummaryRequest(Request, key=87, versions="0-1", flexible="0+"):
    group_id: str = field(STRING)
    topics: list[ReadStateSummaryData] = field(array_of(ReadStateSummaryData))


class PartitionResult(Struct):
    partition: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)
    state_epoch: int = field(INT32)
    leader_epoch: int = field(INT32)
    start_offset: int = field(INT64)
    delivery_complete_count: int = field(INT32, "1+", default=-1, ignorable=True)


class ReadStateSummaryResult(Struct):
    topic_id: bytes = field(UUID)
    partitions: list[PartitionResult] = field(array_of(PartitionResult))


class ReadShareGroupStateSummaryResponse(Response, key=87, versions="0-1", flexible="0+"):
    results: list[ReadStateSummaryResult] = field(array_of(ReadStateSummaryResult))
