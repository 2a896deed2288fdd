"""Vote, api key 52."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BOOL, INT16, INT32, INT64, STRING, UINT16, UUID, array_of, field


class RequestPartitionData(Struct):
    partition_index: int = field(INT32)
    replica_epoch: int = field(INT32)
    replica_id: int = field(INT32)
    replica_directory_id: bytes = field(UUID, "1+", ignorable=True)
    voter_directory_id: bytes = field(UUID, "1+", ignorable=True)
    last_offset_epoch: int = field(INT32)
    last_offset: int = field(INT64)
    pre_vote: bool = field(BOOL, "2+")


class RequestTopicData(Struct):
    topic_name: str = field(STRING)
    partitions: list[RequestPartitionData] = field(array_of(RequestPartitionData))


class VoteRequest(Request, key=52, versions="0-2", flexible="0+"):
    cluster_id: str | None = field(STRING, nullable="0+", default=None)
    voter_id: int = field(INT32, "1+", default=-1, ignorable=True)
    topics: list[RequestTopicData] = field(array_of(RequestTopicData))


class ResponsePartitionData(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32)
    vote_granted: bool = field(BOOL)


class ResponseTopicData(Struct):
    topic_name: str = field(STRING)
    partitions: list[ResponsePartitionData] = field(array_of(ResponsePartitionData))


class NodeEndpoint(Struct):
    node_id: int = field(INT32, "1+")
    host: str = field(STRING, "1+")
    port: int = field(UINT16, "1+")


class VoteResponse(Response, key=52, versions="0-2", flexible="0+"):
    error_code: int = field(INT16)
    topics: list[ResponseTopicData] = field(array_of(ResponseTopicData))
    node_endpoints: list[NodeEndpoint] = field(array_of(NodeEndpoint), "1+", tag=0)
