"""Answers to OffsetFetch, for one group at a time."""

from __future__ import annotations

from tailrace.coordinator.offsets.entry import CommittedOffset
from tailrace.model.errors import UnstableOffsetCommitError
from tailrace.model.ids import NO_LEADER_EPOCH
from tailrace.protocol.messages.offset_fetch import OffsetFetchResponsePartitions

NO_OFFSET = -1


def shown(partition: int, entry: CommittedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=entry.offset,
        committed_leader_epoch=entry.leader_epoch,
        metadata=entry.metadata,
    )


def nothing(partition: int, error_code: int = 0) -> OffsetFetchResponsePartitions:
    """No offset, which is no error, or one that cannot be told."""
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=NO_OFFSET,
        committed_leader_epoch=NO_LEADER_EPOCH,
        metadata="",
        error_code=error_code,
    )


def unstable(partition: int) -> OffsetFetchResponsePartitions:
    """A transaction that may end at any time has an offset for it."""
    return nothing(partition, UnstableOffsetCommitError.code)
