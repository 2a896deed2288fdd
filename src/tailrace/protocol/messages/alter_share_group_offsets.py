"""AlterShareGroupOffsets, api key 91."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, INT64, STRING, UUID, array_of, field


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: int = field(INT32)
    start_offset: int = field(INT64)


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = field(STRING)
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field(array_of(AlterShareGroupOffsetsRequestPartition))


class AlterShareGroupOffsetsRequest(Request, key=91, versions="0", flexible="0+"):
    group_id: str = field(STRING)
    topics: list[AlterShareGroupOffsetsRequestTopic] = field(array_of(AlterShareGroupOffsetsRequestTopic))


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = field(STRING)
    topic_id: bytes = field(UUID)
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field(array_of(AlterShareGroupOffsetsResponsePartition))


class AlterShareGroupOffsetsResponse(Response, key=91, versions="0", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(array_of(AlterShareGroupOffsetsResponseTopic))
