"""DescribeTransactions, api key 65."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, INT64, STRING, array_of, field


class DescribeTransactionsRequest(Request, key=65, versions="0", flexible="0+"):
    transactional_ids: list[str] = field(array_of(STRING))


class TopicData(Struct):
    topic: str = field(STRING)
    partitions: list[int] = field(array_of(INT32))


class TransactionState(Struct):
    error_code: int = field(INT16)
    transactional_id: str = field(STRING)
    transaction_state: str = field(STRING)
    transaction_timeout_ms: int = field(INT32)
    transaction_start_time_ms: int = field(INT64)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    topics: list[TopicData] = field(array_of(TopicData))


class DescribeTransactionsResponse(Response, key=65, versions="0", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    transaction_states: list[TransactionState] = field(array_of(TransactionState))
