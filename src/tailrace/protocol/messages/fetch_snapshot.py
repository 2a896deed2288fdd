"""FetchSnapshot, api key 59."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, INT64, RECORDS, STRING, UINT16, UUID, Payload, array_of, field


class RequestSnapshotId(Struct):
    end_offset: int = field(INT64)
    epoch: int = field(INT32)


class RequestPartitionSnapshot(Struct):
    partition: int = field(INT32)
    current_leader_epoch: int = field(INT32)
    snapshot_id: RequestSnapshotId = field(RequestSnapshotId)
    position: int = field(INT64)
    replica_directory_id: bytes = field(UUID, "1+", tag=0, ignorable=True)


class RequestTopicSnapshot(Struct):
    name: str = field(STRING)
    partitions: list[RequestPartitionSnapshot] = field(array_of(RequestPartitionSnapshot))


class FetchSnapshotRequest(Request, key=59, versions="0-1", flexible="0+"):
    cluster_id: str | None = field(STRING, nullable="0+", default=None, tag=0)
    replica_id: int = field(INT32, default=-1)
    max_bytes: int = field(INT32, default=0x7FFFFFFF)
    topics: list[RequestTopicSnapshot] = field(array_of(RequestTopicSnapshot))


class ResponseSnapshotId(Struct):
    end_offset: int = field(INT64)
    epoch: int = field(INT32)


class LeaderIdAndEpoch(Struct):
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32)


class ResponsePartitionSnapshot(Struct):
    index: int = field(INT32)
    error_code: int = field(INT16)
    snapshot_id: ResponseSnapshotId = field(ResponseSnapshotId)
    current_leader: LeaderIdAndEpoch | None = field(LeaderIdAndEpoch, tag=0)
    size: int = field(INT64)
    position: int = field(INT64)
    unaligned_records: Payload = field(RECORDS)


class ResponseTopicSnapshot(Struct):
    name: str = field(STRING)
    partitions: list[ResponsePartitionSnapshot] = field(array_of(ResponsePartitionSnapshot))


class NodeEndpoint(Struct):
    node_id: int = field(INT32, "1+")
    host: str = field(STRING, "1+")
    port: int = field(UINT16, "1+")


class FetchSnapshotResponse(Response, key=59, versions="0-1", flexible="0+"):
    throttle_time_ms: int = field(INT32, ignorable=True)
    error_code: int = field(INT16)
    topics: list[ResponseTopicSnapshot] = field(array_of(ResponseTopicSnapshot))
    node_endpoints: list[NodeEndpoint] = field(array_of(NodeEndpoint), "1+", tag=0)
