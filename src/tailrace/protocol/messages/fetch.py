"""Fetch, api key 1."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT8, INT16, INT32, INT64, RECORDS, STRING, UUID, Payload, array_of, field


class ReplicaState(Struct):
    replica_id: int = field(INT32, "15+", default=-1)
    replica_epoch: int = field(INT64, "15+", default=-1)


class FetchPartition(Struct):
    partition: int = field(INT32)
    current_leader_epoch: int = field(INT32, "9+", default=-1, ignorable=True)
    fetch_offset: int = field(INT64)
    last_fetched_epoch: int = field(INT32, "12+", default=-1)
    log_start_offset: int = field(INT64, "5+", default=-1, ignorable=True)
    partition_max_bytes: int = field(INT32)
    replica_directory_id: bytes = field(UUID, "17+", tag=0, ignorable=True)
    high_watermark: int = field(INT64, "18+", default=9223372036854775807, tag=1, ignorable=True)


class FetchTopic(Struct):
    topic: str = field(STRING, "0-12", ignorable=True)
    topic_id: bytes = field(UUID, "13+", ignorable=True)
    partitions: list[FetchPartition] = field(array_of(FetchPartition))


class ForgottenTopic(Struct):
    topic: str = field(STRING, "7-12", ignorable=True)
    topic_id: bytes = field(UUID, "13+", ignorable=True)
    partitions: list[int] = field(array_of(INT32), "7+")


class FetchRequest(Request, key=1, versions="4-18", flexible="12+"):
    cluster_id: str | None = field(STRING, "12+", nullable="12+", default=None, tag=0, ignorable=True)
    replica_id: int = field(INT32, "0-14", default=-1)
    replica_state: ReplicaState | None = field(ReplicaState, "15+", tag=1)
    max_wait_ms: int = field(INT32)
    min_bytes: int = field(INT32)
    max_bytes: int = field(INT32, "3+", default=0x7FFFFFFF, ignorable=True)
    isolation_level: int = field(INT8, "4+", ignorable=True)
    session_id: int = field(INT32, "7+", ignorable=True)
    session_epoch: int = field(INT32, "7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = field(array_of(FetchTopic))
    forgotten_topics_data: list[ForgottenTopic] = field(array_of(ForgottenTopic), "7+")
    rack_id: str = field(STRING, "11+", ignorable=True)


class EpochEndOffset(Struct):
    epoch: int = field(INT32, "12+", default=-1)
    end_offset: int = field(INT64, "12+", default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: int = field(INT32, "12+", default=-1)
    leader_epoch: int = field(INT32, "12+", default=-1)


class SnapshotId(Struct):
    end_offset: int = field(INT64, default=-1)
    epoch: int = field(INT32, default=-1)


class AbortedTransaction(Struct):
    producer_id: int = field(INT64, "4+")
    first_offset: int = field(INT64, "4+")


class PartitionData(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    high_watermark: int = field(INT64)
    last_stable_offset: int = field(INT64, "4+", default=-1, ignorable=True)
    log_start_offset: int = field(INT64, "5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset | None = field(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch | None = field(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId | None = field(SnapshotId, "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field(
        array_of(AbortedTransaction), "4+", nullable="4+", ignorable=True
    )
    preferred_read_replica: int = field(INT32, "11+", default=-1)
    records: Payload = field(RECORDS, nullable="0+")


class FetchableTopicResponse(Struct):
    topic: str = field(STRING, "0-12", ignorable=True)
    topic_id: bytes = field(UUID, "13+", ignorable=True)
    partitions: list[PartitionData] = field(array_of(PartitionData))


class NodeEndpoint(Struct):
    node_id: int = field(INT32, "16+")
    host: str = field(STRING, "16+")
    port: int = field(INT32, "16+")
    rack: str | None = field(STRING, "16+", nullable="16+", default=None)


class FetchResponse(Response, key=1, versions="4-18", flexible="12+"):
    throttle_time_ms: int = field(INT32, "1+", ignorable=True)
    error_code: int = field(INT16, "7+", ignorable=True)
    session_id: int = field(INT32, "7+")
    responses: list[FetchableTopicResponse] = field(array_of(FetchableTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(array_of(NodeEndpoint), "16+", tag=0)
