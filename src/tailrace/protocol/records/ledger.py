"""The metadata log's own affairs: blocks of producer ids, transactions of records."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Record
from tailrace.protocol.schema import INT8, INT32, INT64, STRING, field


class ProducerIdsRecord(Record, key=15, versions="0", flexible="0+"):
    broker_id: int = field(INT32)
    broker_epoch: int = field(INT64, default=-1)
    next_producer_id: int = field(INT64)


class NoOpRecord(Record, key=20, versions="0", flexible="0+"):
    pass


class BeginTransactionRecord(Record, key=23, versions="0", flexible="0+"):
    name: str | None = field(STRING, nullable="0+", default=None, tag=0)


class EndTransactionRecord(Record, key=24, versions="0", flexible="0+"):
    pass


class AbortTransactionRecord(Record, key=25, versions="0", flexible="0+"):
    reason: str | None = field(STRING, nullable="0+", default=None, tag=0)


class ZkMigrationStateRecord(Record, key=21, versions="0", flexible="0+"):
    zk_migration_state: int = field(INT8)
