"""DeleteShareGroupState, api key 86."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, STRING, UUID, array_of, field


class PartitionData(Struct):
    partition: int = field(INT32)


class DeleteStateData(Struct):
    topic_id: bytes = field(UUID)
    partitions: list[PartitionData] = field(array_of(PartitionData))


class DeleteShareGroupStateRequest(Request, key=86, versions="0", flexible="0+"):
    group_id: str = field(STRING)
    topics: list[DeleteStateData] = field(array_of(DeleteStateData))


class PartitionResult(Struct):
    partition: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)


class DeleteStateResult(Struct):
    topic_id: bytes = field(UUID)
    partitions: list[PartitionResult] = field(array_of(PartitionResult))


class DeleteShareGroupStateResponse(Response, key=86, versions="0", flexible="0+"):
    results: list[DeleteStateResult] = field(array_of(DeleteStateResult))
