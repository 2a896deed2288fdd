"""EndQuorumEpoch, api key 54."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, STRING, UINT16, UUID, array_of, field


class ReplicaInfo(Struct):
    candidate_id: int = field(INT32, "1+")
    candidate_directory_id: bytes = field(UUID, "1+")


class RequestPartitionData(Struct):
    partition_index: int = field(INT32)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32)
    preferred_successors: list[int] = field(array_of(INT32), "0", ignorable=True)
    preferred_candidates: list[ReplicaInfo] = field(array_of(ReplicaInfo), "1+", ignorable=True)


class RequestTopicData(Struct):
    topic_name: str = field(STRING)
    partitions: list[RequestPartitionData] = field(array_of(RequestPartitionData))


class LeaderEndpoint(Struct):
    name: str = field(STRING, "1+")
    host: str = field(STRING, "1+")
    port: int = field(UINT16, "1+")


class EndQuorumEpochRequest(Request, key=54, versions="0-1", flexible="1+"):
    cluster_id: str | None = field(STRING, nullable="0+", default=None)
    topics: list[RequestTopicData] = field(array_of(RequestTopicData))
    leader_endpoints: list[LeaderEndpoint] = field(array_of(LeaderEndpoint), "1+", ignorable=True)


class ResponsePartitionData(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32)


class ResponseTopicData(Struct):
    topic_name: str = field(STRING)
    partitions: list[ResponsePartitionData] = field(array_of(ResponsePartitionData))


class NodeEndpoint(Struct):
    node_id: int = field(INT32, "1+")
    host: str = field(STRING, "1+")
    port: int = field(UINT16, "1+")


class EndQuorumEpochResponse(Response, key=54, versions="0-1", flexible="1+"):
    error_code: int = field(INT16)
    topics: list[ResponseTopicData] = field(array_of(ResponseTopicData))
    node_endpoints: list[NodeEndpoint] = field(array_of(NodeEndpoint), "1+", tag=0)
