"""OffsetCommit, api key 8."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, INT64, STRING, UUID, array_of, field


class OffsetCommitRequestPartition(Struct):
    partition_index: int = field(INT32)
    committed_offset: int = field(INT64)
    committed_leader_epoch: int = field(INT32, "6+", default=-1, ignorable=True)
    committed_metadata: str | None = field(STRING, nullable="0+")


class OffsetCommitRequestTopic(Struct):
    name: str = field(STRING, "0-9", ignorable=True)
    topic_id: bytes = field(UUID, "10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = field(array_of(OffsetCommitRequestPartition))


class OffsetCommitRequest(Request, key=8, versions="2-10", flexible="8+"):
    group_id: str = field(STRING)
    generation_id_or_member_epoch: int = field(INT32, "1+", default=-1, ignorable=True)
    member_id: str = field(STRING, "1+", ignorable=True)
    group_instance_id: str | None = field(STRING, "7+", nullable="7+", default=None)
    retention_time_ms: int = field(INT64, "2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = field(array_of(OffsetCommitRequestTopic))


class OffsetCommitResponsePartition(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


class OffsetCommitResponseTopic(Struct):
    name: str = field(STRING, "0-9", ignorable=True)
    topic_id: bytes = field(UUID, "10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = field(array_of(OffsetCommitResponsePartition))


class OffsetCommitResponse(Response, key=8, versions="2-10", flexible="8+"):
    throttle_time_ms: int = field(INT32, "3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = field(array_of(OffsetCommitResponseTopic))
