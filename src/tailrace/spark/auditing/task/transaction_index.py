"""Rule: an entry of a transaction index names an abort: the abort marker of its producer stands at its last offset.

Its last stable offset is where the first transaction began that was open still, or the offset behind the marker. Where
several batches were appended together, as a follower does it, that one may have begun behind the marker.

Aborts that no entry names are for who knows which transactions have records (`producers`), who asks `is_indexed`. Where
an entry misses the marker of its producer it is the entry that is wrong, and the marker counts as named.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from tailrace.env import Files
from tailrace.record.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from tailrace.spark.auditing.finding import Report
from tailrace.spark.auditing.pieces import AuditPiece
from tailrace.spark.auditing.rules import ABORT_WITHOUT_MARKER, TRANSACTION_INDEX, UNKNOWN_FORMAT
from tailrace.spark.auditing.task.block import Block, Numbers
from tailrace.spark.auditing.task.index_entries import Entries, IndexFile, TransactionLayout
from tailrace.spark.auditing.task.index_rule import ANY_KEY, MOST_FAULTS, IndexRule
from tailrace.spark.auditing.task.producer_seam import NONE, UNKNOWN
from tailrace.storage import names

_MOST_KNOWN: Final = 1 << 20
"""Entries that are held; a file with more is asked about nothing."""
_NO_NUMBERS: Final[Numbers] = np.zeros(0, np.int64)


class _Lost(NamedTuple):
    """An entry without a marker."""

    number: int
    producer_id: int
    first_offset: int
    marker_offset: int

    def says(self) -> str:
        return (
            f"entry says that producer {self.producer_id} aborted at offset {self.marker_offset} what began at "
            f"{self.first_offset}"
        )


class TransactionIndexRule(IndexRule):
    SUFFIX = names.TXN_INDEX_SUFFIX
    RULE = TRANSACTION_INDEX
    LAYOUT = TransactionLayout()
    MAY_BE_PREALLOCATED = False
    IS_ALWAYS_THERE = False

    def __init__(self, piece: AuditPiece, files: Files, report: Report) -> None:
        self._all: Entries | None = Entries(_NO_NUMBERS, (_NO_NUMBERS,) * 5)
        """All entries, by where their markers should stand; None: the file cannot tell."""
        self._lost: list[_Lost] = []
        self._excused: set[int] = set()  # markers that a wrong entry means
        self._before = -1  # where the last marker stood that an entry named
        self._stable: Numbers = _NO_NUMBERS  # last stable offsets at which a transaction should begin
        self._begun: dict[int, int] = {}  # those of them at which one does, and where it ended
        self._is_end_of_file = False
        self._unended: dict[int, list[int]] = {}  # those that have not ended, by producer
        super().__init__(piece, files, report)
        if self._name is not None and self._cursor is None:
            self._all = None

    def is_indexed(self, marker_offset: int) -> bool:
        """Whether an entry names an abort whose marker stands there. True where the index cannot be read or is damaged:
        that is told already. To be asked about markers of blocks that this rule has seen."""
        return self.began_at(marker_offset) != NONE

    def began_at(self, marker_offset: int) -> int:
        """Where the transaction began whose marker stands there, as the index says.

        NONE where no entry names it; UNKNOWN where the index cannot be read or is damaged.
        """
        if self._all is None or marker_offset in self._excused:
            return UNKNOWN
        _, _, begun, markers, _ = self._all.columns
        place = int(np.searchsorted(markers, marker_offset))
        is_named = place < len(markers) and int(markers[place]) == marker_offset
        return int(begun[place]) if is_named else NONE

    # The file as such

    @property
    def _is_at_work(self) -> bool:
        return super()._is_at_work and len(self._lost) < MOST_FAULTS

    def _begin(self) -> None:
        version = self._newer_version()
        if version is not None:
            if self._piece.is_first:
                self._say(UNKNOWN_FORMAT, 0, f"has entries of version {version}; only 0 is known")
            return
        super()._begin()
        self._all = None
        if self._file is None or self._cursor is None:
            return
        index = IndexFile(self._file, self.LAYOUT, self._piece.base_offset)
        if index.slots > _MOST_KNOWN:
            return
        found = [*index.all()]
        if any((placed.out_of_place | placed.impossible).any() for placed in found):
            return
        number = np.concatenate([placed.entries.number for placed in found])
        columns = zip(*(placed.entries.columns for placed in found), strict=True)
        self._all = Entries(number, tuple(np.concatenate(column) for column in columns))
        last, stable = self._all.columns[3], self._all.columns[4]
        is_another = (stable != last + 1) & (stable >= self._lacks_to) & (last < self._judged_to)
        self._stable = np.unique(stable[is_another])

    def _newer_version(self) -> int | None:
        """Of the entries, if two of them say so, or one that makes no sense as the version that is known."""
        assert self._file is not None
        entries = IndexFile(self._file, self.LAYOUT, self._piece.base_offset).placed(0, 2).entries
        version, *others = entries.columns
        if not len(version) or version[0] <= 0:
            return None
        makes_no_sense = self.LAYOUT.impossible((np.zeros_like(version), *others), self._piece.base_offset)[0]
        is_stated_twice = len(version) > 1 and version[0] == version[1]
        return int(version[0]) if makes_no_sense or is_stated_twice else None

    # Blocks

    def _judge(self, block: Block) -> None:
        cursor = self._cursor
        assert cursor is not None
        self._seek(int(block.base_offset[0]))
        aborts = {int(block.last_offset[marker.row]): marker.row for marker in block.markers if not marker.is_commit}
        while self._is_at_work and len(entries := cursor.below(int(block.last_offset.max()) + 1)):
            for place in range(len(entries)):
                self._judge_one(block, aborts, entries, place)
            cursor.take(len(entries))
        for marker_offset, row in aborts.items():
            if self.began_at(marker_offset) == NONE:
                self._look_for_entry(int(block.producer_id[row]), marker_offset)
        if len(self._stable):
            self._see_begun(block)

    def _judge_one(self, block: Block, aborts: dict[int, int], entries: Entries, place: int) -> None:
        _, producer_id, first_offset, marker_offset, _ = entries.at(place)
        row = aborts.get(marker_offset)
        is_behind_damage = self._next_offset is None and marker_offset < int(block.base_offset[0])
        if marker_offset <= self._before:
            self._wrong(entries, place, "which does not ascend from the one before it")
        elif marker_offset >= self._judged_to or is_behind_damage:
            pass
        elif row is None:
            self._lost.append(_Lost(int(entries.number[place]), producer_id, first_offset, marker_offset))
        elif int(block.producer_id[row]) != producer_id:
            self._wrong(entries, place, f"but the marker is of producer {int(block.producer_id[row])}")
        self._before = max(self._before, marker_offset)

    def _look_for_entry(self, producer_id: int, marker_offset: int) -> None:
        """No entry names this marker. One of its producer that has none, or goes beyond it, means it and is wrong."""
        for lost in self._lost:
            if lost.producer_id == producer_id and lost.first_offset < marker_offset:
                self._lost.remove(lost)
                self._excuse(lost, marker_offset)
                return
        if self._all is None:
            return
        _, producers, begun, markers, _ = self._all.columns
        beyond = np.flatnonzero((producers == producer_id) & (begun < marker_offset) & (markers > marker_offset))
        if len(beyond):
            number, fields = int(self._all.number[beyond[0]]), self._all.at(int(beyond[0]))
            self._excuse(_Lost(number, producer_id, fields[2], fields[3]), marker_offset)

    def _excuse(self, lost: _Lost, marker_offset: int) -> None:
        self._excused.add(marker_offset)
        words = f"{lost.says()}, but its marker stands at {marker_offset}"
        self._fault(lost.number * self.LAYOUT.size, self._in_segment(marker_offset), words)

    def _see_begun(self, block: Block) -> None:
        kind = block.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT)
        rows = np.flatnonzero((kind == TRANSACTIONAL_BIT) & np.isin(block.base_offset, self._stable))
        if not len(rows) and not self._unended:
            return
        steps = [(row, True) for row in rows.tolist()] + [(marker.row, False) for marker in block.markers]
        for row, begins in sorted(steps):
            offset, producer_id = int(block.base_offset[row]), int(block.producer_id[row])
            if begins:
                self._begun[offset] = ANY_KEY
                self._unended.setdefault(producer_id, []).append(offset)
            else:
                self._begun.update(dict.fromkeys(self._unended.pop(producer_id, ()), offset))

    # The end

    def _pass(self, behind: int, next_offset: int | None) -> None:
        """What a damaged batch holds is between the batches around it. Transactions may begin in it."""
        self._stable = _NO_NUMBERS

    def _judge_rest(self, *, is_end_of_file: bool) -> None:
        assert self._cursor is not None
        self._is_end_of_file = is_end_of_file
        while self._is_at_work and len(entries := self._cursor.below(ANY_KEY)):
            offsets = entries.columns[self.LAYOUT.key]
            for place in np.flatnonzero((offsets < self._judged_to) & ~self._cut_off(offsets)).tolist():
                _, producer_id, first_offset, marker_offset, _ = entries.at(place)
                self._lost.append(_Lost(int(entries.number[place]), producer_id, first_offset, marker_offset))
            self._cursor.take(len(entries))

    def _tell(self) -> None:
        self._judge_stable()
        wrong = {fault.position for fault in self._faults}
        super()._tell()
        for lost in self._lost:
            at = lost.number * self.LAYOUT.size
            if at not in wrong:
                words = f"{lost.says()}, but no abort marker stands there"
                self._say(ABORT_WITHOUT_MARKER, at, words, self._in_segment(lost.marker_offset))

    def _judge_stable(self) -> None:
        """Of the offsets that the piece has seen: where none begins, none was open; nor where one has ended.

        An entry without a marker is told as that.
        """
        if self._all is None or self._first_offset is None or self._next_offset is None:
            return
        last, stable = self._all.columns[3], self._all.columns[4]
        behind = ANY_KEY if self._is_end_of_file else self._next_offset
        is_seen = (stable >= self._first_offset) & (np.maximum(stable, last) < behind)
        is_seen &= ~np.isin(self._all.number, [lost.number for lost in self._lost])
        for place in np.flatnonzero(is_seen & np.isin(stable, self._stable)).tolist():
            ended = self._begun.get(int(stable[place]))
            if int(stable[place]) >= self._next_offset:
                self._wrong(self._all, place, f"but the segment ends at {self._next_offset}")
            elif ended is None:
                self._wrong(self._all, place, "but no transaction begins at that last stable offset")
            elif ended <= int(last[place]):
                self._wrong(self._all, place, f"but the transaction there has ended at {ended}")

    def _offset_in(self, fields: tuple[int, ...]) -> int:
        return fields[self.LAYOUT.key]
