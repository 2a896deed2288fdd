"""Transactions in a partition's files: which are open, so that a read_committed reader stops, and which were aborted.

Open ones follow from the newest producer snapshot that can be read and the batches behind it. Aborted ones are in the
transaction indexes, and, for the segment that is being written, also found by walking it: its index may have lost
entries in a crash.

A compaction under way may put another file in the place of a segment between two looks. `aborted_in` therefore
remembers which files its answer is true of (`Aborted.sizes`); who then opens one that differs asks again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tailrace.env import File, Files
from tailrace.model.errors import CorruptMessageError, CorruptSnapshotError, InvalidRecordError
from tailrace.model.offsets import MAX_RELATIVE_OFFSET
from tailrace.record.control import ABORT, control_of
from tailrace.record.shallow import ShallowBatch, next_batch
from tailrace.spark.errors import PipelineError
from tailrace.spark.source.files.headers import headers
from tailrace.spark.source.files.seeking import next_indexed, seek
from tailrace.spark.source.files.segments import Segment, SegmentList, list_segments
from tailrace.storage import producer_snapshot
from tailrace.storage.index_entries import TXN_ENTRY, raw_entries
from tailrace.storage.names import TXN_INDEX_SUFFIX, join, snapshot_name
from tailrace.storage.transaction_index import AbortedTxn

_TRIES: Final = 20


@dataclass
class OpenTransactions:
    """The state just before `next_offset`: producer id → first offset of its open transaction."""

    next_offset: int
    first_offsets: dict[int, int] = field(default_factory=dict)

    def stable_below(self, end: int) -> int:
        """The last stable offset of a log that is committed up to `end`."""
        return min(min(self.first_offsets.values(), default=end), end)

    def advance(self, files: Files, segments: SegmentList, end: int, *, decides: bool = False) -> Iterator[AbortedTxn]:
        """Go on to `end`; gives the transactions that are aborted on the way.

        With `decides` it goes on from there until every transaction that began below `end` has ended.
        FileNotFoundError when a segment goes away: what is played already stays, go on with a new listing.
        """
        for segment in segments.covering(self.next_offset, None if decides else end):
            file = segment.open(files)
            try:
                for position, batch in _batches(files, segment, file, self.next_offset):
                    begins = batch.base_offset if batch.is_v2 else batch.last_offset
                    if begins >= end and not (decides and self.stable_below(end) < end):
                        return
                    aborted = self._play(file, position, batch)
                    self.next_offset = batch.next_offset
                    if aborted is not None:
                        yield aborted
            finally:
                file.close()
        self.next_offset = max(self.next_offset, end)

    def _play(self, file: File, position: int, batch: ShallowBatch) -> AbortedTxn | None:
        if not batch.is_transactional or not batch.has_producer_id:
            return None
        if not batch.is_control:
            self.first_offsets.setdefault(batch.producer_id, batch.base_offset)
            return None
        control = _control_at(file, position, batch)
        if control is None:
            return None
        first_offset = self.first_offsets.pop(batch.producer_id, None)
        if first_offset is None or control != ABORT:
            return None
        return AbortedTxn(batch.producer_id, first_offset, batch.last_offset, self.stable_below(batch.last_offset))


def _control_at(file: File, position: int, batch: ShallowBatch) -> int | None:
    """ABORT or COMMIT; None for anything else, also for a marker that cannot be read."""
    data = file.read_at(batch.size, position)
    try:
        whole = next_batch(data, 0, len(data))
        found = None if whole is None else control_of(data, whole)
    except (CorruptMessageError, InvalidRecordError):
        return None
    return found.type if found is not None and found.ends_transaction else None


def _batches(files: Files, segment: Segment, file: File, start: int) -> Iterator[tuple[int, ShallowBatch]]:
    """Of one segment from `start` on; damage is passed over as far as the index helps."""
    place = seek(files, segment, file, start)
    position: int | None = place.position
    while position is not None:
        try:
            for at, batch in headers(file, position):
                position = at + batch.size
                start = batch.next_offset
                yield at, batch
            return
        except CorruptMessageError:
            behind = next_indexed(files, segment, file, position, start)
            position = None if behind is None else behind.position


def open_transactions(files: Files, segments: SegmentList, limit: int) -> OpenTransactions:
    """From the newest good snapshot at or below `limit`; from the first segment's beginning where there is none."""
    first = segments.first
    for offset in reversed(segments.snapshots):
        if first is None or offset > limit:
            continue
        try:
            entries = producer_snapshot.read(files, join(first.folder, snapshot_name(offset)))
        except (CorruptSnapshotError, FileNotFoundError):
            continue
        begun = {each.producer_id: each.txn_first_offset for each in entries if each.txn_first_offset is not None}
        return OpenTransactions(offset, begun)
    return OpenTransactions(first.base_offset if first is not None else limit)


