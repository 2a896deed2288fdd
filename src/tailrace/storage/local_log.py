"""The segments of one log on this disk, its end offset and its recovery point.

Knows files and offsets; knows nothing of producers, epochs or watermarks.

Crash rules. Everything below `recovery_point` is durable: it moves only when an fsync of all segments up to it has
returned, and goes back when a truncation cuts below it. Names of new files are synced with the first flush that
covers them.

A crash in the middle of a truncation leaves a prefix of what was there. Before the first step, the caller has made a
recovery point durable that is not above the cut (or the log start, where the log starts over), and producer snapshots
above the cut are durably gone. Then a load takes a gap between segments above the cut for a loss, and drops what
follows it. So all segments that go are renamed first and then made durable by one sync of the directory. Where a load
accepts gaps, because the log compacts or has been compacted, they go newest first, each durably before the next. The
first segment of a log that starts over goes after all others, and the file of the last segment that stays is cut after
the others are durably gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from tailrace.env import Buffer
from tailrace.model.errors import OffsetOutOfRangeError, SegmentGoneError
from tailrace.model.invariant import invariant
from tailrace.model.offsets import LogOffsetMetadata
from tailrace.record.batch_run import BatchRun
from tailrace.record.shallow import ShallowBatch
from tailrace.storage import names
from tailrace.storage.fetch import FetchData
from tailrace.storage.segment import LogSegment, SegmentPlace
from tailrace.storage.segments import LogSegments
from tailrace.storage.steps import Steps
from tailrace.storage.swap import delete_later, retire, retire_data, retire_indexes
from tailrace.storage.transaction_index import AbortedTxn


class FlushWork(NamedTuple):
    """An fsync to be done: `run` on any thread, then `LocalLog.flushed` with it on the owner's."""

    recovery_point: int
    truncations: int
    names_changed: int
    rolled: tuple[LogSegment, ...]
    run: Callable[[], None]


