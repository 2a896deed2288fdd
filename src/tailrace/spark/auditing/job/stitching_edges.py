"""Where two pieces of a log meet: offsets go on, epochs do not fall, time indexes tell the largest timestamp.

Tasks hold the first batch of a segment against the segment's base offset, and all its batches against the next one's.
What is left are the seams within a segment, and what a segment lacks at its end.
"""

from __future__ import annotations

from tailrace.spark.auditing.finding import Finding, Report
from tailrace.spark.auditing.pieces import AuditPiece, PieceResult
from tailrace.spark.auditing.rules import EPOCH_ORDER, OFFSET_GAP, OFFSET_ORDER, TIME_INDEX, TRUNCATED
from tailrace.spark.auditing.task.producer_findings import log_path
from tailrace.spark.auditing.task.producer_judging import judged_of
from tailrace.storage import names


def is_smooth(before: PieceResult, behind: PieceResult) -> bool:
    """Whether two pieces of one segment meet without anything to say about it.

    Where they do not, the segment in one piece tells more: what is on either side of a fault says what it is.
    """
    first, last = behind.seam, before.seam
    if last.ends_unjudged:
        return first.first_offset is None
    if not last.is_whole or last.ends_damaged or first.starts_damaged:
        return False
    if first.first_offset is None or last.next_offset is None:
        return first.ends_unjudged and last.next_offset is not None
    falls = 0 <= first.first_epoch < last.last_epoch or (first.without_epoch is not None and last.last_epoch >= 0)
    entry = first.first_time_entry
    is_late = entry is not None and entry[0] < last.largest_timestamp
    lacks_to = judged_of(behind.piece).lacks_to
    goes_on = first.first_offset == last.next_offset or last.next_offset < first.first_offset <= lacks_to
    return goes_on and not falls and not is_late


