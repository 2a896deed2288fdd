"""What a compaction must know of transactions while it goes through a log from its beginning to its end.

Every transaction it meets is decided: nothing beyond the last stable offset is read. The aborted ones are known before,
from the transaction indexes; the others were committed.

A marker is of use as long as a batch of its transaction stands before it, be it an empty one. The marker after which
none was met has lost its purpose, and an aborted transaction then needs no entry in an index either.
"""

from __future__ import annotations

from collections.abc import Iterable

from tailrace.model.offsets import GREATEST_OFFSET
from tailrace.record.control import ABORT, COMMIT, ControlRecord
from tailrace.record.shallow import ShallowBatch
from tailrace.storage.transaction_index import AbortedTxn


class SeenTransactions:
    """Show it every batch, in order, with `is_aborted`, `ended_by` or `saw`; those that are neither of a transaction
    nor control batches may be left out."""

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._to_come = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTxn] = {}
        self._with_batches: set[int] = set()  # producers with an open transaction of which a batch was seen

    @property
    def aborted_from(self) -> int:
        """Batches that end below it belong to no aborted transaction."""
        if self._aborted:
            return 0
        return self._to_come[-1].first_offset if self._to_come else GREATEST_OFFSET

    def saw(self, producer_ids: Iterable[int]) -> None:
        """Transactional batches of these producers were met, all of them below `aborted_from`."""
        self._with_batches.update(producer_ids)

    def is_aborted(self, batch: ShallowBatch) -> bool:
        """Whether a batch that is no control batch belongs to an aborted transaction."""
        self._begin_up_to(batch.last_offset)
        if not batch.is_transactional:
            return False
        self._with_batches.add(batch.producer_id)
        aborted = self._aborted.get(batch.producer_id)
        # Were its marker missing, all that the producer wrote later would seem aborted.
        return aborted is not None and batch.base_offset < aborted.last_offset

    def ended_by(self, batch: ShallowBatch, control: ControlRecord | None) -> tuple[bool, AbortedTxn | None]:
        """Whether the control batch is of no use any more; and the aborted transaction that it ends and that must
        stay in the index, since batches of it were seen. `control` is None for a batch that was emptied before."""
        self._begin_up_to(batch.last_offset)
        if control is None:
            return True, None
        if control.type not in (ABORT, COMMIT):
            return False, None
        has_batches = batch.producer_id in self._with_batches
        self._with_batches.discard(batch.producer_id)
        aborted = self._aborted.pop(batch.producer_id, None) if control.type == ABORT else None
        return not has_batches, aborted if has_batches else None

    def _begin_up_to(self, offset: int) -> None:
        while self._to_come and self._to_come[-1].first_offset <= offset:
            begun = self._to_come.pop()
            self._aborted[begun.producer_id] = begun
