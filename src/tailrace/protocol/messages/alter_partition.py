"""AlterPartition, api key 56."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT8, INT16, INT32, INT64, UUID, array_of, field


class BrokerState(Struct):
    broker_id: int = field(INT32, "3+")
    broker_epoch: int = field(INT64, "3+", default=-1)


class RequestPartitionData(Struct):
    partition_index: int = field(INT32)
    leader_epoch: int = field(INT32)
    new_isr: list[int] = field(array_of(INT32), "0-2")
    new_isr_with_epochs: list[BrokerState] = field(array_of(BrokerState), "3+")
    leader_recovery_state: int = field(INT8, "1+")
    partition_epoch: int = field(INT32)


class RequestTopicData(Struct):
    topic_id: bytes = field(UUID, "2+", ignorable=True)
    partitions: list[RequestPartitionData] = field(array_of(RequestPartitionData))


class AlterPartitionRequest(Request, key=56, versions="2-3", flexible="0+"):
    broker_id: int = field(INT32)
    broker_epoch: int = field(INT64, default=-1)
    topics: list[RequestTopicData] = field(array_of(RequestTopicData))


class ResponsePartitionData(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32)
    isr: list[int] = field(array_of(INT32))
    leader_recovery_state: int = field(INT8, "1+", ignorable=True)
    partition_epoch: int = field(INT32)


class ResponseTopicData(Struct):
    topic_id: bytes = field(UUID, "2+", ignorable=True)
    partitions: list[ResponsePartitionData] = field(array_of(ResponsePartitionData))


class AlterPartitionResponse(Response, key=56, versions="2-3", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    topics: list[ResponseTopicData] = field(array_of(ResponseTopicData))
