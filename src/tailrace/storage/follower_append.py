"""Appending what a follower has fetched: the leader's bytes as they are, with one write and without a look at records.

Nearly every set that a leader sends is one run: whole v2 batches of the leader epoch that is known here, whose offsets
ascend from the log end on, and which fit into one segment. Kernels walk it, prove its CRCs and make its index entries
(`BatchRun`). Only batches that matter to producer state become objects, at most a few for each producer. Anything else
goes the way of `Appender.append_with_offsets`: batches of a new leader epoch, of an old format, or damaged ones.

What is refused, with nothing written:

    UnexpectedAppendOffsetError    the first batch begins below the log end
    InvalidRecordError             offsets do not ascend; a control batch cannot be read
    CorruptMessageError            a batch that is whole is damaged
    RecordListTooLargeError        a batch is larger than a segment may be

Bytes after the last whole batch are left out, since a fetch may end inside of a batch. A batch of a later leader epoch
than the fetch is dropped, with everything after it: a deposed leader that does not know it yet may send what it
appended after the follower asked in the epoch before (KAFKA-18723).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

from tailrace.env import Buffer
from tailrace.model.offsets import MAX_RELATIVE_OFFSET
from tailrace.record import kernels
from tailrace.record.batch import HEADER_BYTES, MAGIC_V2
from tailrace.record.batch_run import BatchRun
from tailrace.record.shallow import batches, next_batch
from tailrace.storage.append import NO_OFFSET, AppendResult
from tailrace.storage.unified_log import UnifiedLog

_COLUMNS: Final = len(kernels.HEADER_COLUMNS)
_EPOCH_COLUMN: Final = kernels.HEADER_COLUMNS.index("leader_epoch")
_FIRST_BATCHES: Final = 1024
_MIN_RUN: Final = 2
"""One batch takes no longer as an object."""


class FollowerAppender:
    """Room for the headers of one set, used for one log after the other by the thread that owns them."""

    def __init__(self) -> None:
        self._run = BatchRun(_FIRST_BATCHES)
        self._columns = array("q", bytes(8 * _COLUMNS * _FIRST_BATCHES))

    def append(self, log: UnifiedLog, records: Buffer, leader_epoch: int) -> AppendResult:
        """`leader_epoch` is that of the fetch. See the module for what is refused; StorageError when the disk refuses.

        A set that is larger than a segment may be is appended in pieces: those before one that is refused stand.
        """
        view = memoryview(records)
        if len(view) <= log.config.segment_bytes:
            return self._append(log, view, leader_epoch)
        sets = pieces(_up_to_epoch(view, leader_epoch), log.config.segment_bytes)
        results = [self._append(log, each, leader_epoch) for each in sets]
        written = [result for result in results if result.last_offset != NO_OFFSET]
        return written[0]._replace(last_offset=written[-1].last_offset) if written else results[-1]

    def _append(self, log: UnifiedLog, view: memoryview, leader_epoch: int) -> AppendResult:
        run = self._run_of(log, view, leader_epoch)
        if run is not None:
            return log.append_run_as_follower(run, view[: run.end])
        return log.append_as_follower(_up_to_epoch(view, leader_epoch))

    def _run_of(self, log: UnifiedLog, view: memoryview, leader_epoch: int) -> BatchRun | None:
        """All whole batches of the set, if they need no thought."""
        latest_epoch, next_offset = log.epochs.latest_epoch, log.log_end_offset
        if latest_epoch is None or latest_epoch > leader_epoch:
            return None
        self._make_room(len(view) // HEADER_BYTES)
        run = self._run
        run.walk(view, 0, len(view), next_offset, next_offset + MAX_RELATIVE_OFFSET, latest_epoch)
        if run.count < _MIN_RUN or not self._is_all(run, view) or self._least_epoch(run, view) != latest_epoch:
            return None
        return run if run.intact(view) == run.count else None

    def _make_room(self, batch_count: int) -> None:
        room = len(self._columns) // _COLUMNS
        if batch_count > room:
            room = max(batch_count, 2 * room)
            self._run = BatchRun(room)
            self._columns = array("q", bytes(8 * _COLUMNS * room))

    def _is_all(self, run: BatchRun, view: memoryview) -> bool:
        """Whether nothing follows the run but a part of a batch."""
        return next_batch(view, run.end, len(view)) is None

    def _least_epoch(self, run: BatchRun, view: memoryview) -> int:
        kernels.columns_run(view, run.rows, run.count, self._columns)
        return min(self._columns[_EPOCH_COLUMN * run.count : (_EPOCH_COLUMN + 1) * run.count])


def _up_to_epoch(view: memoryview, leader_epoch: int) -> memoryview:
    """The set without the first batch of a later leader epoch and what follows it."""
    for batch in batches(view):
        if batch.magic == MAGIC_V2 and batch.leader_epoch > leader_epoch:
            return view[: batch.position]
    return view


def pieces(view: memoryview, limit: int) -> Iterator[memoryview]:
    """Stretches of whole batches of at most `limit` bytes each, or of one larger batch; the last has what remains."""
    start = 0
    for batch in batches(view):
        if batch.end - start > limit and batch.position > start:
            yield view[start : batch.position]
            start = batch.position
    yield view[start:]
