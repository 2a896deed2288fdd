"""What the rules of the three indexes have in common: a file beside a piece, and one finding for all that is wrong.

Only what an index says must be true; what it could say and does not is no fault, since a running log keeps its newest
entries in memory. An index is made anew from the log as a whole: its first wrong entry and their number say all.

Entries are judged where the log can witness against them. Not where it is damaged or may still change, and not for
offsets that the log has lost, which other rules tell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final, NamedTuple

import numpy as np

from tailrace.env import File, Files, Mode
from tailrace.spark.auditing.finding import Finding, Report
from tailrace.spark.auditing.pieces import AuditPiece
from tailrace.spark.auditing.rules import GONE, INDEX_MISSING, UNREADABLE
from tailrace.spark.auditing.task.block import Block, Numbers
from tailrace.spark.auditing.task.index_entries import Entries, EntryCursor, Flags, IndexFile, IndexLayout
from tailrace.spark.auditing.task.offsets import ALWAYS_COMPACTED
from tailrace.storage import names
from tailrace.storage.index_entries import MAX_INDEX_BYTES
from tailrace.storage.log_walk import is_zero_from

_Work = Callable[[], None]

MOST_FAULTS: Final = 1000
"""A file with so many is not looked at any further."""
LOOKED_BEHIND_BYTES: Final = 1 << 16
ANY_KEY: Final = 2**63 - 1
"""Above all offsets and positions."""


class IndexFault(NamedTuple):
    position: int
    """In the index."""
    offset: int | None
    words: str


class IndexRule(ABC):
    """A `PieceRule`. The file is open from the first call to the last."""

    SUFFIX: ClassVar[str]
    RULE: ClassVar[str]
    LAYOUT: ClassVar[IndexLayout]
    MAY_BE_PREALLOCATED: ClassVar[bool] = True
    IS_ALWAYS_THERE: ClassVar[bool] = True

    def __init__(self, piece: AuditPiece, files: Files, report: Report) -> None:
        """Opens the index, if the piece names one. Errors of the disk are findings."""
        self._piece = piece
        self._report = report
        self._faults: list[IndexFault] = []
        self._unlisted_faults = 0
        self._name = _listed_name(piece, self.SUFFIX)
        self._cursor: EntryCursor | None = None
        self._has_begun = False
        self._next_offset: int | None = piece.base_offset if piece.is_first else None
        self._first_offset: int | None = None
        self._come_to = piece.base_offset  # at least: behind damage nobody knows more
        may_lack_any = piece.is_compacted or piece.is_being_cleaned or piece.partition.topic in ALWAYS_COMPACTED
        self._lacks_to = ANY_KEY if may_lack_any else piece.cleaned_to
        self._judged_to = ANY_KEY if piece.judged_to is None else piece.judged_to
        self._file = self._open(files)
        if self._file is not None:
            self._guarded(self._begin)

    # What it is told of the piece

    def block(self, block: Block) -> None:
        if self._is_at_work:
            self._guarded(lambda: self._judge(block))
        if self._first_offset is None:
            self._first_offset = int(block.base_offset[0])
        self._next_offset = int(block.last_offset[-1]) + 1
        self._come_to = max(self._come_to, self._next_offset)

    def damage(self, position: int, behind: int, next_offset: int | None) -> None:
        if self._is_at_work:
            self._guarded(lambda: self._pass(behind, next_offset))
        self._next_offset = None

    def end(self, position: int, *, is_whole: bool, is_end_of_file: bool) -> None:
        is_all_judged = self._next_offset is not None and self._next_offset >= self._judged_to
        if self._is_at_work and is_whole and (is_end_of_file or is_all_judged):
            self._guarded(lambda: self._judge_rest(is_end_of_file=is_end_of_file))
        elif self._is_at_work and is_whole:
            self._guarded(self._judge_edge)
        self._close()
        self._tell()

    @abstractmethod
    def _judge(self, block: Block) -> None:
        """Entries about the batches of a block."""

    @abstractmethod
    def _pass(self, behind: int, next_offset: int | None) -> None:
        """Entries about bytes up to `behind` cannot be judged."""

    def _judge_edge(self) -> None:  # noqa: B027  # most have nothing to say
        """What is left when the piece is over, and the log is not."""

    @abstractmethod
    def _judge_rest(self, *, is_end_of_file: bool) -> None:
        """Entries that are left when the log is over, or all of it that can be judged."""

    @abstractmethod
    def _offset_in(self, fields: tuple[int, ...]) -> int:
        """What an entry is about."""

    # The file as such

    @property
    def _is_at_work(self) -> bool:
        return self._cursor is not None and len(self._faults) < MOST_FAULTS

    @property
    def _path(self) -> str:
        return names.join(self._piece.folder, self._name or names.prefix_of(self._piece.base_offset) + self.SUFFIX)

    def _open(self, files: Files) -> File | None:
        if self._name is None:
            if self._piece.is_first and self.IS_ALWAYS_THERE:
                self._say(INDEX_MISSING, None, "is missing; it is made anew when the log is opened")
            return None
        try:
            return files.open(self._path, Mode.READ)
        except FileNotFoundError:
            self._say(GONE, None, "went away before it was read")
        except OSError as error:
            self._say(UNREADABLE, None, f"cannot be read: {error.strerror or error}")
        return None

    def _begin(self) -> None:
        assert self._file is not None
        size = self._file.size()
        if size > MAX_INDEX_BYTES:
            if self._piece.is_first:
                self._fault(0, None, f"has {size} bytes: no index is longer than {MAX_INDEX_BYTES}")
            return
        index = IndexFile(self._file, self.LAYOUT, self._piece.base_offset)
        if self._piece.is_first:
            self._look_at_all(index)
        self._cursor = EntryCursor(index)

    def _look_at_all(self, index: IndexFile) -> None:
        """Once for each segment: what is wrong whatever the log holds."""
        filled = 0
        for placed in index.all():
            filled += len(placed.entries)
            for place in np.flatnonzero(placed.out_of_place | placed.impossible)[:MOST_FAULTS].tolist():
                what = "which cannot be" if placed.impossible[place] else "which does not ascend with those around it"
                self._wrong(placed.entries, place, what)
        self._look_behind(index, filled * index.layout.size)

    def _look_behind(self, index: IndexFile, end: int) -> None:
        size = index.layout.size
        torn = index.size % size
        if torn:
            words = f"has {index.size} bytes, which is not a multiple of its {size}-byte entries"
            self._fault(index.size - torn, None, words)
        room = index.size - end
        if room < size:
            return
        if not self._is_room(index, end):
            if not any(index.file.read_at(size, end)):  # else it was added just now
                self._fault(end, None, "has an entry of zeros before other bytes")
        elif not self.MAY_BE_PREALLOCATED or self._piece.next_base is not None:
            self._fault(end, None, f"has {room} zero bytes behind its entries: it was never cut to them")

    def _is_room(self, index: IndexFile, end: int) -> bool:
        """Whether zeros follow. A broker makes indexes as long as they may become, and cuts them when it closes them:
        of megabytes of zeros behind the few entries of one that is being filled, it is the first that tell."""
        is_being_filled = self.MAY_BE_PREALLOCATED and self._piece.next_base is None and not self._piece.is_closed
        if not is_being_filled:
            return is_zero_from(index.file, end)
        looked_at = index.file.read_at(min(index.size - end, LOOKED_BEHIND_BYTES), end)
        return looked_at.count(0) == len(looked_at)

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self._cursor = None

    def _guarded(self, work: _Work) -> None:
        try:
            work()
        except OSError as error:
            self._say(UNREADABLE, None, f"cannot be read: {error.strerror or error}")
            self._close()

    # What it knows of offsets

    def _breaks(self, block: Block) -> Flags:
        """Batches before which offsets do not go on, which compaction cannot explain."""
        came_to: Numbers = np.empty_like(block.base_offset)
        came_to[1:] = block.last_offset[:-1] + 1
        came_to[0] = block.base_offset[0] if self._next_offset is None else self._next_offset
        gap = (block.base_offset > came_to) & (block.base_offset > self._lacks_to)
        return gap | (block.base_offset < came_to)

    def _cut_off(self, offsets: Numbers) -> Flags:
        """Offsets that the log should hold, but it ends before them: that is told of the log, not of its indexes."""
        if self._next_offset is None:
            return np.ones(len(offsets), np.bool_)
        is_last = self._piece.next_base is None
        should_end = self._piece.judged_to if is_last else self._piece.next_base
        if should_end is None or (self._next_offset < self._lacks_to and not is_last):
            return np.zeros(len(offsets), np.bool_)
        found: Flags = (offsets >= self._next_offset) & (offsets < should_end)
        return found

    def _in_segment(self, offset: int) -> int | None:
        """An offset that the segment may have."""
        behind = self._piece.next_base
        return offset if self._piece.base_offset <= offset < (ANY_KEY if behind is None else behind) else None

    def _seek(self, key: int) -> None:
        """Before the first entry: a piece that does not begin its segment begins its index further on, too."""
        if self._has_begun:
            return
        self._has_begun = True
        if not self._piece.is_first and self._cursor is not None:
            self._cursor.seek(key)

    # What it says

    def _wrong(self, entries: Entries, place: int, words: str) -> None:
        fields = entries.at(place)
        at = int(entries.number[place]) * self.LAYOUT.size
        self._fault(at, self._in_segment(self._offset_in(fields)), f"{self.LAYOUT.shown(fields)}, {words}")

    def _fault(self, position: int, offset: int | None, words: str) -> None:
        if len(self._faults) < MOST_FAULTS:
            self._faults.append(IndexFault(position, offset, words))
        else:
            self._unlisted_faults += 1

    def _tell(self) -> None:
        if not self._faults:
            return
        first = min(self._faults, key=lambda fault: fault.position)
        more = len(self._faults) - 1 + self._unlisted_faults
        words = first.words if not more else f"{first.words}; and {more} more that are wrong"
        self._say(self.RULE, first.position, words, first.offset)

    def _say(self, rule: str, position: int | None, words: str, offset: int | None = None) -> None:
        self._report(Finding(self._path, str(self._piece.partition), offset, rule, words, position))


def _listed_name(piece: AuditPiece, suffix: str) -> str | None:
    """A swap takes a segment's files to their names one by one."""
    final = names.prefix_of(piece.base_offset) + suffix
    swap = final + names.SWAP_SUFFIX
    likely = (swap, final) if piece.is_swap else (final, swap)
    return next((name for name in likely if name in piece.indexes), None)