class Edges:
    """Shown the pieces of a folder in order."""

    def __init__(self, report: Report, snapshots: frozenset[int]) -> None:
        self._report = report
        self._snapshots = snapshots
        self._before: PieceResult | None = None
        self.next_offset: int | None = None
        """Where the log has come to; None where damage hides it."""
        self._last_epoch = -1
        self._largest_timestamp = -1
        self._last_time_entry: int | None = -1

    def meet(self, result: PieceResult) -> bool:
        """Whether nothing is missing or damaged between the pieces before and this one."""
        before, piece, seam = self._before, result.piece, result.seam
        is_next_segment = before is None or before.piece.base_offset != piece.base_offset
        if is_next_segment:
            self._largest_timestamp = -1
            self._last_time_entry = -1
        continues = before is None or self._offsets_go_on(before, result, is_next_segment)
        self._check_epoch(result)
        self._check_time(result)
        self._pass(result)
        self._check_last_time(result)
        first = seam.first_offset
        if continues and is_next_segment and first is not None:
            continues = first == piece.base_offset or piece.base_offset < first <= judged_of(piece).lacks_to
        return continues and not seam.starts_damaged

    def _pass(self, result: PieceResult) -> None:
        seam = result.seam
        self._before = result
        if seam.ends_damaged or not seam.is_whole or seam.ends_unjudged:
            self.next_offset = None
        elif seam.next_offset is not None:
            self.next_offset = seam.next_offset
        elif result.piece.is_first:
            self.next_offset = result.piece.base_offset
        self._last_epoch = max(self._last_epoch, seam.last_epoch)
        self._largest_timestamp = max(self._largest_timestamp, seam.largest_timestamp)

    # Offsets

    def _offsets_go_on(self, before: PieceResult, result: PieceResult, is_next_segment: bool) -> bool:
        piece = result.piece
        came_to = self.next_offset
        if came_to is None:
            return False
        if is_next_segment:
            is_listed_next = before.piece.next_base == piece.base_offset
            return is_listed_next and self._segment_follows(before, piece, came_to)
        first = result.seam.first_offset
        if first is None or result.seam.starts_damaged:
            return not result.seam.starts_damaged
        judged = judged_of(piece)
        if first == came_to or came_to < first <= judged.lacks_to:
            return True
        if min(first, came_to) < judged.judged_to:
            rule, offset, words = OFFSET_ORDER, first, f"batch of offset {first}, but the log has come to {came_to}"
            if first > came_to:
                offset, words = came_to, f"offsets {came_to} to {first - 1} are missing before this batch"
                rule = OFFSET_GAP
            self._say(piece, rule, offset, words, result.seam.start_position)
        return False

    def _segment_follows(self, before: PieceResult, piece: AuditPiece, came_to: int) -> bool:
        """Whether the segment before goes up to the next one. That it goes beyond is told by the task that read it."""
        base = piece.base_offset
        judged = judged_of(piece)
        if came_to >= base or base <= judged.lacks_to:
            return came_to <= base
        if came_to < judged.judged_to:
            missing = f"offsets {came_to} to {base - 1} are missing before the next segment"
            if self._lacks_segment(before, came_to, base):
                self._say(before.piece, OFFSET_GAP, came_to, f"{missing}: one is gone", before.seam.end_position)
            else:
                self._say(before.piece, TRUNCATED, came_to, f"{missing}: its end is cut off", before.seam.end_position)
        return False

    def _lacks_segment(self, before: PieceResult, came_to: int, base: int) -> bool:
        """Whether a whole segment is more likely to be missing than the end of the one before.

        A segment that was closed has a snapshot of producers at its end. That may be gone with the one behind it: then
        what is missing is about as much as a segment has.
        """
        held = came_to - before.piece.base_offset
        return held > 0 and (came_to in self._snapshots or 2 * (base - came_to) >= held)

    def check_end(self, high_watermark: int | None) -> None:
        """All pieces were shown."""
        last, came_to = self._before, self.next_offset
        if last is None or came_to is None or high_watermark is None or last.piece.next_base is not None:
            return
        if came_to < high_watermark:
            words = f"ends before offset {came_to}, but the high watermark is {high_watermark}"
            self._say(last.piece, TRUNCATED, came_to, words, last.seam.end_position)

    # Epochs and times

    def _check_epoch(self, result: PieceResult) -> None:
        seam = result.seam
        if seam.without_epoch is not None and self._last_epoch >= 0:
            offset, position = seam.without_epoch
            words = f"batch has no leader epoch, but one before it has {self._last_epoch}"
            self._say(result.piece, EPOCH_ORDER, offset, words, position)
        if 0 <= seam.first_epoch < self._last_epoch and seam.first_offset is not None:
            words = f"batch has leader epoch {seam.first_epoch}, but one before it has {self._last_epoch}"
            self._say(result.piece, EPOCH_ORDER, seam.first_offset, words, seam.start_position)
            self._last_epoch = -1

    def _check_time(self, result: PieceResult) -> None:
        entry = result.seam.first_time_entry
        if entry is None or entry[0] >= self._largest_timestamp:
            return
        timestamp, offset, position = entry
        words = f"entry says timestamp {timestamp} at offset {offset}, but before it stands {self._largest_timestamp}"
        self._say_of_times(result.piece, offset, words, position)

    def _check_last_time(self, result: PieceResult) -> None:
        """Behind the last piece of a segment that was closed."""
        piece, seam = result.piece, result.seam
        if seam.last_time_entry is None or self._last_time_entry is None or seam.ends_unjudged:
            self._last_time_entry = None
            return
        self._last_time_entry = max(self._last_time_entry, seam.last_time_entry)
        if piece.end is not None or piece.next_base is None or self._last_time_entry >= self._largest_timestamp:
            return
        if self.next_offset is None or max(self.next_offset, judged_of(piece).lacks_to) < piece.next_base:
            return  # its end is gone, which is told
        words = f"has no entry for the largest timestamp of its segment, {self._largest_timestamp}"
        self._say_of_times(piece, None, words, None)

    def _say_of_times(self, piece: AuditPiece, offset: int | None, words: str, position: int | None) -> None:
        name = names.time_index_name(piece.base_offset) + (names.SWAP_SUFFIX if piece.is_swap else "")
        path = names.join(piece.folder, name)
        self._report(Finding(path, str(piece.partition), offset, TIME_INDEX, words, position))

    def _say(self, piece: AuditPiece, rule: str, offset: int, words: str, position: int) -> None:
        self._report(Finding(log_path(piece), str(piece.partition), offset, rule, words, position))
