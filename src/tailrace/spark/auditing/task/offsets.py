"""Rule: batches go on where the one before ends, within the offsets of their segment.

Where they do not, the batches around it tell what happened, so that one fault is one finding:

    a batch that its neighbours would fit around if it began where it should  →  its base offset is wrong
    a batch that begins below what the log has come to                        →  doubled, or at the wrong place
    a batch that begins above it, and nothing later fills what is missing     →  a gap
    one at or above the high watermark, before batches that lie below it      →  its base offset is wrong

Compaction takes records and whole batches: below `cleaned_to` gaps are no fault, nor anywhere while it is at work. In a
topic that is compacted they are none above it either: a replica that copied a log from another one got it without what
compaction had taken there. How many there are is worth a note.
The first piece of a segment holds its first batch against the segment's base offset. What lies between two pieces, or
between the last batch of a segment and the next segment, is for `job.stitching`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tailrace.model.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from tailrace.model.offsets import MAX_RELATIVE_OFFSET
from tailrace.record.batch import MAGIC_V2
from tailrace.spark.auditing.pieces import AuditPiece
from tailrace.spark.auditing.rules import BAD_HEADER, COMPACTED_GAP, OFFSET_GAP, OFFSET_ORDER, OFFSET_RANGE
from tailrace.spark.auditing.task.block import Block, Numbers

ALWAYS_COMPACTED: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})
EVERYWHERE: Final = 2**63 - 1

Say = Callable[[str, int, int, str], None]
"""Rule, position, offset, words."""
Neighbour = Callable[[int], int | None]
"""The base offset of the batch at a position of the file; None without one."""
LastJudged = Callable[[int, int], int]
"""The position of the last intact batch at or behind a position that lies below the high watermark, and not below an
offset; −1 without one."""


class Break(NamedTuple):
    """Before or at a batch of the block offsets do not go on."""

    row: int
    is_dropped: bool
    """The batch itself is at a wrong place and cannot be used."""
    next_offset: int
    """Where offsets go on."""


def stretches(breaks: Iterable[Break]) -> Iterator[tuple[range, int]]:
    """Rows that are dropped one behind the other, and where offsets go on behind them; an empty range before a row at
    which offsets are missing."""
    first = behind = next_offset = 0
    for found in breaks:
        if first < behind and (found.row != behind or not found.is_dropped):
            yield range(first, behind), next_offset
            first = behind
        if not found.is_dropped:
            yield range(found.row, found.row), found.next_offset
        elif first < behind:
            behind, next_offset = found.row + 1, found.next_offset
        else:
            first, behind, next_offset = found.row, found.row + 1, found.next_offset
    if first < behind:
        yield range(first, behind), next_offset


class _Gap(NamedTuple):
    start: int
    behind: int
    position: int


class Offsets:
    """The chain of offsets of one piece, from one block to the next."""

    def __init__(self, piece: AuditPiece, say: Say, neighbour: Neighbour, last_judged: LastJudged) -> None:
        self._say = say
        self._neighbour = neighbour
        self._last_judged = last_judged
        self._judged_at: int | None = None
        """What `last_judged` said: it reads the rest of the file, and so is asked once."""
        self._low = piece.base_offset
        self._behind = piece.base_offset + MAX_RELATIVE_OFFSET + 1
        if piece.next_base is not None:
            self._behind = min(self._behind, piece.next_base)
        is_compacted = piece.is_compacted or piece.partition.topic in ALWAYS_COMPACTED
        may_lack_any = is_compacted or (piece.is_being_cleaned and piece.next_base is not None)
        self._lacks_to = EVERYWHERE if may_lack_any else piece.cleaned_to
        self._noted_from = piece.cleaned_to if is_compacted and not piece.is_being_cleaned else EVERYWHERE
        self._taken_from: _Gap | None = None
        self._taken_offsets = 0
        self._judged_to = EVERYWHERE if piece.judged_to is None else piece.judged_to
        self._gaps: list[_Gap] = []
        self._floor = piece.base_offset
        self._disordered_to: int | None = None
        self.next: int | None = piece.base_offset if piece.is_first else None
        """Where the log has come to; None behind damage, and where a piece begins."""

    @property
    def come_to(self) -> int:
        """At least here the log has come to."""
        return self._floor if self.next is None else self.next

    def damaged(self, next_offset: int | None) -> None:
        """A batch cannot be read. Offsets go on at `next_offset`, or nobody knows where."""
        self._floor = max(self._floor, self.come_to)
        self.next = next_offset
        self._disordered_to = None

    def judged(self, block: Block) -> int:
        """How many batches of the block, from the first on, lie below the high watermark."""
        expected, came_to, before = self.next, self.come_to, -1
        for row in np.flatnonzero(block.base_offset >= self._judged_to).tolist():
            if row - 1 > before:  # the batch before it lies below
                expected = int(block.last_offset[row - 1]) + 1
                came_to = max(came_to, expected)
            before = row
            if came_to >= self._judged_to:
                return int(row)
            position, base = int(block.position[row]), int(block.base_offset[row])
            if self._judged_at is None:
                self._judged_at = self._last_judged(position + int(block.size[row]), came_to)
            if position < self._judged_at:
                expected = None
                continue
            if expected is None:
                return int(row)
            if self._after(block, row) != expected + int(block.last_offset[row]) - base + 1:
                if base > max(expected, self._lacks_to):
                    self._gaps.append(_Gap(expected, self._judged_to, position))
                return int(row)
        return len(block)

    def check(self, block: Block) -> list[Break]:
        """Where in the block offsets do not go on, in its order."""
        base, last = block.base_offset, block.last_offset
        came_to = np.empty_like(base)
        came_to[1:] = last[:-1] + 1
        came_to[0] = base[0] if self.next is None else self.next
        is_odd = (base != came_to) & ((base < came_to) | (base > self._lacks_to))
        is_odd |= (base < max(self._low, self._floor)) | (last >= self._behind)
        is_odd |= self._lacks_records(block)
        if self._judged_at is not None:
            is_odd |= self._is_ahead(block, self._judged_at)
        if self._noted_from < int(last[-1]):
            self._note_taken(block, came_to)
        if is_odd[0] or self._disordered_to is not None or is_odd.any():
            first = 0 if self._disordered_to is not None else int(np.argmax(is_odd))
            if first:
                self.next = int(last[first - 1]) + 1
            return [found for row in range(first, len(block)) if (found := self._look(block, row)) is not None]
        self.next = int(last[-1]) + 1
        return []

    def end(self) -> None:
        """The piece is over: what is missing still is missing."""
        for gap in self._gaps:
            words = f"offsets {gap.start} to {gap.behind - 1} are missing before this batch"
            self._say(OFFSET_GAP, gap.position, gap.start, words)
        if self._taken_from is not None:
            words = f"{self._taken_offsets} offsets are missing from here on, which compaction may have taken elsewhere"
            self._say(COMPACTED_GAP, self._taken_from.position, self._taken_from.start, words)

    def _note_taken(self, block: Block, came_to: Numbers) -> None:
        """What compaction took before it was copied: whole batches, and records within others."""
        whole = np.maximum(block.base_offset - came_to, 0)
        within = np.where(block.magic == MAGIC_V2, block.last_offset - block.base_offset + 1 - block.record_count, 0)
        taken = np.where(block.base_offset > self._noted_from, whole + np.maximum(within, 0), 0)
        if self._judged_at is not None:
            taken[self._is_ahead(block, self._judged_at)] = 0
        if not taken.any():
            return
        self._taken_offsets += int(taken.sum())
        if self._taken_from is None:
            row = int(np.argmax(taken > 0))
            self._taken_from = _Gap(int(came_to[row]), int(block.base_offset[row]), int(block.position[row]))

    def _lacks_records(self, block: Block) -> npt.NDArray[np.bool_]:
        """Batches that should have a record for each of their offsets and state another number of them."""
        full = block.last_offset - block.base_offset + 1
        is_lacking: npt.NDArray[np.bool_] = (
            (block.record_count != full) & (block.base_offset >= self._lacks_to) & (block.magic == MAGIC_V2)
        )
        return is_lacking

    def _is_ahead(self, block: Block, judged_at: int) -> npt.NDArray[np.bool_]:
        """Batches that claim to be above the high watermark, and stand before one that is below."""
        is_ahead: npt.NDArray[np.bool_] = (block.position < judged_at) & (block.base_offset >= self._judged_to)
        return is_ahead

    def _look(self, block: Block, row: int) -> Break | None:
        base, last = int(block.base_offset[row]), int(block.last_offset[row])
        came_to = self.next
        is_inside = self._low <= base and last < self._behind
        if self._judged_at is not None and int(block.position[row]) < self._judged_at and base >= self._judged_to:
            return self._misfit(block, row, base, last, is_inside, is_ahead=True)
        if is_inside and came_to is None and base >= self._floor:
            after = self._after(block, row)
            if after is None or after >= base:
                return self._goes_on(block, row)
            came_to = None
        if is_inside and came_to is not None and (base == came_to or came_to < base <= self._lacks_to):
            return self._goes_on(block, row)
        return self._misfit(block, row, base, last, is_inside)

    def _goes_on(self, block: Block, row: int) -> Break | None:
        base, last, count = int(block.base_offset[row]), int(block.last_offset[row]), int(block.record_count[row])
        self.next = last + 1
        self._disordered_to = None
        if int(block.magic[row]) != MAGIC_V2 or count == last - base + 1 or base < self._lacks_to:
            return None
        position = int(block.position[row])
        if count > 0 and self._after(block, row) == base + count:
            words = f"states the last offset {last}, but has {count} records, and the next batch goes on behind them"
            self._say(BAD_HEADER, position, base, words)
            self.next = base + count
            return Break(row, True, self.next)
        self._say(OFFSET_GAP, position, base, f"of offsets {base} to {last} only {count} records are there")
        return None

    def _misfit(
        self, block: Block, row: int, base: int, last: int, is_inside: bool, *, is_ahead: bool = False
    ) -> Break:
        position, came_to = int(block.position[row]), self.come_to
        after = self._after(block, row)
        belongs_to = came_to + last - base
        is_misplaced = self.next is not None and base != came_to and after == belongs_to + 1
        if is_ahead and not is_misplaced:
            words = f"batch of offsets {base} to {last}, but batches behind it lie below the high watermark"
            self._say(OFFSET_ORDER if is_inside else OFFSET_RANGE, position, came_to, words)
            self.damaged(None)
            self._floor = belongs_to + 1  # at least so many offsets are its own, wherever they begin
            return Break(row, True, came_to)
        if is_misplaced or (is_inside and self.next is None and base >= self._floor):
            should = f"where {came_to} to {belongs_to} belong" if is_misplaced else f"before a batch of offset {after}"
            rule = OFFSET_ORDER if is_inside else OFFSET_RANGE
            self._say(rule, position, came_to if is_misplaced else base, f"batch of offsets {base} to {last} {should}")
            self.next = belongs_to + 1 if is_misplaced else None
            return Break(row, True, belongs_to + 1 if is_misplaced else came_to)
        if is_inside and base > came_to:
            self.next = last + 1
            if after is not None and came_to <= after < base:
                return Break(row, True, last + 1)  # the batch that should stand before it follows, and will be told
            self._gaps.append(_Gap(came_to, base, position))
            return Break(row, False, base)
        if base != self._disordered_to:
            self._tell(base, last, position, came_to, is_inside)
        self._disordered_to = last + 1
        if base <= came_to <= last and self.next is not None:
            self.next = last + 1
        self._gaps = [gap for gap in self._gaps if not gap.start <= base <= last < gap.behind]
        return Break(row, True, self.come_to)

    def _tell(self, base: int, last: int, position: int, came_to: int, is_inside: bool) -> None:
        words = f"batch of offsets {base} to {last}"
        if is_inside:
            self._say(OFFSET_ORDER, position, base, f"{words}, but the log has come to {came_to}")
        elif base < self._low:
            self._say(OFFSET_RANGE, position, came_to, f"{words}, but the segment begins with {self._low}")
        else:
            offset = min(base, came_to) if base >= self._behind else base
            self._say(OFFSET_RANGE, position, offset, f"{words}, but the segment ends before {self._behind}")

    def _after(self, block: Block, row: int) -> int | None:
        """The base offset of the batch behind."""
        if row + 1 < len(block):
            return int(block.base_offset[row + 1])
        return self._neighbour(int(block.position[row] + block.size[row]))
