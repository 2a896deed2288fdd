"""AddPartitionsToTxn, api key 24."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BOOL, INT16, INT32, INT64, STRING, array_of, field


class AddPartitionsToTxnTopic(Struct):
    name: str = field(STRING)
    partitions: list[int] = field(array_of(INT32))


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = field(STRING, "4+")
    producer_id: int = field(INT64, "4+")
    producer_epoch: int = field(INT16, "4+")
    verify_only: bool = field(BOOL, "4+")
    topics: list[AddPartitionsToTxnTopic] = field(array_of(AddPartitionsToTxnTopic), "4+")


class AddPartitionsToTxnRequest(Request, key=24, versions="0-5", flexible="3+"):
    transactions: list[AddPartitionsToTxnTransaction] = field(array_of(AddPartitionsToTxnTransaction), "4+")
    v3_and_below_transactional_id: str = field(STRING, "0-3")
    v3_and_below_producer_id: int = field(INT64, "0-3")
    v3_and_below_producer_epoch: int = field(INT16, "0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(array_of(AddPartitionsToTxnTopic), "0-3")


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = field(INT32)
    partition_error_code: int = field(INT16)


class AddPartitionsToTxnTopicResult(Struct):
    name: str = field(STRING)
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(array_of(AddPartitionsToTxnPartitionResult))


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = field(STRING, "4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = field(array_of(AddPartitionsToTxnTopicResult), "4+")


class AddPartitionsToTxnResponse(Response, key=24, versions="0-5", flexible="3+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, "4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(array_of(AddPartitionsToTxnResult), "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        array_of(AddPartitionsToTxnTopicResult), "0-3"
    )
