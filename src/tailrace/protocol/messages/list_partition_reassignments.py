"""ListPartitionReassignments, api key 46."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, STRING, array_of, field


class ListPartitionReassignmentsTopics(Struct):
    name: str = field(STRING)
    partition_indexes: list[int] = field(array_of(INT32))


class ListPartitionReassignmentsRequest(Request, key=46, versions="0", flexible="0+"):
    timeout_ms: int = field(INT32, default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(
        array_of(ListPartitionReassignmentsTopics), nullable="0+", default=None
    )


class OngoingPartitionReassignment(Struct):
    partition_index: int = field(INT32)
    replicas: list[int] = field(array_of(INT32))
    adding_replicas: list[int] = field(array_of(INT32))
    removing_replicas: list[int] = field(array_of(INT32))


class OngoingTopicReassignment(Struct):
    name: str = field(STRING)
    partitions: list[OngoingPartitionReassignment] = field(array_of(OngoingPartitionReassignment))


class ListPartitionReassignmentsResponse(Response, key=46, versions="0", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    topics: list[OngoingTopicReassignment] = field(array_of(OngoingTopicReassignment))