class LocalLog:
    """Owned by one UnifiedLog; `read` alone may be called from other threads."""

    def __init__(
        self,
        place: SegmentPlace,
        segments: LogSegments,
        end_offset: int,
        recovery_point: int,
        finished: Iterable[LogSegment] = (),
        *,
        may_have_gaps: bool = False,
    ) -> None:
        """`finished` are segments that a process before this one finished and may not have synced since.

        `may_have_gaps` says that the log has been compacted: a load takes a gap between its segments as it is.
        """
        active = segments.active
        invariant(active is not None, "a log has at least one segment")
        assert active is not None
        self.place = place
        self.segments = segments
        self.active = active
        self._ends_at(end_offset)
        self.data_end = end_offset
        """Behind the last batch: below the end offset where a truncation cut through a batch."""
        self.recovery_point = recovery_point
        self.may_have_gaps = may_have_gaps
        self.last_flushed_ms = place.env.clock.now_ms()
        self._names_changed = 1
        self._names_synced = 0
        """Up to which change the names in the directory are durable."""
        self._truncations = 0
        self._rolled = list(finished)
        """Segments whose indexes were finished since they were last synced."""

    def _ends_at(self, offset: int) -> None:
        """The log ends here. Readers see it in one step, once everything below it stands and will not be undone."""
        self.end_offset = offset
        self.end = LogOffsetMetadata(offset, self.active.base_offset, self.active.size)
        """The end offset with the place where the next batch goes."""

    @property
    def truncations(self) -> int:
        """How often the log was cut: whoever remembers something of it sees whether that may be void."""
        return self._truncations

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    def append(self, batches: Sequence[ShallowBatch], parts: Sequence[Buffer], total_bytes: int) -> None:
        """Write to the active segment and advance the end offset; on an error neither has happened."""
        self.active.append(batches, parts, total_bytes)
        self.data_end = batches[-1].last_offset + 1
        self._ends_at(self.data_end)

    def append_run(self, run: BatchRun, data: Buffer) -> None:
        """The same for batches that are exactly `data`, by a kernel."""
        self.active.append_run(run, data)
        self.data_end = run.next_offset
        self._ends_at(self.data_end)

    # Reading

    def read(self, offset: int, max_bytes: int, bound: LogOffsetMetadata, min_one_message: bool) -> FetchData:
        """The first data at or after `offset` and below `bound`, which must know its position.

        OffsetOutOfRangeError beyond the end or below the first segment; empty between the bound and the end.
        """
        end = self.end
        segment = self.segments.floor(offset)
        if offset > end.offset or segment is None:
            first = self.segments.first
            raise OffsetOutOfRangeError(
                f"offset {offset} is outside {first.base_offset if first else end.offset}…{end.offset} "
                f"of {self.place.dir}"
            )
        while segment is not None and offset < bound.offset and segment.base_offset <= bound.segment_base:
            is_last = segment.base_offset == bound.segment_base
            found = segment.read(offset, max_bytes, bound.position if is_last else segment.size, min_one_message)
            if found is not None:
                return found
            segment = self.segments.higher(segment.base_offset)
        return FetchData(LogOffsetMetadata(offset), None)

    def locate(self, offset: int) -> LogOffsetMetadata:
        """Where the offset's bytes are or will be; without position when the log does not reach there."""
        end = self.end
        if offset == end.offset:
            return end
        if offset > end.offset:
            return LogOffsetMetadata(offset)
        for segment in self.segments.covering(offset):
            found = segment.translate(offset)
            if found is not None:
                return LogOffsetMetadata(offset, segment.base_offset, found[0])
        return end._replace(offset=offset)

    def aborted_in(self, found: FetchData) -> tuple[AbortedTxn, ...]:
        """The aborted transactions that overlap the slice, from as many segments as it takes."""
        if found.records is None:
            return ()
        segment = self.segments.floor(found.start.segment_base)
        if segment is None:
            return ()
        upper_bound = segment.offset_behind(found.start.position + found.records.size)
        if upper_bound is None:
            following = self.segments.higher(segment.base_offset)
            upper_bound = following.base_offset if following is not None else self.end_offset
        return self.aborted_transactions(found.start.offset, upper_bound)

    def aborted_transactions(self, start: int, end: int) -> tuple[AbortedTxn, ...]:
        """Every aborted transaction that overlaps `start` ≤ offset < `end`."""
        collected: list[AbortedTxn] = []
        for segment in self.segments.covering(start):
            aborted, is_complete = segment.txn_index.collect(start, end)
            collected.extend(aborted)
            if is_complete:
                break
        return tuple(collected)

    # Rolling

    def roll(self, at_least: int = 0) -> LogSegment:
        """Make a new active segment at the end offset, or at `at_least` where that is greater (a gap), which then
        is the end offset, as it would be after a restart.

        An empty active segment of the same base is made anew: a tiny index can be full while it is empty.
        """
        base = max(at_least, self.end_offset)
        old = self.active
        if base == old.base_offset:
            invariant(old.size == 0, f"cannot roll {old!r} onto its own base offset")
            new = LogSegment.create(self.place, base)
            old.is_deleted = True  # its files are the new one's now
            old.release()
        else:
            invariant(base > old.base_offset, f"new segment {base} would stand before the active {old.base_offset}")
            new = self._create(base)
            try:
                old.become_inactive()
            except OSError:
                new.delete()
                raise
            self._rolled.append(old)
        self.names_change()
        self.segments.add(new)
        self.active = new
        self.data_end = base
        self._ends_at(base)
        return new

    def _create(self, base_offset: int) -> LogSegment:
        try:
            return LogSegment.create(self.place, base_offset)
        except OSError:
            self._sweep(base_offset)
            raise

    def _sweep(self, base_offset: int) -> None:
        """Remove what a failed creation left, as far as the disk lets us."""
        files = self.place.env.files
        for name in (names.log_name, names.offset_index_name, names.time_index_name):
            path = self.place.path(name(base_offset))
            try:
                if files.exists(path):
                    files.unlink(path)
            except OSError:
                continue

    # Flushing

    def flush_work(self, offset: int, *, recovery_limit: int | None = None, force: bool = False) -> FlushWork | None:
        """What must be synced so that everything below `offset` is durable; None when it is already.

        The recovery point will not pass `recovery_limit`. Segments rolled since they were last synced are among it
        even where all their data is durable: the final trim of their files is not. `force` also takes the active
        segment, finished at close.
        """
        rolled = tuple(self._rolled)
        if offset <= self.recovery_point and not force and not rolled:
            return None
        unflushed = self.segments.covering(self.recovery_point, offset + 1)
        segments = tuple(dict.fromkeys((*rolled, *unflushed)))
        files, directory = self.place.env.files, self.place.dir
        names_changed = self._names_changed

        def run() -> None:
            for segment in segments:
                if segment.is_deleted:
                    continue
                try:
                    segment.sync()
                except SegmentGoneError:
                    if not segment.is_deleted:
                        raise
            if names_changed > self._names_synced:
                files.sync_dir(directory)

        recovery_point = offset if recovery_limit is None else min(offset, recovery_limit)
        return FlushWork(recovery_point, self._truncations, names_changed, rolled, run)

    def sync_names(self) -> None:
        """Make the names in the directory durable. Runs on any thread."""
        self.place.env.files.sync_dir(self.place.dir)

    @property
    def names_changed(self) -> int:
        """How often names in the directory have changed."""
        return self._names_changed

    def flushed(self, work: FlushWork) -> None:
        """An fsync has returned. One that began before a truncation says nothing of what was written since."""
        self.last_flushed_ms = self.place.env.clock.now_ms()
        self._names_synced = max(self._names_synced, work.names_changed)
        if work.truncations == self._truncations:
            self.recovery_point = max(self.recovery_point, work.recovery_point)
            self._rolled = [segment for segment in self._rolled if segment not in work.rolled]

    def names_change(self) -> None:
        """A file is made, renamed or unlinked: the next flush syncs the directory too."""
        self._names_changed += 1

    # Removing

    def cut_off(self, offset: int) -> Steps[None]:
        """Drop everything from `offset` on: in memory now, on the disk in the steps returned.

        CorruptMessageError when damage hides where that is; nothing has changed then. See the crash rules of the module
        for what must be durable before the first step. After the last one the caller syncs the directory if
        `names_changed` has risen, and only then appends again.
        """
        active = self.segments.floor(offset)
        invariant(active is not None, f"no segment of {self.place.dir} reaches down to {offset}")
        assert active is not None
        position = active.position_to_cut(offset)  # raises for damage while nothing is gone yet
        self._truncations += 1
        dropped = [segment for segment in self.segments if segment.base_offset > offset]
        for segment in dropped:
            segment.is_deleted = True
        self.segments.remove(dropped)
        if dropped:
            active.become_active()
        active.forget_from(offset, position)
        self.active = active
        self._ends_at(offset)
        self.data_end = active.next_offset()
        self.recovery_point = min(self.recovery_point, offset)
        return self._cutting_off(dropped, active)

    def _cutting_off(self, dropped: list[LogSegment], active: LogSegment) -> Steps[None]:
        yield from self._removing(dropped)
        yield active.records.cut_file()
        active.records.end_cut()

    def start_over(self, offset: int) -> Steps[None]:
        """Drop every segment and begin again, empty, at `offset`: in memory now, on the disk in the steps returned.

        As `cut_off`. The new segment has the suffix `.cleaned`, which a load removes, until the old ones are gone.
        """
        fresh = LogSegment.create(self.place, offset, names.CLEANED_SUFFIX)
        self._truncations += 1
        dropped = list(self.segments)
        for segment in dropped:
            segment.is_deleted = True
        self.segments.swap(dropped, (fresh,))
        self.active = fresh
        self.data_end = offset
        self._ends_at(offset)
        self.recovery_point = min(self.recovery_point, offset)
        return self._starting_over(dropped, fresh)

    def _starting_over(self, dropped: list[LogSegment], fresh: LogSegment) -> Steps[None]:
        yield from self._removing(dropped[1:])
        yield from self._removing(dropped[:1])
        fresh.change_index_suffix(names.CLEANED_SUFFIX, "")
        fresh.records.change_suffix(names.CLEANED_SUFFIX, "")
        self.names_change()

    def _removing(self, dropped: Sequence[LogSegment]) -> Steps[None]:
        """Rename the files of segments that have left the log, newest first; the data is durably gone at the end.

        See the crash rules of the module for how many go at a time.
        """
        newest_first = list(reversed(dropped))
        is_gap_lost = not self.may_have_gaps and not self.place.config.compacts
        runs = [newest_first] if is_gap_lost and newest_first else [[segment] for segment in newest_first]
        for run in runs:
            retire_data(run)
            self.names_change()
            yield self.sync_names
            retire_indexes(run)
        delete_later(self.place, newest_first)

    def remove(self, segments: Iterable[LogSegment]) -> None:
        """Out of the log at once, files renamed `.deleted`, unlinked after `file.delete.delay.ms`."""
        gone = sorted(segments, key=lambda segment: segment.base_offset, reverse=True)
        if not gone:
            return
        self.segments.remove(gone)
        retire(self.place, gone)
        self.names_change()
        delete_later(self.place, gone)

    def moved_to(self, directory: str) -> None:
        """The directory was renamed. Files on their way out are found and unlinked by the next load."""
        self.place = replace(self.place, dir=directory)
        for segment in self.segments:
            segment.moved_to(self.place)

    def finish(self) -> None:
        """Finish the active segment as if it were rolled; the others were finished when they were."""
        self.active.become_inactive()

    def release(self) -> None:
        """Let go of every handle without writing anything."""
        for segment in self.segments:
            segment.release()
