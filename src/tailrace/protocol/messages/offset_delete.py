"""OffsetDelete, api key 47."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, STRING, array_of, field


class OffsetDeleteRequestPartition(Struct):
    partition_index: int = field(INT32)


class OffsetDeleteRequestTopic(Struct):
    name: str = field(STRING)
    partitions: list[OffsetDeleteRequestPartition] = field(array_of(OffsetDeleteRequestPartition))


class OffsetDeleteRequest(Request, key=47, versions="0"):
    group_id: str = field(STRING)
    topics: list[OffsetDeleteRequestTopic] = field(array_of(OffsetDeleteRequestTopic))


class OffsetDeleteResponsePartition(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


class OffsetDeleteResponseTopic(Struct):
    name: str = field(STRING)
    partitions: list[OffsetDeleteResponsePartition] = field(array_of(OffsetDeleteResponsePartition))


class OffsetDeleteResponse(Response, key=47, versions="0"):
    error_code: int = field(INT16)
    throttle_time_ms: int = field(INT32, ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = field(array_of(OffsetDeleteResponseTopic))
