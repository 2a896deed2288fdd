"""Committed offsets, in the group coordinator's log."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Record
from tailrace.protocol.schema import INT32, INT64, STRING, UUID, field


class LegacyOffsetCommitKey(Record, key=0, versions="0"):
    group: str = field(STRING, "0")
    topic: str = field(STRING, "0")
    partition: int = field(INT32, "0")


class LegacyOffsetCommitValue(Record, key=0, versions="0"):
    offset: int = field(INT64, "0")
    metadata: str = field(STRING, "0")
    commit_timestamp: int = field(INT64, "0")


class OffsetCommitKey(Record, key=1, versions="0"):
    group: str = field(STRING, "0")
    topic: str = field(STRING, "0")
    partition: int = field(INT32, "0")


class OffsetCommitValue(Record, key=1, versions="0-4", flexible="4+"):
    offset: int = field(INT64)
    leader_epoch: int = field(INT32, "3+", default=-1, ignorable=True)
    metadata: str = field(STRING)
    commit_timestamp: int = field(INT64)
    expire_timestamp: int = field(INT64, "1", default=-1, ignorable=True)
    topic_id: bytes = field(UUID, "4+", tag=0, ignorable=True)
