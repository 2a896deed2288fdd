"""ListOffsets, api key 2."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT8, INT16, INT32, INT64, STRING, array_of, field


class ListOffsetsPartition(Struct):
    partition_index: int = field(INT32)
    current_leader_epoch: int = field(INT32, "4+", default=-1, ignorable=True)
    timestamp: int = field(INT64)


class ListOffsetsTopic(Struct):
    name: str = field(STRING)
    partitions: list[ListOffsetsPartition] = field(array_of(ListOffsetsPartition))


class ListOffsetsRequest(Request, key=2, versions="1-11", flexible="6+"):
    replica_id: int = field(INT32)
    isolation_level: int = field(INT8, "2+")
    topics: list[ListOffsetsTopic] = field(array_of(ListOffsetsTopic))
    timeout_ms: int = field(INT32, "10+", ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    timestamp: int = field(INT64, "1+", default=-1)
    offset: int = field(INT64, "1+", default=-1)
    leader_epoch: int = field(INT32, "4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = field(STRING)
    partitions: list[ListOffsetsPartitionResponse] = field(array_of(ListOffsetsPartitionResponse))


class ListOffsetsResponse(Response, key=2, versions="1-11", flexible="6+"):
    throttle_time_ms: int = field(INT32, "2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = field(array_of(ListOffsetsTopicResponse))
