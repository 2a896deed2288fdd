"""The three indexes of a segment, each held against the batches as a verification walks them.

Only what an index says must be true; what it could say and does not is no fault, since a running log keeps its newest
entries in memory. Entries are read along with the walk, so memory does not grow with the file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from struct import Struct
from typing import ClassVar, Final

from tailrace.env import File
from tailrace.record.control import ABORT
from tailrace.storage.finding import Finding, Report
from tailrace.storage.index_entries import (
    MAX_INDEX_BYTES,
    OFFSET_ENTRY,
    TIME_ENTRY,
    TXN_ENTRY,
    RawEntry,
    raw_entries,
)
from tailrace.storage.log_walk import WalkedBatch, is_zero_from

MAX_FINDINGS: Final = 10


class SegmentState:
    """What the walk knows when it hands a batch to the indexes."""

    __slots__ = ("control_type", "largest_timestamp", "low_offset", "saw_damage")

    def __init__(self, base_offset: int) -> None:
        self.low_offset = base_offset  # the first offset that the present batch may hold
        self.largest_timestamp = -1  # of all batches up to and with the present one
        self.control_type: int | None = None  # of the present batch, when it is a control batch that can be read
        self.saw_damage = False  # a batch before could not be read: its timestamps and offsets are not known


class IndexCheck(ABC):
    """Entries in file order, each looked at when the walk comes to its batch."""

    ENTRY: ClassVar[Struct]

    def __init__(self, file: File, name: str, base_offset: int, report: Report, *, may_be_preallocated: bool) -> None:
        self._file = file
        self._name = name
        self._base_offset = base_offset
        self._report = report
        self._reported = 0
        self._may_be_preallocated = may_be_preallocated
        self._end = 0  # behind the last entry that was read
        self._previous: tuple[int, ...] | None = None
        size = file.size()
        self._entries = raw_entries(file, self.ENTRY) if size <= MAX_INDEX_BYTES else iter(())
        if size > MAX_INDEX_BYTES:
            self._problem(None, f"has {size} bytes: no index is longer than {MAX_INDEX_BYTES}")
        elif size % self.ENTRY.size:
            self._problem(
                size - size % self.ENTRY.size,
                f"has {size} bytes, which is not a multiple of its {self.ENTRY.size}-byte entries",
            )
        self._is_readable = size <= MAX_INDEX_BYTES
        self._next: RawEntry | None = None
        self._advance()

    @abstractmethod
    def take(self, walked: WalkedBatch, state: SegmentState) -> None:
        """The walk has come to an intact batch."""

    @abstractmethod
    def pass_damaged(self, walked: WalkedBatch) -> None:
        """The walk has come to a batch that cannot be trusted: what is said about it cannot be judged."""

    @abstractmethod
    def _order_problem(self, previous: tuple[int, ...] | None, fields: tuple[int, ...]) -> str | None:
        """Why an entry is impossible, or cannot stand behind the one before."""

    def finish(self, is_whole: bool) -> None:
        """The walk is over; with `is_whole` it saw every byte of the log file."""
        while self._next is not None:
            if is_whole:
                self._problem(self._next.position, f"{self._describe(self._next)} lies behind the end of the log")
            self._advance()
        size = self._file.size()
        if not self._is_readable or size - self._end < self.ENTRY.size:
            return
        if not is_zero_from(self._file, self._end):
            self._problem(self._end, "has an entry of zeros before other bytes")
        elif not self._may_be_preallocated:
            self._problem(
                self._end,
                f"has {size - self._end} zero bytes behind its entries: it was never cut to them",
            )

    @abstractmethod
    def _describe(self, entry: RawEntry) -> str: ...

    def _advance(self) -> None:
        """Go to the next entry that is possible at all."""
        for entry in self._entries:
            self._end = entry.position + self.ENTRY.size
            problem = self._order_problem(self._previous, entry.fields)
            self._previous = entry.fields
            if problem is None:
                self._next = entry
                return
            self._problem(entry.position, problem)
        self._next = None

    def _problem(self, position: int | None, problem: str) -> None:
        self._reported += 1
        if self._reported < MAX_FINDINGS:
            self._report(Finding(self._name, position, problem))
        elif self._reported == MAX_FINDINGS:
            self._report(Finding(self._name, position, f"{problem}; what else is wrong in this file is not listed"))


class OffsetIndexCheck(IndexCheck):
    """(O, P): a batch begins at P and ends with offset O.

    Kafka used to make one entry for several batches appended together: P where the first begins, O the last's last.
    """

    ENTRY = OFFSET_ENTRY

    def __init__(self, file: File, name: str, base_offset: int, report: Report, *, may_be_preallocated: bool) -> None:
        self._open: RawEntry | None = None  # an entry whose O comes in a later batch than the one at P
        super().__init__(file, name, base_offset, report, may_be_preallocated=may_be_preallocated)

    def take(self, walked: WalkedBatch, state: SegmentState) -> None:
        last_offset = walked.batch.last_offset
        if self._open is not None and self._offset(self._open) <= last_offset:
            if self._offset(self._open) != last_offset:
                self._problem(self._open.position, f"{self._describe(self._open)}: no batch ends with that offset")
            self._open = None
        entry = self._entry_at(walked.position)
        if entry is None:
            return
        if self._open is not None:
            self._problem(self._open.position, f"{self._describe(self._open)}: the next entry comes before that offset")
            self._open = None
        if self._offset(entry) > last_offset:
            self._open = entry
        elif self._offset(entry) < last_offset:
            self._problem(entry.position, f"{self._describe(entry)}, but the batch there ends with {last_offset}")

    def pass_damaged(self, walked: WalkedBatch) -> None:
        self._open = None
        self._entry_at(walked.position)

    def finish(self, is_whole: bool) -> None:
        if self._open is not None and is_whole:
            self._problem(self._open.position, f"{self._describe(self._open)}: the log ends before that offset")
        super().finish(is_whole)

    def _entry_at(self, position: int) -> RawEntry | None:
        """The entry that points at the batch which begins here; entries that point before it point at nothing."""
        while self._next is not None and self._next.fields[1] < position:
            self._problem(self._next.position, f"{self._describe(self._next)}, but no batch begins there")
            self._advance()
        entry = self._next
        if entry is None or entry.fields[1] != position:
            return None
        self._advance()
        return entry

    def _order_problem(self, previous: tuple[int, ...] | None, fields: tuple[int, ...]) -> str | None:
        offset, position = fields[0] + self._base_offset, fields[1]
        if fields[0] < 0 or position < 0:
            return f"entry ({offset}, {position}) is below the segment's base {self._base_offset} or position 0"
        if previous is not None and (fields[0] <= previous[0] or position <= previous[1]):
            before = (previous[0] + self._base_offset, previous[1])
            return f"entry ({offset}, {position}) does not ascend from {before}"
        return None

    def _offset(self, entry: RawEntry) -> int:
        return entry.fields[0] + self._base_offset

    def _describe(self, entry: RawEntry) -> str:
        return f"entry says offset {self._offset(entry)} at position {entry.fields[1]}"


class TimeIndexCheck(IndexCheck):
    """(T, O): T is the largest timestamp of the batches up to the one that holds O, and that batch has it."""

    ENTRY = TIME_ENTRY

    def take(self, walked: WalkedBatch, state: SegmentState) -> None:
        batch = walked.batch
        while self._next is not None and self._offset(self._next) <= batch.last_offset:
            entry = self._next
            timestamp = entry.fields[0]
            if self._is_empty_slot(entry, batch.max_timestamp):
                self._end = 0
            elif self._offset(entry) < state.low_offset:
                if not state.saw_damage:
                    self._problem(entry.position, f"{self._describe(entry)}, which is in no batch")
            elif timestamp != batch.max_timestamp:
                self._problem(entry.position, f"{self._describe(entry)}, but the batch there has {batch.max_timestamp}")
            elif timestamp != state.largest_timestamp and not state.saw_damage:
                self._problem(
                    entry.position, f"{self._describe(entry)}, but before it stands {state.largest_timestamp}"
                )
            self._advance()

    def pass_damaged(self, walked: WalkedBatch) -> None:
        pass

    def finish(self, is_whole: bool) -> None:
        if self._next is not None and self._is_empty_slot(self._next, -1):
            self._next = None
            self._end = 0
        super().finish(is_whole)

    def _is_empty_slot(self, entry: RawEntry, timestamp: int) -> bool:
        """Zeros in the first slot, where no batch has the timestamp 0: a file that was never filled."""
        return entry.position == 0 and not any(entry.fields) and timestamp != 0

    def _order_problem(self, previous: tuple[int, ...] | None, fields: tuple[int, ...]) -> str | None:
        timestamp, offset = fields[0], fields[1] + self._base_offset
        if fields[1] < 0 or timestamp < 0:
            return f"entry ({timestamp}, {offset}) is below the segment's base {self._base_offset} or timestamp 0"
        if previous is not None and (timestamp <= previous[0] or fields[1] < previous[1]):
            before = (previous[0], previous[1] + self._base_offset)
            return f"entry ({timestamp}, {offset}) does not ascend from {before}"
        return None

    def _offset(self, entry: RawEntry) -> int:
        return entry.fields[1] + self._base_offset

    def _describe(self, entry: RawEntry) -> str:
        return f"entry says timestamp {entry.fields[0]} at offset {self._offset(entry)}"


class TransactionIndexCheck(IndexCheck):
    """An aborted transaction: the abort marker of its producer stands at its last offset.

    Its last stable offset is where another one begins that was open still, or the offset behind the marker. Where a
    follower appended several batches together, that other one may begin behind the marker, but in the same segment.
    """

    ENTRY = TXN_ENTRY

    def __init__(self, file: File, name: str, base_offset: int, report: Report, *, may_be_preallocated: bool) -> None:
        self._latest: RawEntry | None = None  # with the greatest last stable offset that lies behind its marker
        self._log_end = base_offset
        super().__init__(file, name, base_offset, report, may_be_preallocated=may_be_preallocated)

    def take(self, walked: WalkedBatch, state: SegmentState) -> None:
        batch = walked.batch
        self._log_end = batch.last_offset + 1
        while self._next is not None and self._next.fields[3] <= batch.last_offset:
            entry = self._next
            _, producer_id, _, last_offset, stable_offset = entry.fields
            if stable_offset > last_offset + 1 and (self._latest is None or stable_offset > self._latest.fields[4]):
                self._latest = entry
            if last_offset < batch.last_offset:
                if not state.saw_damage or last_offset >= state.low_offset:
                    self._problem(entry.position, f"{self._describe(entry)}, where no marker stands")
            elif not batch.is_control or state.control_type != ABORT:
                self._problem(entry.position, f"{self._describe(entry)}, where no abort marker stands")
            elif batch.producer_id != producer_id:
                self._problem(
                    entry.position, f"{self._describe(entry)}, but the marker is of producer {batch.producer_id}"
                )
            self._advance()

    def pass_damaged(self, walked: WalkedBatch) -> None:
        pass

    def finish(self, is_whole: bool) -> None:
        latest = self._latest
        if latest is not None and is_whole and latest.fields[4] >= self._log_end:
            self._problem(
                latest.position,
                f"entry with the abort at {latest.fields[3]} has the last stable offset {latest.fields[4]}, but the "
                f"segment ends at {self._log_end}",
            )
        super().finish(is_whole)

    def _order_problem(self, previous: tuple[int, ...] | None, fields: tuple[int, ...]) -> str | None:
        version, producer_id, first_offset, last_offset, last_stable_offset = fields
        if version:
            return f"entry has the unknown version {version}"
        if producer_id < 0 or not 0 <= first_offset <= last_offset or last_offset < self._base_offset:
            return f"entry of producer {producer_id} from offset {first_offset} to {last_offset} is impossible"
        if last_stable_offset < 0:
            return f"entry with the abort at {last_offset} has the last stable offset {last_stable_offset}"
        if previous is not None and last_offset <= previous[3]:
            return f"entry with the abort at {last_offset} does not ascend from {previous[3]}"
        return None

    def _describe(self, entry: RawEntry) -> str:
        return f"entry says that producer {entry.fields[1]} aborted at offset {entry.fields[3]}"
