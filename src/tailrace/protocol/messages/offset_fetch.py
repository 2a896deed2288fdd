"""OffsetFetch, api key 9."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BOOL, INT16, INT32, INT64, STRING, UUID, array_of, field


class OffsetFetchRequestTopic(Struct):
    name: str = field(STRING, "0-7")
    partition_indexes: list[int] = field(array_of(INT32), "0-7")


class OffsetFetchRequestTopics(Struct):
    name: str = field(STRING, "8-9", ignorable=True)
    topic_id: bytes = field(UUID, "10+", ignorable=True)
    partition_indexes: list[int] = field(array_of(INT32), "8+")


class OffsetFetchRequestGroup(Struct):
    group_id: str = field(STRING, "8+")
    member_id: str | None = field(STRING, "9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int = field(INT32, "9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = field(array_of(OffsetFetchRequestTopics), "8+", nullable="8+")


class OffsetFetchRequest(Request, key=9, versions="1-10", flexible="6+"):
    group_id: str = field(STRING, "0-7")
    topics: list[OffsetFetchRequestTopic] | None = field(array_of(OffsetFetchRequestTopic), "0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field(array_of(OffsetFetchRequestGroup), "8+")
    require_stable: bool = field(BOOL, "7+")


class OffsetFetchResponsePartition(Struct):
    partition_index: int = field(INT32, "0-7")
    committed_offset: int = field(INT64, "0-7")
    committed_leader_epoch: int = field(INT32, "5-7", default=-1, ignorable=True)
    metadata: str | None = field(STRING, "0-7", nullable="0-7")
    error_code: int = field(INT16, "0-7")


class OffsetFetchResponseTopic(Struct):
    name: str = field(STRING, "0-7")
    partitions: list[OffsetFetchResponsePartition] = field(array_of(OffsetFetchResponsePartition), "0-7")


class OffsetFetchResponsePartitions(Struct):
    partition_index: int = field(INT32, "8+")
    committed_offset: int = field(INT64, "8+")
    committed_leader_epoch: int = field(INT32, "8+", default=-1, ignorable=True)
    metadata: str | None = field(STRING, "8+", nullable="8+")
    error_code: int = field(INT16, "8+")


class OffsetFetchResponseTopics(Struct):
    name: str = field(STRING, "8-9", ignorable=True)
    topic_id: bytes = field(UUID, "10+", ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = field(array_of(OffsetFetchResponsePartitions), "8+")


class OffsetFetchResponseGroup(Struct):
    group_id: str = field(STRING, "8+")
    topics: list[OffsetFetchResponseTopics] = field(array_of(OffsetFetchResponseTopics), "8+")
    error_code: int = field(INT16, "8+")


class OffsetFetchResponse(Response, key=9, versions="1-10", flexible="6+"):
    throttle_time_ms: int = field(INT32, "3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field(array_of(OffsetFetchResponseTopic), "0-7")
    error_code: int = field(INT16, "2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field(array_of(OffsetFetchResponseGroup), "8+")
