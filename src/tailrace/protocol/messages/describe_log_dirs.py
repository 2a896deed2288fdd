"""DescribeLogDirs, api key 35."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BOOL, INT16, INT32, INT64, STRING, array_of, field


class DescribableLogDirTopic(Struct):
    topic: str = field(STRING)
    partitions: list[int] = field(array_of(INT32))


class DescribeLogDirsRequest(Request, key=35, versions="1-5", flexible="2+"):
    topics: list[DescribableLogDirTopic] | None = field(array_of(DescribableLogDirTopic), nullable="0+")


class DescribeLogDirsPartition(Struct):
    partition_index: int = field(INT32)
    partition_size: int = field(INT64)
    offset_lag: int = field(INT64)
    is_future_key: bool = field(BOOL)


class DescribeLogDirsTopic(Struct):
    name: str = field(STRING)
    partitions: list[DescribeLogDirsPartition] = field(array_of(DescribeLogDirsPartition))


class DescribeLogDirsResult(Struct):
    error_code: int = field(INT16)
    log_dir: str = field(STRING)
    topics: list[DescribeLogDirsTopic] = field(array_of(DescribeLogDirsTopic))
    total_bytes: int = field(INT64, "4+", default=-1, ignorable=True)
    usable_bytes: int = field(INT64, "4+", default=-1, ignorable=True)
    is_cordoned: bool = field(BOOL, "5+", ignorable=True)


class DescribeLogDirsResponse(Response, key=35, versions="1-5", flexible="2+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, "3+", ignorable=True)
    results: list[DescribeLogDirsResult] = field(array_of(DescribeLogDirsResult))
