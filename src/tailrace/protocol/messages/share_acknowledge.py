"""ShareAcknowledge, api key 79."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BOOL, INT8, INT16, INT32, INT64, STRING, UUID, array_of, field


class AcknowledgementBatch(Struct):
    first_offset: int = field(INT64)
    last_offset: int = field(INT64)
    acknowledge_types: list[int] = field(array_of(INT8))


class AcknowledgePartition(Struct):
    partition_index: int = field(INT32)
    acknowledgement_batches: list[AcknowledgementBatch] = field(array_of(AcknowledgementBatch))


class AcknowledgeTopic(Struct):
    topic_id: bytes = field(UUID)
    partitions: list[AcknowledgePartition] = field(array_of(AcknowledgePartition))


class ShareAcknowledgeRequest(Request, key=79, versions="1-2", flexible="0+"):
    group_id: str | None = field(STRING, nullable="0+", default=None)
    member_id: str | None = field(STRING, nullable="0+")
    share_session_epoch: int = field(INT32)
    is_renew_ack: bool = field(BOOL, "2+")
    topics: list[AcknowledgeTopic] = field(array_of(AcknowledgeTopic))


class LeaderIdAndEpoch(Struct):
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32)


class PartitionData(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch)


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: bytes = field(UUID)
    partitions: list[PartitionData] = field(array_of(PartitionData))


class NodeEndpoint(Struct):
    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable="0+", default=None)


class ShareAcknowledgeResponse(Response, key=79, versions="1-2", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = field(INT32, "2+", ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = field(array_of(ShareAcknowledgeTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(array_of(NodeEndpoint))
