"""DeleteRecords, api key 21."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, INT64, STRING, array_of, field


class DeleteRecordsPartition(Struct):
    partition_index: int = field(INT32)
    offset: int = field(INT64)


class DeleteRecordsTopic(Struct):
    name: str = field(STRING)
    partitions: list[DeleteRecordsPartition] = field(array_of(DeleteRecordsPartition))


class DeleteRecordsRequest(Request, key=21, versions="0-2", flexible="2+"):
    topics: list[DeleteRecordsTopic] = field(array_of(DeleteRecordsTopic))
    timeout_ms: int = field(INT32)


class DeleteRecordsPartitionResult(Struct):
    partition_index: int = field(INT32)
    low_watermark: int = field(INT64)
    error_code: int = field(INT16)


class DeleteRecordsTopicResult(Struct):
    name: str = field(STRING)
    partitions: list[DeleteRecordsPartitionResult] = field(array_of(DeleteRecordsPartitionResult))


class DeleteRecordsResponse(Response, key=21, versions="0-2", flexible="2+"):
    throttle_time_ms: int = field(INT32)
    topics: list[DeleteRecordsTopicResult] = field(array_of(DeleteRecordsTopicResult))
