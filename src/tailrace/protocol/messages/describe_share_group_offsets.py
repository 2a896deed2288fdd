"""DescribeShareGroupOffsets, api key 90."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, INT64, STRING, UUID, array_of, field


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = field(STRING)
    partitions: list[int] = field(array_of(INT32))


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: str = field(STRING)
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(
        array_of(DescribeShareGroupOffsetsRequestTopic), nullable="0+"
    )


class DescribeShareGroupOffsetsRequest(Request, key=90, versions="0-1", flexible="0+"):
    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(array_of(DescribeShareGroupOffsetsRequestGroup))


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = field(INT32)
    start_offset: int = field(INT64)
    leader_epoch: int = field(INT32)
    lag: int = field(INT64, "1+", default=-1, ignorable=True)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = field(STRING)
    topic_id: bytes = field(UUID)
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field(
        array_of(DescribeShareGroupOffsetsResponsePartition)
    )


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: str = field(STRING)
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(array_of(DescribeShareGroupOffsetsResponseTopic))
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)


class DescribeShareGroupOffsetsResponse(Response, key=90, versions="0-1", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(array_of(DescribeShareGroupOffsetsResponseGroup))
