"""DescribeQuorum, api key 55."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, INT64, STRING, UINT16, UUID, array_of, field


class RequestPartitionData(Struct):
    partition_index: int = field(INT32)


class RequestTopicData(Struct):
    topic_name: str = field(STRING)
    partitions: list[RequestPartitionData] = field(array_of(RequestPartitionData))


class DescribeQuorumRequest(Request, key=55, versions="0-2", flexible="0+"):
    topics: list[RequestTopicData] = field(array_of(RequestTopicData))


class ReplicaState(Struct):
    replica_id: int = field(INT32)
    replica_directory_id: bytes = field(UUID, "2+")
    log_end_offset: int = field(INT64)
    last_fetch_timestamp: int = field(INT64, "1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int = field(INT64, "1+", default=-1, ignorable=True)


class ResponsePartitionData(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, "2+", nullable="2+", ignorable=True)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32)
    high_watermark: int = field(INT64)
    current_voters: list[ReplicaState] = field(array_of(ReplicaState))
    observers: list[ReplicaState] = field(array_of(ReplicaState))


class ResponseTopicData(Struct):
    topic_name: str = field(STRING)
    partitions: list[ResponsePartitionData] = field(array_of(ResponsePartitionData))


class Listener(Struct):
    name: str = field(STRING, "2+")
    host: str = field(STRING, "2+")
    port: int = field(UINT16, "2+")


class Node(Struct):
    node_id: int = field(INT32, "2+")
    listeners: list[Listener] = field(array_of(Listener), "2+")


class DescribeQuorumResponse(Response, key=55, versions="0-2", flexible="0+"):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, "2+", nullable="2+", ignorable=True)
    topics: list[ResponseTopicData] = field(array_of(ResponseTopicData))
    nodes: list[Node] = field(array_of(Node), "2+")
