"""Transactional ids, in the transaction coordinator's log."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Record, Struct
from tailrace.protocol.schema import INT8, INT16, INT32, INT64, STRING, array_of, field


class TransactionLogKey(Record, key=0, versions="0"):
    transactional_id: str = field(STRING, "0")


class PartitionsSchema(Struct):
    topic: str = field(STRING)
    partition_ids: list[int] = field(array_of(INT32))


class TransactionLogValue(Record, key=0, versions="0-1", flexible="1+"):
    producer_id: int = field(INT64)
    previous_producer_id: int = field(INT64, "1+", default=-1, tag=0)
    next_producer_id: int = field(INT64, "1+", default=-1, tag=1)
    producer_epoch: int = field(INT16)
    next_producer_epoch: int = field(INT16, "1+", default=-1, tag=3)
    transaction_timeout_ms: int = field(INT32)
    transaction_status: int = field(INT8)
    transaction_partitions: list[PartitionsSchema] | None = field(array_of(PartitionsSchema), nullable="0+")
    transaction_last_update_timestamp_ms: int = field(INT64)
    transaction_start_timestamp_ms: int = field(INT64)
    client_transaction_version: int = field(INT16, "1+", tag=2)