class Aborted(NamedTuple):
    """The aborted transactions of a range by first offset, and the files that this is true of."""

    transactions: tuple[AbortedTxn, ...] = ()
    sizes: frozenset[tuple[str, int]] = frozenset()

    def is_true_of(self, segment: Segment, file: File) -> bool:
        """The segment that is being written only grows."""
        return segment.behind is None or (segment.path, file.size()) in self.sizes


def aborted_in(files: Files, folder: str, start: int, end: int) -> tuple[SegmentList, Aborted]:
    """The aborted transactions that have offsets from `start` to just before `end`, which is stable.

    FileNotFoundError when the folder is gone.
    """
    for _ in range(_TRIES):
        segments = list_segments(files, folder)
        try:
            sizes = _sizes(files, segments, start)
            found = _collect(files, segments, start, end)
            if _sizes(files, list_segments(files, folder), start) == sizes:
                return segments, Aborted(tuple(sorted(found, key=lambda each: each.first_offset)), sizes)
        except FileNotFoundError:
            continue
    raise PipelineError(f"the files of {folder} change faster than they can be looked through")


def _sizes(files: Files, segments: SegmentList, start: int) -> frozenset[tuple[str, int]]:
    closed = [segment for segment in segments.covering(start) if segment.behind is not None]
    return frozenset((segment.path, files.size(segment.path)) for segment in closed)


def _collect(files: Files, segments: SegmentList, start: int, end: int) -> set[AbortedTxn]:
    found: set[AbortedTxn] = set()
    doubtful: Segment | None = None
    for segment in segments.covering(start):
        noted, is_all, is_good = _noted_in(files, segment, end)
        found.update(noted)
        if not is_good or (segment.behind is None and segment.base_offset < end):
            doubtful = doubtful or segment
        if is_all:
            break
    if doubtful is not None:
        found.update(_walked(files, segments, doubtful, end))
    # What an index says and what was walked may differ in the last stable offset.
    distinct = {(each.producer_id, each.first_offset): each for each in found}
    return {each for each in distinct.values() if each.last_offset >= start and each.first_offset < end}


def _noted_in(files: Files, segment: Segment, end: int) -> tuple[list[AbortedTxn], bool, bool]:
    """The entries of one index; whether no later one can begin below `end`; whether all of it makes sense."""
    index = segment.open_index(files, TXN_INDEX_SUFFIX)
    if index is None:
        return [], False, True
    noted: list[AbortedTxn] = []
    try:
        for entry in raw_entries(index, TXN_ENTRY):
            version, *fields = entry.fields
            aborted = AbortedTxn(*fields)
            if version or not _makes_sense(segment, aborted):
                return noted, False, False
            noted.append(aborted)
        # All of it is looked at first: what stands behind an entry may show that it is not to be believed either.
        is_good = len(noted) * TXN_ENTRY.size == index.size()
        return noted, is_good and any(each.last_stable_offset >= end for each in noted), is_good
    finally:
        index.close()


def _makes_sense(segment: Segment, aborted: AbortedTxn) -> bool:
    behind = segment.behind or segment.base_offset + MAX_RELATIVE_OFFSET
    ends_here = segment.base_offset <= aborted.last_offset < behind
    begins_before = 0 <= aborted.first_offset < aborted.last_offset
    is_stable = 0 <= aborted.last_stable_offset <= aborted.last_offset + 1
    return aborted.producer_id >= 0 and ends_here and begins_before and is_stable


def _walked(files: Files, segments: SegmentList, first: Segment, end: int) -> Iterator[AbortedTxn]:
    """Those that end in `first` or behind it, as the batches say. All that began below `end`, which is stable."""
    state = open_transactions(files, segments, first.base_offset)
    yield from state.advance(files, segments, max(end, first.behind or end), decides=True)
