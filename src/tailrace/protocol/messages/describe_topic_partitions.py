"""DescribeTopicPartitions, api key 75."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BOOL, INT16, INT32, STRING, UUID, array_of, field


class TopicRequest(Struct):
    name: str = field(STRING)


class RequestCursor(Struct):
    topic_name: str = field(STRING)
    partition_index: int = field(INT32)


class DescribeTopicPartitionsRequest(Request, key=75, versions="0", flexible="0+"):
    topics: list[TopicRequest] = field(array_of(TopicRequest))
    response_partition_limit: int = field(INT32, default=2000)
    cursor: RequestCursor | None = field(RequestCursor, nullable="0+", default=None)


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int = field(INT16)
    partition_index: int = field(INT32)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32, default=-1, ignorable=True)
    replica_nodes: list[int] = field(array_of(INT32))
    isr_nodes: list[int] = field(array_of(INT32))
    eligible_leader_replicas: list[int] | None = field(array_of(INT32), nullable="0+", default=None)
    last_known_elr: list[int] | None = field(array_of(INT32), nullable="0+", default=None)
    offline_replicas: list[int] = field(array_of(INT32), ignorable=True)


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = field(INT16)
    name: str | None = field(STRING, nullable="0+")
    topic_id: bytes = field(UUID, ignorable=True)
    is_internal: bool = field(BOOL, ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(
        array_of(DescribeTopicPartitionsResponsePartition)
    )
    topic_authorized_operations: int = field(INT32, default=-2147483648)


class ResponseCursor(Struct):
    topic_name: str = field(STRING)
    partition_index: int = field(INT32)


class DescribeTopicPartitionsResponse(Response, key=75, versions="0", flexible="0+"):
    throttle_time_ms: int = field(INT32, ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = field(array_of(DescribeTopicPartitionsResponseTopic))
    next_cursor: ResponseCursor | None = field(ResponseCursor, nullable="0+", default=None)
