"""One segment read from its first byte to its last, its indexes held against it on the way."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from operator import itemgetter
from typing import Final, NamedTuple

from tailrace.env import File, Files, Mode
from tailrace.model.errors import CorruptMessageError, TailraceError
from tailrace.model.offsets import MAX_RELATIVE_OFFSET
from tailrace.record.control import control_of
from tailrace.record.shallow import ShallowBatch
from tailrace.storage import names
from tailrace.storage.epoch_cache import EpochEntry
from tailrace.storage.finding import NOTE, Finding, Report
from tailrace.storage.log_walk import LogWalk, WalkedBatch, is_zero_from
from tailrace.storage.verify_indexes import (
    IndexCheck,
    OffsetIndexCheck,
    SegmentState,
    TimeIndexCheck,
    TransactionIndexCheck,
)

MAX_SEGMENT_BYTES: Final = 2**31 - 1  # segment.bytes is an int32
MAX_CONTROL_BYTES: Final = 1 << 20
_by_start_offset = itemgetter(1)


class SegmentPlan(NamedTuple):
    """What is to be verified: the files of one segment that exist, and what stands around it."""

    directory: str
    base_offset: int
    next_base: int | None  # None: it is the active one
    index_names: frozenset[str]
    epochs: Sequence[EpochEntry]


class SegmentCheck:
    """One run over one segment. Counts are right, as far as it got, at any time."""

    def __init__(self, files: Files, plan: SegmentPlan, report: Report) -> None:
        self._files = files
        self._plan = plan
        self._report = report
        self._name = names.log_name(plan.base_offset)
        self._state = SegmentState(plan.base_offset)
        self._indexes: list[IndexCheck] = []
        self.batches = 0
        self.bytes = 0
        self.next_offset = plan.base_offset
        self.has_epochs = False
        self.is_whole = False
        """Every byte was read, so that `next_offset` is where the segment ends."""

    def steps(self) -> Iterator[None]:
        """Does it all, in a step for each batch. An OSError of the disk passes through."""
        with ExitStack() as opened:
            file = self._open(opened, self._name)
            if file is None:
                return
            self._open_indexes(opened)
            walk = LogWalk(file)
            try:
                for walked in walk:
                    self._take(walked)
                    self.bytes = walk.position
                    yield
                self.is_whole = True
            except CorruptMessageError as error:
                self.is_whole = self._stopped(file, walk.position, error)
            for index in self._indexes:
                index.finish(self.is_whole)

    def _open(self, opened: ExitStack, name: str) -> File | None:
        try:
            file = self._files.open(names.join(self._plan.directory, name), Mode.READ)
        except FileNotFoundError:
            self._report(Finding(name, None, "went away while the directory was verified", NOTE))
            return None
        opened.callback(file.close)
        return file

    def _open_indexes(self, opened: ExitStack) -> None:
        base, is_active = self._plan.base_offset, self._plan.next_base is None
        kinds: tuple[tuple[str, type[IndexCheck], bool], ...] = (
            (names.offset_index_name(base), OffsetIndexCheck, is_active),
            (names.time_index_name(base), TimeIndexCheck, is_active),
            (names.txn_index_name(base), TransactionIndexCheck, False),
        )
        for name, kind, may_be_preallocated in kinds:
            file = self._open(opened, name) if name in self._plan.index_names else None
            if file is not None:
                self._indexes.append(kind(file, name, base, self._report, may_be_preallocated=may_be_preallocated))
            elif kind is not TransactionIndexCheck:
                self._report(Finding(name, None, "is missing; it is made anew when the log is opened", NOTE))

    def _stopped(self, file: File, position: int, error: CorruptMessageError) -> bool:
        """Whether what follows the last batch is only the room that was made for more of them."""
        left = file.size() - position
        if self._plan.next_base is None and left <= MAX_SEGMENT_BYTES and is_zero_from(file, position):
            self._report(Finding(self._name, position, f"ends with {left} zero bytes, made for later batches", NOTE))
            return True
        self._problem(position, f"{error}; the {left} bytes from here on cannot be read")
        return False

    def _take(self, walked: WalkedBatch) -> None:
        batch, state = walked.batch, self._state
        self.batches += 1
        if not walked.is_intact:
            self._problem(
                walked.position,
                f"batch of magic {batch.magic} with last offset {batch.last_offset} "
                f"has CRC {walked.found_crc:08x} but states {batch.crc:08x}",
            )
            state.saw_damage = True
            for index in self._indexes:
                index.pass_damaged(walked)
            return
        self._check_offsets(walked.position, batch)
        self._check_epoch(walked.position, batch)
        state.low_offset = batch.base_offset if batch.base_offset >= 0 else self.next_offset
        state.largest_timestamp = max(state.largest_timestamp, batch.max_timestamp)
        state.control_type = self._control_type(walked) if batch.is_control else None
        for index in self._indexes:
            index.take(walked, state)
        self.next_offset = max(self.next_offset, batch.next_offset)

    def _check_offsets(self, position: int, batch: ShallowBatch) -> None:
        first = batch.base_offset if batch.is_v2 else batch.last_offset  # an old wrapper does not say its first
        last, next_base = batch.last_offset, self._plan.next_base
        if last < first:
            self._problem(position, f"batch begins with offset {first} and ends with {last}")
        elif first < self.next_offset:
            what = "the segment begins with" if self.next_offset == self._plan.base_offset else "the log has come to"
            self._problem(position, f"batch begins with offset {first}, but {what} {self.next_offset}")
        elif next_base is not None and last >= next_base:
            self._problem(position, f"batch ends with offset {last}, but the next segment begins with {next_base}")
        elif last - self._plan.base_offset > MAX_RELATIVE_OFFSET:
            self._problem(position, f"offset {last} is too far from the segment's base {self._plan.base_offset}")
        if batch.is_v2 and not 0 <= batch.record_count <= max(last - first + 1, 0):
            self._problem(position, f"batch of offsets {first} to {last} states {batch.record_count} records")

    def _check_epoch(self, position: int, batch: ShallowBatch) -> None:
        if batch.leader_epoch < 0:
            return
        self.has_epochs = True
        epochs = self._plan.epochs
        at = bisect_right(epochs, batch.base_offset, key=_by_start_offset)
        if at and epochs[at - 1].epoch != batch.leader_epoch:
            self._problem(
                position,
                f"batch at offset {batch.base_offset} has leader epoch {batch.leader_epoch}, but by "
                f"{names.LEADER_EPOCH_CHECKPOINT} it is {epochs[at - 1].epoch}",
            )

    def _control_type(self, walked: WalkedBatch) -> int | None:
        if walked.window is None or walked.batch.size > MAX_CONTROL_BYTES:
            self._problem(walked.position, f"control batch of {walked.batch.size} bytes")
            return None
        try:
            control = control_of(walked.window, walked.batch, MAX_CONTROL_BYTES)
        except TailraceError as error:
            self._problem(walked.position, f"control batch cannot be read: {error}")
            return None
        return control.type if control is not None else None

    def _problem(self, position: int, problem: str) -> None:
        self._report(Finding(self._name, position, problem))
