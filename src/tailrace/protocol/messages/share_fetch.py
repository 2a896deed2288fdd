"""ShareFetch, api key 78."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BOOL, INT8, INT16, INT32, INT64, RECORDS, STRING, UUID, Payload, array_of, field


class AcknowledgementBatch(Struct):
    first_offset: int = field(INT64)
    last_offset: int = field(INT64)
    acknowledge_types: list[int] = field(array_of(INT8))


class FetchPartition(Struct):
    partition_index: int = field(INT32)
    acknowledgement_batches: list[AcknowledgementBatch] = field(array_of(AcknowledgementBatch))


class FetchTopic(Struct):
    topic_id: bytes = field(UUID)
    partitions: list[FetchPartition] = field(array_of(FetchPartition))


class ForgottenTopic(Struct):
    topic_id: bytes = field(UUID)
    partitions: list[int] = field(array_of(INT32))


class ShareFetchRequest(Request, key=78, versions="1-2", flexible="0+"):
    group_id: str | None = field(STRING, nullable="0+", default=None)
    member_id: str | None = field(STRING, nullable="0+")
    share_session_epoch: int = field(INT32)
    max_wait_ms: int = field(INT32)
    min_bytes: int = field(INT32)
    max_bytes: int = field(INT32, default=0x7FFFFFFF)
    max_records: int = field(INT32, "1+")
    batch_size: int = field(INT32, "1+")
    share_acquire_mode: int = field(INT8, "2+", ignorable=True)
    is_renew_ack: bool = field(BOOL, "2+")
    topics: list[FetchTopic] = field(array_of(FetchTopic))
    forgotten_topics_data: list[ForgottenTopic] = field(array_of(ForgottenTopic))


class LeaderIdAndEpoch(Struct):
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32)


class AcquiredRecords(Struct):
    first_offset: int = field(INT64)
    last_offset: int = field(INT64)
    delivery_count: int = field(INT16)


class PartitionData(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)
    acknowledge_error_code: int = field(INT16)
    acknowledge_error_message: str | None = field(STRING, nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch)
    records: Payload = field(RECORDS, nullable="0")
    acquired_records: list[AcquiredRecords] = field(array_of(AcquiredRecords))


class ShareFetchableTopicResponse(Struct):
    topic_id: bytes = field(UUID)
    partitions: list[PartitionData] = field(array_of(PartitionData))


class NodeEndpoint(Struct):
    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable="0+", default=None)


class ShareFetchResponse(Response, key=78, versions="1-2", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = field(INT32, "1+")
    responses: list[ShareFetchableTopicResponse] = field(array_of(ShareFetchableTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(array_of(NodeEndpoint))
