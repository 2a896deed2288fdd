"""Plain batches that stand one behind the other, to be walked by one call of a kernel.

A log of small batches would otherwise cost a few calls for each, all of them holding the GIL.
"""

from __future__ import annotations

from tailrace.record.batch import CODEC_MASK, CONTROL_BIT
from tailrace.record.shallow import ShallowBatch
from tailrace.storage.compaction.rows import ROWS


class Run:
    """Batches of format v2 without compression and control records, with no more than ROWS records together."""

    __slots__ = ("batches", "records")

    def __init__(self) -> None:
        self.batches: list[ShallowBatch] = []
        self.records = 0

    @staticmethod
    def can_hold(batch: ShallowBatch) -> bool:
        is_plain = batch.magic == 2 and not batch.attributes & (CODEC_MASK | CONTROL_BIT)
        return is_plain and 0 <= batch.record_count <= ROWS

    def has_room_for(self, batch: ShallowBatch) -> bool:
        return self.records + batch.record_count <= ROWS

    def add(self, batch: ShallowBatch) -> None:
        self.batches.append(batch)
        self.records += batch.record_count

    @property
    def start(self) -> int:
        return self.batches[0].position

    @property
    def end(self) -> int:
        return self.batches[-1].end
