"""AssignReplicasToDirs, api key 73."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, INT64, UUID, array_of, field


class RequestPartitionData(Struct):
    partition_index: int = field(INT32)


class RequestTopicData(Struct):
    topic_id: bytes = field(UUID)
    partitions: list[RequestPartitionData] = field(array_of(RequestPartitionData))


class RequestDirectoryData(Struct):
    id: bytes = field(UUID)
    topics: list[RequestTopicData] = field(array_of(RequestTopicData))


class AssignReplicasToDirsRequest(Request, key=73, versions="0", flexible="0+"):
    broker_id: int = field(INT32)
    broker_epoch: int = field(INT64, default=-1)
    directories: list[RequestDirectoryData] = field(array_of(RequestDirectoryData))


class ResponsePartitionData(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


class ResponseTopicData(Struct):
    topic_id: bytes = field(UUID)
    partitions: list[ResponsePartitionData] = field(array_of(ResponsePartitionData))


class ResponseDirectoryData(Struct):
    id: bytes = field(UUID)
    topics: list[ResponseTopicData] = field(array_of(ResponseTopicData))


class AssignReplicasToDirsResponse(Response, key=73, versions="0", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    directories: list[ResponseDirectoryData] = field(array_of(ResponseDirectoryData))
