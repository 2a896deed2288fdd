"""Rule: (O, P) of an offset index means that a batch begins at P and ends with offset O.

Kafka used to make one entry for several batches appended together: P where the first begins, O the last's last.

Bytes that were taken from the log or put into it move all that lies behind them, and every later entry with them. The
log's offsets break at that place, which another rule tells; from there on positions are held to that one shift. Where
offsets do not break nothing was moved, and the entry is wrong.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tailrace.spark.auditing.rules import OFFSET_INDEX
from tailrace.spark.auditing.task.block import Block
from tailrace.spark.auditing.task.index_entries import Entries, Flags, OffsetLayout
from tailrace.spark.auditing.task.index_rule import ANY_KEY, IndexRule
from tailrace.storage import names


class _Pending(NamedTuple):
    """An entry whose O comes in a later block than its P."""

    number: int
    offset: int
    position: int


class OffsetIndexRule(IndexRule):
    SUFFIX = names.INDEX_SUFFIX
    RULE = OFFSET_INDEX
    LAYOUT = OffsetLayout()

    _shift = 0
    _is_unsettled = False  # offsets broke since the last entry that was right
    _pending: _Pending | None = None
    _before: tuple[int, int] | None = None  # the last entry that was right

    def _judge(self, block: Block) -> None:
        cursor = self._cursor
        assert cursor is not None
        self._seek(self._piece.start)
        breaks = self._breaks(block)
        behind = int(block.position[-1] + block.size[-1])
        while self._is_at_work:
            entries = cursor.below(behind - self._shift)
            if self._pending is not None:
                self._settle_pending(block, entries)
            if not len(entries):
                break
            right = self._right(block, entries, may_be_moved=self._is_unsettled or bool(breaks.any()))
            count = len(entries) if right.all() else int(np.argmin(right))
            if count:
                self._accept(entries.where(slice(0, count)))
            if count < len(entries):
                self._look_at(block, entries, count, breaks)
                count += 1
            cursor.take(count)
        self._is_unsettled = self._is_unsettled or self._breaks_behind(block, breaks, int(block.position[-1]))

    def _right(self, block: Block, entries: Entries, *, may_be_moved: bool) -> Flags:
        offset, position = entries.columns[0], entries.columns[1] + self._shift
        row = np.searchsorted(block.position, position, "right") - 1
        begins = (block.position[row] == position) & (row >= 0)
        exact: Flags = (block.last_offset[row] == offset) & begins
        if may_be_moved or exact.all():
            return exact
        last_row = np.searchsorted(block.last_offset, offset)
        is_there = last_row < len(block)
        last_row = np.minimum(last_row, len(block) - 1)
        following = np.append(position[1:], self._following(len(entries)))
        together = (last_row > row) & (block.last_offset[last_row] == offset) & (block.position[last_row] < following)
        exact |= begins & is_there & together
        return exact

    def _following(self, count: int) -> int:
        assert self._cursor is not None
        following = self._cursor.following_key(count)
        return ANY_KEY if following is None else following + self._shift

    def _accept(self, entries: Entries) -> None:
        """They are right; that they ascend, too, is seen here."""
        offsets, positions = entries.columns
        if self._before is not None:
            offsets = np.concatenate(([self._before[0]], offsets))
            positions = np.concatenate(([self._before[1]], positions))
        falls = np.flatnonzero((offsets[1:] <= offsets[:-1]) | (positions[1:] <= positions[:-1]))
        skipped = 0 if self._before is not None else 1
        for place in falls[offsets[falls + 1] < self._judged_to].tolist():
            self._wrong(entries, place + skipped, "which does not ascend from the one before it")
        self._before = int(offsets[-1]), int(positions[-1])
        self._is_unsettled = False

    def _look_at(self, block: Block, entries: Entries, place: int, breaks: Flags) -> None:
        """An entry that seems wrong."""
        offset, position = entries.at(place)
        row = int(np.searchsorted(block.position, position + self._shift, "right")) - 1
        last = int(block.last_offset[row]) if row >= 0 else -1
        if offset >= self._judged_to and (row < 0 or last >= self._judged_to):
            return
        begins = row >= 0 and int(block.position[row]) == position + self._shift
        if self._is_unsettled or self._breaks_behind(block, breaks, position + self._shift):
            self._is_unsettled = True
            if not begins or offset < last:  # else it may be one for batches appended together
                self._move_to(block, offset, position)
        elif begins and offset > last and self._are_together(block, entries, place):
            self._accept(entries.where(slice(place, place + 1)))
        elif not begins:
            self._wrong(entries, place, "but no batch begins there")
        elif offset < last:
            self._wrong(entries, place, f"but the batch there ends with {last}")
        elif offset > int(block.last_offset[-1]) and place + 1 == len(entries):
            self._pending = _Pending(int(entries.number[place]), offset, position)
        else:
            self._wrong(entries, place, "but no batch ends with that offset before the next entry")

    def _breaks_behind(self, block: Block, breaks: Flags, position: int) -> bool:
        """Whether offsets break between the last entry that was right and this position."""
        if not breaks.any():
            return False
        settled = -1 if self._before is None else self._before[1] + self._shift
        where = block.position[breaks]
        return bool(((where > settled) & (where <= position)).any())

    def _move_to(self, block: Block, offset: int, position: int) -> None:
        """Behind a break: where the offset stands now says by how much all was moved; lost ones say nothing."""
        rows = np.flatnonzero(block.last_offset == offset)
        if len(rows) == 1:
            self._shift = int(block.position[rows[0]]) - position
            self._before = offset, position
            self._is_unsettled = False

    def _are_together(self, block: Block, entries: Entries, place: int) -> bool:
        """Whether an entry stands for several batches, all of the block and before the next entry."""
        row = int(np.searchsorted(block.last_offset, entries.columns[0][place]))
        if row == len(block) or int(block.last_offset[row]) != int(entries.columns[0][place]):
            return False
        is_last = place + 1 == len(entries)
        following = self._following(len(entries)) if is_last else int(entries.columns[1][place + 1]) + self._shift
        return int(block.position[row]) < following

    def _settle_pending(self, block: Block, entries: Entries) -> None:
        found = self._pending
        assert found is not None
        row = int(np.searchsorted(block.last_offset, found.offset))
        if row == len(block):
            if len(entries):
                self._wrong_pending(found, "but no batch ends with that offset before the next entry")
            return
        following = int(entries.columns[1][0]) + self._shift if len(entries) else None
        is_before = following is None or int(block.position[row]) < following
        if int(block.last_offset[row]) != found.offset or not is_before:
            self._wrong_pending(found, "but no batch ends with that offset before the next entry")
        self._pending = None

    def _pass(self, behind: int, next_offset: int | None) -> None:
        assert self._cursor is not None
        self._pending = None
        self._is_unsettled = True
        self._seek(self._piece.start)
        while len(entries := self._cursor.below(behind - self._shift)):
            self._cursor.take(len(entries))

    def _judge_edge(self) -> None:
        """The next piece begins at the next entry, or before it."""
        found = self._pending
        if found is not None and found.offset < self._judged_to and not self._is_unsettled:
            self._wrong_pending(found, "but no batch ends with that offset before the next entry")

    def _judge_rest(self, *, is_end_of_file: bool) -> None:
        assert self._cursor is not None
        found = self._pending
        is_over = is_end_of_file or (found is not None and found.offset < self._judged_to)
        if found is not None and is_over and not self._is_unsettled and not self._cut_off(np.array([found.offset]))[0]:
            self._wrong_pending(found, "but the log ends before that offset")
        while self._is_at_work and len(entries := self._cursor.below(ANY_KEY)):
            offsets = entries.columns[0]
            is_wrong = (offsets < self._judged_to) & ~self._cut_off(offsets)
            if self._is_unsettled and self._next_offset is not None:
                is_wrong &= offsets >= self._next_offset  # those that are there were moved
            for place in np.flatnonzero(is_wrong).tolist():
                self._wrong(entries, place, "which lies behind the end of the log")
            self._cursor.take(len(entries))

    def _wrong_pending(self, found: _Pending, words: str) -> None:
        shown = self.LAYOUT.shown((found.offset, found.position))
        self._fault(found.number * self.LAYOUT.size, self._in_segment(found.offset), f"{shown}, {words}")
        self._pending = None

    def _offset_in(self, fields: tuple[int, ...]) -> int:
        return fields[0]
