"""What the core knows of the log: offsets, epochs and snapshots, but no records.

Who may call. `RaftCore` and its parts. A `LogView` follows the effects that the core emits: an append is in it when the
effect is emitted, not when the file has it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple

from tailrace.model.invariant import invariant
from tailrace.raft.consensus.messages import EndOffset
from tailrace.raft.snapshot import SnapshotId

_by_epoch = itemgetter(0)


class Valid(NamedTuple):
    """The log has this position: a follower that ends there has a prefix of it."""


class Diverging(NamedTuple):
    end: EndOffset


class NeedsSnapshot(NamedTuple):
    """The log begins above the position: the follower needs a snapshot."""

    snapshot_id: SnapshotId


class LogView:
    """`epochs` has the epochs and their start offsets, both ascending; `snapshots` ascend too.

    Invariants: start_offset <= flushed_offset <= end_offset; a start offset above 0 is that of a snapshot.
    """

    def __init__(
        self,
        start_offset: int = 0,
        end_offset: int = 0,
        epochs: Iterable[tuple[int, int]] = (),
        snapshots: Iterable[SnapshotId] = (),
    ) -> None:
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.flushed_offset = end_offset
        self.epochs = list(epochs)
        self.snapshots = sorted(snapshots)
        invariant(start_offset <= end_offset, f"the log starts at {start_offset} and ends at {end_offset}")

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return self.snapshots[-1] if self.snapshots else None

    @property
    def last_epoch(self) -> int:
        """Of the last record; of the newest snapshot if the log has no record; else 0."""
        if self.epochs:
            return self.epochs[-1][0]
        return self.snapshots[-1].epoch if self.snapshots else 0

    @property
    def is_flushed(self) -> bool:
        return self.flushed_offset == self.end_offset

    def append(self, end_offset: int, epoch: int) -> None:
        invariant(end_offset > self.end_offset, f"an append at {self.end_offset} ends at {end_offset}")
        invariant(epoch >= self.last_epoch, f"epoch {epoch} follows epoch {self.last_epoch} in the log")
        if not self.epochs or self.epochs[-1][0] < epoch:
            self.epochs.append((epoch, self.end_offset))
        self.end_offset = end_offset

    def truncate(self, end_offset: int) -> None:
        invariant(
            self.start_offset <= end_offset <= self.end_offset,
            f"a log from {self.start_offset} to {self.end_offset} is cut at {end_offset}",
        )
        while self.epochs and self.epochs[-1][1] >= end_offset:
            self.epochs.pop()
        self.end_offset = end_offset
        self.flushed_offset = min(self.flushed_offset, end_offset)

    def replace_by_snapshot(self, snapshot_id: SnapshotId) -> None:
        self.start_offset = self.end_offset = self.flushed_offset = snapshot_id.offset
        self.epochs = []
        self.snapshots = [snapshot_id]

    def add_snapshot(self, snapshot_id: SnapshotId) -> None:
        if snapshot_id not in self.snapshots:
            self.snapshots = sorted([*self.snapshots, snapshot_id])

    def trim(self, start_offset: int, snapshots: Iterable[SnapshotId]) -> None:
        """Records below `start_offset`, and all snapshots but these, were deleted."""
        invariant(
            self.start_offset <= start_offset <= self.end_offset, f"the log start moves forward to {start_offset}"
        )
        self.snapshots = sorted(snapshots)
        self.start_offset = start_offset
        keep = max(bisect_right([start for _, start in self.epochs], start_offset) - 1, 0)
        self.epochs = [(epoch, max(start, start_offset)) for epoch, start in self.epochs[keep:]]
        if self.epochs and start_offset == self.end_offset:
            self.epochs = []

    def end_of_epoch(self, epoch: int) -> EndOffset:
        """The greatest epoch at or below `epoch` that the log has, and where it ends."""
        if epoch >= self.last_epoch:
            return EndOffset(self.last_epoch, self.end_offset)
        following = bisect_right(self.epochs, epoch, key=_by_epoch)
        if following == 0:
            base = self.snapshots[0] if self.snapshots else None
            if base is not None and base.offset == self.start_offset:
                return EndOffset(base.epoch, base.offset)
            return EndOffset(epoch, self.start_offset)
        return EndOffset(self.epochs[following - 1][0], self.epochs[following][1])

    def epoch_at(self, offset: int) -> int:
        """Of the record at `offset`, which the log has."""
        found = bisect_right([start for _, start in self.epochs], offset) - 1
        invariant(found >= 0 and offset < self.end_offset, f"the log has offset {offset}")
        return self.epochs[found][0]

    def position(self, offset: int, epoch: int) -> Valid | Diverging | NeedsSnapshot:
        """What the log says to a follower whose log ends at `offset` with a record of `epoch`."""
        latest = self.latest_snapshot
        if offset == 0 and latest is not None and latest.offset > 0:
            return NeedsSnapshot(latest)
        if offset == 0 and self.start_offset == 0:
            return Valid()
        if latest is not None and latest.offset > 0:
            earliest = self.snapshots[0]
            is_other_start = offset == self.start_offset and epoch != earliest.epoch
            if self.start_offset > 0 and (offset < self.start_offset or is_other_start or epoch < earliest.epoch):
                return NeedsSnapshot(latest)
        end = self.end_of_epoch(epoch)
        if end.epoch != epoch or end.offset < offset:
            return Diverging(end)
        return Valid()

    def truncation_offset(self, diverging: EndOffset) -> int:
        """Where this log, of a follower, must be cut when the leader names a diverging epoch."""
        end = self.end_of_epoch(diverging.epoch)
        if end.epoch == diverging.epoch:
            return min(end.offset, diverging.offset)
        return min(end.offset, self.end_offset)
