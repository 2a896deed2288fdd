"""Produce, api key 0."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, INT64, RECORDS, STRING, UUID, Payload, array_of, field


class PartitionProduceData(Struct):
    index: int = field(INT32)
    records: Payload = field(RECORDS, nullable="0+")


class TopicProduceData(Struct):
    name: str = field(STRING, "0-12", ignorable=True)
    topic_id: bytes = field(UUID, "13+", ignorable=True)
    partition_data: list[PartitionProduceData] = field(array_of(PartitionProduceData))


class ProduceRequest(Request, key=0, versions="3-13", flexible="9+"):
    transactional_id: str | None = field(STRING, "3+", nullable="3+", default=None)
    acks: int = field(INT16)
    timeout_ms: int = field(INT32)
    topic_data: list[TopicProduceData] = field(array_of(TopicProduceData))


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = field(INT32, "8+")
    batch_index_error_message: str | None = field(STRING, "8+", nullable="8+", default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int = field(INT32, "10+", default=-1)
    leader_epoch: int = field(INT32, "10+", default=-1)


class PartitionProduceResponse(Struct):
    index: int = field(INT32)
    error_code: int = field(INT16)
    base_offset: int = field(INT64)
    log_append_time_ms: int = field(INT64, "2+", default=-1, ignorable=True)
    log_start_offset: int = field(INT64, "5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = field(array_of(BatchIndexAndErrorMessage), "8+", ignorable=True)
    error_message: str | None = field(STRING, "8+", nullable="8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch | None = field(LeaderIdAndEpoch, "10+", tag=0)


class TopicProduceResponse(Struct):
    name: str = field(STRING, "0-12", ignorable=True)
    topic_id: bytes = field(UUID, "13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = field(array_of(PartitionProduceResponse))


class NodeEndpoint(Struct):
    node_id: int = field(INT32, "10+")
    host: str = field(STRING, "10+")
    port: int = field(INT32, "10+")
    rack: str | None = field(STRING, "10+", nullable="10+", default=None)


class ProduceResponse(Response, key=0, versions="3-13", flexible="9+"):
    responses: list[TopicProduceResponse] = field(array_of(TopicProduceResponse))
    throttle_time_ms: int = field(INT32, "1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = field(array_of(NodeEndpoint), "10+", tag=0)
