"""Positions of share groups, in the share coordinator's log."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Record, Struct
from tailrace.protocol.schema import INT8, INT16, INT32, INT64, STRING, UUID, array_of, field


class ShareSnapshotKey(Record, key=0, versions="0"):
    group_id: str = field(STRING, "0")
    topic_id: bytes = field(UUID, "0")
    partition: int = field(INT32, "0")


class ShareSnapshotValueStateBatch(Struct):
    first_offset: int = field(INT64)
    last_offset: int = field(INT64)
    delivery_state: int = field(INT8)
    delivery_count: int = field(INT16)


class ShareSnapshotValue(Record, key=0, versions="0", flexible="0+"):
    snapshot_epoch: int = field(INT32)
    state_epoch: int = field(INT32)
    leader_epoch: int = field(INT32)
    start_offset: int = field(INT64)
    delivery_complete_count: int = field(INT32, default=-1, tag=0)
    create_timestamp: int = field(INT64)
    write_timestamp: int = field(INT64)
    state_batches: list[ShareSnapshotValueStateBatch] = field(array_of(ShareSnapshotValueStateBatch))


class ShareUpdateKey(Record, key=1, versions="0"):
    group_id: str = field(STRING, "0")
    topic_id: bytes = field(UUID, "0")
    partition: int = field(INT32, "0")


class ShareUpdateValueStateBatch(Struct):
    first_offset: int = field(INT64)
    last_offset: int = field(INT64)
    delivery_state: int = field(INT8)
    delivery_count: int = field(INT16)


class ShareUpdateValue(Record, key=1, versions="0", flexible="0+"):
    snapshot_epoch: int = field(INT32)
    leader_epoch: int = field(INT32)
    start_offset: int = field(INT64)
    delivery_complete_count: int = field(INT32, default=-1, tag=0)
    state_batches: list[ShareUpdateValueStateBatch] = field(array_of(ShareUpdateValueStateBatch))
