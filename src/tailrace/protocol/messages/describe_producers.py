"""DescribeProducers, api key 61."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, INT64, STRING, array_of, field


class TopicRequest(Struct):
    name: str = field(STRING)
    partition_indexes: list[int] = field(array_of(INT32))


class DescribeProducersRequest(Request, key=61, versions="0", flexible="0+"):
    topics: list[TopicRequest] = field(array_of(TopicRequest))


class ProducerState(Struct):
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT32)
    last_sequence: int = field(INT32, default=-1)
    last_timestamp: int = field(INT64, default=-1)
    coordinator_epoch: int = field(INT32)
    current_txn_start_offset: int = field(INT64, default=-1)


class PartitionResponse(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)
    active_producers: list[ProducerState] = field(array_of(ProducerState))


class TopicResponse(Struct):
    name: str = field(STRING)
    partitions: list[PartitionResponse] = field(array_of(PartitionResponse))


class DescribeProducersResponse(Response, key=61, versions="0", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    topics: list[TopicResponse] = field(array_of(TopicResponse))
