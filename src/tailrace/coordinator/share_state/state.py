"""What is known of one share partition, and its records.

    ShareSnapshot   all of it; with no value: nothing is known any more
    ShareUpdate     what has changed since the snapshot of the same snapshot epoch, or the update before

Every `share.coordinator.snapshot.update.records.per.snapshot` updates there is a snapshot, which makes all records
before it redundant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from tailrace.coordinator.outcome import CoordinatorRecord
from tailrace.coordinator.share_state.batches import NO_OFFSET, StateBatch, combined
from tailrace.coordinator.share_state.key import SharePartitionKey
from tailrace.protocol.records.share_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareSnapshotValueStateBatch,
    ShareUpdateKey,
    ShareUpdateValue,
    ShareUpdateValueStateBatch,
)

NO_EPOCH: Final = -1
UNKNOWN_COUNT: Final = -1


class StateChange(NamedTuple):
    """What a leader of the partition tells. −1 in a number says that it stays."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


@dataclass(frozen=True, slots=True)
class ShareState:
    snapshot_epoch: int
    state_epoch: int
    """It grows when the group's offsets are set anew: who knows an older one may not write."""
    leader_epoch: int
    start_offset: int
    """−1 until the group has begun to read."""
    delivery_complete_count: int
    """Records from the start offset on that need no delivery any more."""
    created_ms: int
    written_ms: int
    """When the snapshot was written; later than `created_ms` where it was written again without news."""
    batches: tuple[StateBatch, ...] = ()
    updates: int = 0
    """Since the snapshot."""

    @property
    def was_repeated(self) -> bool:
        return self.created_ms != self.written_ms

    def changed(self, change: StateChange) -> ShareState:
        start = self.start_offset if change.start_offset == NO_OFFSET else change.start_offset
        return replace(
            self,
            leader_epoch=self.leader_epoch if change.leader_epoch == NO_EPOCH else change.leader_epoch,
            start_offset=start,
            delivery_complete_count=change.delivery_complete_count,
            batches=combined(self.batches, change.batches, start),
            updates=self.updates + 1,
        )

    # Records

    def snapshot_record(self, key: SharePartitionKey) -> CoordinatorRecord:
        value = ShareSnapshotValue(
            snapshot_epoch=self.snapshot_epoch,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            create_timestamp=self.created_ms,
            write_timestamp=self.written_ms,
            state_batches=[
                ShareSnapshotValueStateBatch(
                    first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
                )
                for first, last, state, count in self.batches
            ],
        )
        return CoordinatorRecord(ShareSnapshotKey(**key._asdict()), value)

    def update_record(self, key: SharePartitionKey, change: StateChange) -> CoordinatorRecord:
        value = ShareUpdateValue(
            snapshot_epoch=self.snapshot_epoch,
            leader_epoch=change.leader_epoch,
            start_offset=change.start_offset,
            delivery_complete_count=change.delivery_complete_count,
            state_batches=[
                ShareUpdateValueStateBatch(
                    first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
                )
                for first, last, state, count in combined((), change.batches, change.start_offset)
            ],
        )
        return CoordinatorRecord(ShareUpdateKey(**key._asdict()), value)

    @classmethod
    def of_snapshot(cls, value: ShareSnapshotValue) -> ShareState:
        return cls(
            value.snapshot_epoch,
            value.state_epoch,
            value.leader_epoch,
            value.start_offset,
            value.delivery_complete_count,
            value.create_timestamp,
            value.write_timestamp,
            combined((), map(_batch, value.state_batches), value.start_offset),
        )


def tombstone(key: SharePartitionKey) -> CoordinatorRecord:
    return CoordinatorRecord(ShareSnapshotKey(**key._asdict()), None)


def change_of(value: ShareUpdateValue) -> StateChange:
    return StateChange(
        NO_EPOCH,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        tuple(map(_batch, value.state_batches)),
    )


def _batch(batch: ShareSnapshotValueStateBatch | ShareUpdateValueStateBatch) -> StateBatch:
    return StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
