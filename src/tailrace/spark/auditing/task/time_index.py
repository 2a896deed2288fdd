"""Rule: (T, O) of a time index means that T is the largest timestamp of all batches up to the one with O, and its own.

When a segment is closed its largest timestamp gets an entry: who looks for a later one passes over the whole segment.
What the other pieces hold is not known here: `first_entry`, `last_entry` and `largest_timestamp` are for the seams.
"""

from __future__ import annotations

import numpy as np

from tailrace.env import Files
from tailrace.spark.auditing.finding import Report
from tailrace.spark.auditing.pieces import AuditPiece
from tailrace.spark.auditing.rules import TIME_INDEX
from tailrace.spark.auditing.task.block import Block, Numbers
from tailrace.spark.auditing.task.index_entries import Entries, Flags, TimeLayout
from tailrace.spark.auditing.task.index_rule import ANY_KEY, IndexRule
from tailrace.storage import names


class TimeIndexRule(IndexRule):
    SUFFIX = names.TIME_INDEX_SUFFIX
    RULE = TIME_INDEX
    LAYOUT = TimeLayout()

    def __init__(self, piece: AuditPiece, files: Files, report: Report) -> None:
        self.largest_timestamp = -1
        """Of the piece's batches; −1 without one."""
        self.first_entry: tuple[int, int, int] | None = None
        """(timestamp, offset, position in the index) of the first entry that is true of this piece's batches."""
        self.last_entry: int | None = None
        """Timestamp of the last entry about this piece, −1 without one; None where that cannot be said."""
        self._is_log_whole = True
        self._before: tuple[int, int] | None = None  # the last entry that was right
        self._largest_judged = -1
        super().__init__(piece, files, report)

    def block(self, block: Block) -> None:
        super().block(block)
        self.largest_timestamp = max(self.largest_timestamp, int(block.max_timestamp.max()))

    def damage(self, position: int, behind: int, next_offset: int | None) -> None:
        super().damage(position, behind, next_offset)
        self._is_log_whole = False

    def end(self, position: int, *, is_whole: bool, is_end_of_file: bool) -> None:
        is_readable = self._cursor is not None
        super().end(position, is_whole=is_whole, is_end_of_file=is_end_of_file)
        if is_readable and is_whole and self._is_log_whole and not self._faults:
            self.last_entry = -1 if self._before is None else self._before[0]

    def _judge(self, block: Block) -> None:
        cursor = self._cursor
        assert cursor is not None
        self._seek(int(block.base_offset[0]))
        largest = np.maximum(np.maximum.accumulate(block.max_timestamp), self.largest_timestamp)
        while self._is_at_work and len(entries := cursor.below(int(block.last_offset[-1]) + 1)):
            self._judge_some(block, largest, entries)
            cursor.take(len(entries))
        judged = int(np.searchsorted(block.last_offset, self._judged_to))
        if judged:
            self._largest_judged = int(largest[judged - 1])

    def _judge_some(self, block: Block, largest: Numbers, entries: Entries) -> None:
        timestamp, offset = entries.columns
        row = np.minimum(np.searchsorted(block.last_offset, offset), len(block) - 1)
        is_inside = (block.base_offset[row] <= offset) & (offset <= block.last_offset[row])
        right: Flags = is_inside & (timestamp == block.max_timestamp[row]) & (timestamp == largest[row])
        is_all_right = bool(right.all())
        if is_all_right or right.any():
            self._accept(entries if is_all_right else entries.where(right))
        if is_all_right:
            return
        is_late = (offset < self._come_to) & ~is_inside
        can_be_judged = is_inside | is_late | ~self._lost_before(block)[row]
        can_be_judged &= block.last_offset[row] < self._judged_to
        for place in np.flatnonzero(~right & can_be_judged).tolist():
            own, before = int(block.max_timestamp[row[place]]), int(largest[row[place]])
            if self._is_empty_slot(entries, place):
                self._look_at_empty()
            elif not is_inside[place]:
                words = "which does not ascend from those before it" if is_late[place] else "which is in no batch"
                self._wrong(entries, place, words)
            elif int(timestamp[place]) != own:
                self._wrong(entries, place, f"but the batch there has {own}")
            else:
                self._wrong(entries, place, f"but before it stands {before}")

    def _lost_before(self, block: Block) -> Flags:
        """Batches before which offsets are missing that the log has lost."""
        lost = self._breaks(block)
        lost[0] |= self._next_offset is None
        return lost

    def _accept(self, entries: Entries) -> None:
        """They are right; that they ascend, too, is seen here."""
        timestamps, offsets = entries.columns
        if self.first_entry is None:
            self.first_entry = int(timestamps[0]), int(offsets[0]), int(entries.number[0]) * self.LAYOUT.size
        if self._before is not None:
            timestamps = np.concatenate(([self._before[0]], timestamps))
            offsets = np.concatenate(([self._before[1]], offsets))
        falls = np.flatnonzero((timestamps[1:] <= timestamps[:-1]) | (offsets[1:] < offsets[:-1]))
        skipped = 0 if self._before is not None else 1
        for place in falls[offsets[falls + 1] < self._judged_to].tolist():
            self._wrong(entries, place + skipped, "which does not ascend from the one before it")
        self._before = int(timestamps[-1]), int(offsets[-1])

    def _pass(self, behind: int, next_offset: int | None) -> None:
        """Nothing to do: what a damaged batch holds is between the batches around it."""

    def _judge_rest(self, *, is_end_of_file: bool) -> None:
        del is_end_of_file
        assert self._cursor is not None
        while self._is_at_work and len(entries := self._cursor.below(ANY_KEY)):
            timestamps, offsets = entries.columns
            # What comes behind the high watermark may be newer than what was read, but not older.
            is_wrong = ((offsets < self._judged_to) | (timestamps <= self._largest_judged)) & ~self._cut_off(offsets)
            for place in np.flatnonzero(is_wrong).tolist():
                if self._is_empty_slot(entries, place):
                    self._look_at_empty()
                else:
                    self._wrong(entries, place, "which lies behind the end of the log")
            self._cursor.take(len(entries))

    def _is_empty_slot(self, entries: Entries, place: int) -> bool:
        """Zeros in the first slot, and none behind it that is filled: a file that was never filled."""
        is_zero = entries.number[place] == 0 and entries.at(place) == (0, self._piece.base_offset)
        return is_zero and self._file is not None and not any(self._file.read_at(2 * self.LAYOUT.size, 0))

    def _look_at_empty(self) -> None:
        if self._piece.next_base is not None and self._piece.is_first and self._file is not None:
            size = self._file.size()
            self._faults = [fault for fault in self._faults if fault.position > self.LAYOUT.size]
            self._fault(0, None, f"has {size} zero bytes and no entry: it was never cut to them")

    def _offset_in(self, fields: tuple[int, ...]) -> int:
        return fields[1]
