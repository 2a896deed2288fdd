"""AlterPartitionReassignments, api key 45."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BOOL, INT16, INT32, STRING, array_of, field


class ReassignablePartition(Struct):
    partition_index: int = field(INT32)
    replicas: list[int] | None = field(array_of(INT32), nullable="0+", default=None)


class ReassignableTopic(Struct):
    name: str = field(STRING)
    partitions: list[ReassignablePartition] = field(array_of(ReassignablePartition))


class AlterPartitionReassignmentsRequest(Request, key=45, versions="0-1", flexible="0+"):
    timeout_ms: int = field(INT32, default=60000)
    allow_replication_factor_change: bool = field(BOOL, "1+", default=True)
    topics: list[ReassignableTopic] = field(array_of(ReassignableTopic))


class ReassignablePartitionResponse(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")


class ReassignableTopicResponse(Struct):
    name: str = field(STRING)
    partitions: list[ReassignablePartitionResponse] = field(array_of(ReassignablePartitionResponse))


class AlterPartitionReassignmentsResponse(Response, key=45, versions="0-1", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    allow_replication_factor_change: bool = field(BOOL, "1+", default=True, ignorable=True)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    responses: list[ReassignableTopicResponse] = field(array_of(ReassignableTopicResponse))
