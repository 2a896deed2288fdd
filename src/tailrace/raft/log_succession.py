"""Finds offsets and epochs of batches that were changed on the disk: the CRC of a batch does not cover them.

A batch with a later epoch than it was written in makes its log look more up to date than those of other voters: they
would elect a leader that lacks what they have committed. In a log that is whole,

- a batch begins at the offset where the preceding one ends,
- epochs do not go back, and an epoch begins with a control batch, which has the LeaderChange record,
- the last epoch is not above that of `quorum-state`, which is durable before a node appends in an epoch.

A log that breaks a rule is cut there, as one with a wrong CRC is, and fetched again from the leader. The files
`leader-epoch-checkpoint` and `quorum-state` have no checksums either. The first is not believed where batches say which
epochs they are of, the second not where several batches have the last epoch: those were not all changed alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from tailrace.model.errors import CorruptMetadataError, InvalidDataError, TailraceError
from tailrace.record.shallow import ShallowBatch, batches
from tailrace.storage.epoch_cache import EpochEntry
from tailrace.storage.fetch import Isolation
from tailrace.storage.unified_log import UnifiedLog

READ_BYTES: Final = 1 << 20


class Contradiction(NamedTuple):
    """The log may be believed below the offset."""

    offset: int
    reason: str


class Succession(NamedTuple):
    """What the batches of a log say of its epochs."""

    epochs: tuple[EpochEntry, ...]
    """The first is that of the first batch."""
    contradiction: Contradiction | None


def read_succession(log: UnifiedLog, start: int, epoch: int, last_epoch: int | None) -> Succession:
    """From offset `start` on, which follows a batch of `epoch`. `last_epoch` is that of `quorum-state`, if known.

    CorruptMetadataError if the log cannot be read as batches.
    """
    walk = _Walk(start, epoch)
    contradiction = _first_contradiction(log, walk, last_epoch)
    return Succession(tuple(walk.epochs), contradiction)


def has_epochs(log: UnifiedLog, entries: Sequence[EpochEntry], end: int) -> bool:
    """Whether the batches below `end` have the epochs of `entries`, the first of which begins where the log does.

    Only the batches on both sides of each offset at which an epoch begins or ends are read: epochs do not go back.
    """
    if not entries or entries[0].start_offset != log.log_start_offset:
        return False
    for entry, following in pairwise((*entries, None)):
        assert entry is not None
        last = following.start_offset if following is not None else end
        if _epoch_at(log, entry.start_offset) != entry.epoch or _epoch_at(log, last - 1) != entry.epoch:
            return False
    return True


def _epoch_at(log: UnifiedLog, offset: int) -> int | None:
    """Of the batch with the record at `offset`; None if no batch with it can be read."""
    try:
        data = log.read(offset, 1, Isolation.LOG_END).read()
        batch = next(iter(batches(data)), None)
    except TailraceError:
        return None
    has_offset = batch is not None and batch.base_offset <= offset < batch.next_offset
    return batch.leader_epoch if batch is not None and has_offset else None


def _first_contradiction(log: UnifiedLog, walk: _Walk, last_epoch: int | None) -> Contradiction | None:
    start = walk.next_offset
    while walk.next_offset < log.log_end_offset:
        before = walk.next_offset
        data = log.read(before, READ_BYTES, Isolation.LOG_END).read()
        try:
            for batch in batches(data):
                if batch.next_offset > start:
                    found = walk.take(batch)
                    if found is not None:
                        return found
        except InvalidDataError as error:
            raise CorruptMetadataError(f"{log.dir} near offset {walk.next_offset}: {error}") from error
        if walk.next_offset <= before:
            raise CorruptMetadataError(f"{log.dir} has no whole batch at offset {before}")
    if last_epoch is not None and walk.epoch > last_epoch and walk.is_single_batch and walk.epoch_start >= start:
        return Contradiction(walk.epoch_start, f"epoch {walk.epoch} is above epoch {last_epoch} of quorum-state")
    return None


class _Walk:
    def __init__(self, next_offset: int, epoch: int) -> None:
        self.next_offset = next_offset
        self.epoch = epoch
        self.epoch_start = -1
        """Where the first batch of the epoch is, if it was seen."""
        self.epochs: list[EpochEntry] = []
        self._batches = 0
        """Of this epoch."""

    @property
    def is_single_batch(self) -> bool:
        """Whether only one batch of the epoch was seen so far."""
        return self._batches == 1

    def take(self, batch: ShallowBatch) -> Contradiction | None:
        if batch.base_offset > self.next_offset:
            reason = f"a batch begins at offset {batch.base_offset} instead of {self.next_offset}"
            return Contradiction(self.next_offset, reason)
        if batch.leader_epoch < self.epoch:
            # Of two neighbors that contradict each other, a single batch of an epoch is less likely than several.
            at = self.epoch_start if self.is_single_batch and self.epoch_start >= 0 else self.next_offset
            return Contradiction(at, f"epoch {batch.leader_epoch} follows epoch {self.epoch}")
        if batch.leader_epoch > self.epoch:
            if not batch.is_control:
                return Contradiction(self.next_offset, f"epoch {batch.leader_epoch} begins without a leader")
            self.epoch, self.epoch_start, self._batches = batch.leader_epoch, self.next_offset, 0
        if not self.epochs or self.epochs[-1].epoch != batch.leader_epoch:
            self.epochs.append(EpochEntry(batch.leader_epoch, self.next_offset))
        self._batches += 1
        self.next_offset = batch.next_offset
        return None
