"""What becomes of a batch as a whole, before anyone looks at its records.

    discarded    records of an aborted transaction; a marker that is of no use any more and whose delete horizon has
                 passed
    kept empty   if no record stays, an empty batch does: the last of a producer that is still active, since it holds
                 the producer's last sequence, and the last before the first uncleanable offset, so that the offset up
                 to which the log was cleaned is not lost
    kept whole   a marker that is all that is left of a producer that is still active: it holds the epoch by which
                 older ones are fenced, and an empty marker says nothing
    stamped      a marker that is of no use any more gets a delete horizon, and stays until that has passed

Batches are shown in order, each once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from tailrace.env import Buffer
from tailrace.model.offsets import GREATEST_OFFSET
from tailrace.record.control import control_of
from tailrace.record.shallow import ShallowBatch
from tailrace.storage.compaction.transactions import SeenTransactions
from tailrace.storage.producer_entry import ProducerStateEntry
from tailrace.storage.transaction_index import AbortedTxn

_LATEST_HORIZON_MS: Final = 2**63 - 1


class LastBatch(NamedTuple):
    """How to know the last batch of a producer: by its last offset, or, where only a marker is left, by its epoch."""

    last_offset: int | None
    producer_epoch: int

    @classmethod
    def of(cls, entry: ProducerStateEntry) -> LastBatch:
        return cls(entry.last_data_offset if entry.batches else None, entry.producer_epoch)

    def is_in(self, batch: ShallowBatch) -> bool:
        if self.last_offset is not None:
            return batch.last_offset == self.last_offset
        return batch.is_control and batch.producer_epoch == self.producer_epoch


@dataclass(frozen=True)
class CleanRules:
    """What one clean of a log goes by; the same for all its groups."""

    now_ms: int
    delete_retention_ms: int
    first_uncleanable_offset: int
    legacy_horizon_ms: int
    """Segments modified at or before it lose their tombstones of format v0 and v1."""
    last_batches: Mapping[int, LastBatch]
    """Of each active producer, by its id."""

    @property
    def new_horizon_ms(self) -> int:
        """What a batch gets that has none and needs one."""
        return min(self.now_ms + self.delete_retention_ms, _LATEST_HORIZON_MS)

    def framed_from(self, offset: int) -> int:
        """The first offset from `offset` on at which a batch may end that stays even when it is empty."""
        place = bisect_left(self._framed, offset)
        return self._framed[place] if place < len(self._framed) else GREATEST_OFFSET

    @cached_property
    def _framed(self) -> list[int]:
        last_offsets = (each.last_offset for each in self.last_batches.values() if each.last_offset is not None)
        return sorted({*last_offsets, self.first_uncleanable_offset - 1})

    def keeps_tombstones(self, batch: ShallowBatch) -> bool:
        """Those of a batch of format v2 that has no delete horizon yet, or one that has not passed."""
        horizon_ms = batch.delete_horizon_ms
        return horizon_ms is None or self.now_ms < horizon_ms


class Verdict(NamedTuple):
    is_discarded: bool = False
    keeps_empty: bool = False
    is_stamped: bool = False
    aborted: AbortedTxn | None = None
    """To be entered in the new transaction index: the batch is its marker."""


def judge(data: Buffer, batch: ShallowBatch, transactions: SeenTransactions, rules: CleanRules) -> Verdict:
    """To be asked for every batch, in order."""
    last = rules.last_batches.get(batch.producer_id) if batch.has_producer_id else None
    is_last = last is not None and last.is_in(batch)
    keeps_empty = is_last or batch.next_offset == rules.first_uncleanable_offset
    if not batch.is_control:
        return Verdict(transactions.is_aborted(batch), keeps_empty)
    is_useless, aborted = transactions.ended_by(batch, control_of(data, batch))
    horizon_ms = batch.delete_horizon_ms
    has_passed = horizon_ms is not None and horizon_ms <= rules.now_ms
    is_discarded = is_useless and has_passed and not is_last
    return Verdict(is_discarded, keeps_empty, is_useless and horizon_ms is None, aborted)
