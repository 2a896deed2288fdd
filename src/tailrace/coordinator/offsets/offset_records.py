"""Records of committed offsets, in the versions that Kafka 4.3.1 writes.

key      OffsetCommitKey: group, topic, partition
value    OffsetCommitValue version 4, with the topic's id where it is known
         version 1 when the commit has set when it expires, which no other version can say
"""

from __future__ import annotations

from typing import Final

from tailrace.coordinator.offsets.entry import UNKNOWN_TOPIC_ID, CommittedOffset
from tailrace.coordinator.outcome import CoordinatorRecord
from tailrace.model.ids import NO_LEADER_EPOCH, NO_TIMESTAMP
from tailrace.protocol.message import Record
from tailrace.protocol.records.group_offsets import LegacyOffsetCommitValue, OffsetCommitKey, OffsetCommitValue

_VERSION: Final = 4
_EXPIRING_VERSION: Final = 1


def commit_record(
    group_id: str,
    topic: str,
    partition: int,
    offset: int,
    leader_epoch: int,
    metadata: str | None,
    committed_ms: int,
    expires_ms: int,
    topic_id: bytes,
) -> CoordinatorRecord:
    value = OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata or "",
        commit_timestamp=committed_ms,
        expire_timestamp=expires_ms,
        topic_id=topic_id,
    )
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return CoordinatorRecord(key, value, _VERSION if expires_ms == NO_TIMESTAMP else _EXPIRING_VERSION)


def tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def entry_of(value: Record, record_offset: int) -> CommittedOffset:
    """What a commit's value says."""
    if isinstance(value, OffsetCommitValue):
        return CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            record_offset,
        )
    assert isinstance(value, LegacyOffsetCommitValue)
    return CommittedOffset(
        value.offset,
        NO_LEADER_EPOCH,
        value.metadata,
        value.commit_timestamp,
        NO_TIMESTAMP,
        UNKNOWN_TOPIC_ID,
        record_offset,
    )
