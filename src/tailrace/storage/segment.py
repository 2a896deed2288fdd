"""One segment: a data file with its offset, time and transaction index, all named by the base offset.

Indexes are hints. A lookup that finds its index contradicting the data rebuilds both indexes from the data and
looks again; no index error ever reaches a reader.

The owner of the log appends, cuts and renames; any thread may call `translate` and `read`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from tailrace.config.log import LogConfig
from tailrace.env import Buffer, Env
from tailrace.model.errors import (
    CorruptIndexError,
    CorruptMessageError,
    SegmentGoneError,
    SegmentOffsetOverflowError,
    TailraceError,
)
from tailrace.model.ids import NO_TIMESTAMP
from tailrace.model.offsets import MAX_RELATIVE_OFFSET, LogOffsetMetadata, TimestampOffset
from tailrace.record.batch import HEADER_BYTES
from tailrace.record.batch_run import BatchRun
from tailrace.record.shallow import ShallowBatch, next_batch
from tailrace.storage import names
from tailrace.storage.fetch import FetchData, LogSlice
from tailrace.storage.index import SparseIndex
from tailrace.storage.log_walk import is_zero_from
from tailrace.storage.offset_index import OffsetIndex
from tailrace.storage.records_file import RecordsFile
from tailrace.storage.time_index import TimeIndex
from tailrace.storage.transaction_index import AbortedTxn, TransactionIndex
from tailrace.storage.warm import WarmSet

NOTHING_SO_FAR: Final = NO_TIMESTAMP


@dataclass(frozen=True, slots=True)
class SegmentPlace:
    """Where the segments of one log live and how they open: shared by all of them."""

    env: Env
    dir: str
    config: LogConfig
    warm: WarmSet

    def path(self, name: str) -> str:
        return f"{self.dir}/{name}"


class LogSegment:
    """Holds the batches with base_offset ≤ offset < base of the next segment.

    `largest` is the largest timestamp of the segment with the last offset of the first batch that has it.
    """

    __slots__ = (
        "_bytes_since_index_entry",
        "_first_timestamp",
        "_indexes_are_checked",
        "_indexes_are_fresh",
        "_largest",
        "_largest_found",
        "_mending",
        "_place",
        "base_offset",
        "created_ms",
        "is_deleted",
        "offset_index",
        "records",
        "roll_jitter_ms",
        "time_index",
        "txn_index",
    )

    def __init__(self, place: SegmentPlace, base_offset: int, records: RecordsFile, suffix: str = "") -> None:
        files, warm = place.env.files, place.warm
        self._place = place
        self.base_offset = base_offset
        self.records = records
        index_bytes = place.config.segment_index_bytes
        self.offset_index = OffsetIndex(
            files, place.path(names.offset_index_name(base_offset) + suffix), base_offset, index_bytes, warm
        )
        self.time_index = TimeIndex(
            files, place.path(names.time_index_name(base_offset) + suffix), base_offset, index_bytes, warm
        )
        self.txn_index = TransactionIndex(files, place.path(names.txn_index_name(base_offset) + suffix), base_offset)
        self.created_ms = place.env.clock.now_ms()
        jitter_ms = min(place.config.segment_jitter_ms, place.config.segment_ms)
        self.roll_jitter_ms = place.env.random.randrange(jitter_ms) if jitter_ms else 0
        self.is_deleted = False
        self._bytes_since_index_entry = 0
        self._largest: TimestampOffset | None = None
        self._largest_found: tuple[tuple[int, int], TimestampOffset] | None = None
        self._first_timestamp: int | None = None
        self._mending = threading.Lock()  # two readers may find the same damage
        self._indexes_are_checked = False
        self._indexes_are_fresh = False  # made from the data by us: where they disagree, it is the data that is damaged

    @classmethod
    def create(cls, place: SegmentPlace, base_offset: int, suffix: str = "") -> LogSegment:
        """A new, empty segment, ready to be active; files of that name are replaced."""
        config = place.config
        for name in (names.offset_index_name, names.time_index_name, names.txn_index_name):
            path = place.path(name(base_offset) + suffix)
            if place.env.files.exists(path):
                place.env.files.unlink(path)
        records = RecordsFile.create(
            place.env.files,
            place.path(names.log_name(base_offset) + suffix),
            place.warm,
            preallocate_bytes=config.segment_bytes if config.preallocate else 0,
        )
        segment = cls(place, base_offset, records, suffix)
        segment.offset_index.preallocate()
        segment.time_index.preallocate()
        segment._largest = TimestampOffset(NOTHING_SO_FAR, base_offset)
        segment._indexes_are_checked = True
        return segment

    @classmethod
    def open(cls, place: SegmentPlace, base_offset: int, suffix: str = "") -> LogSegment:
        """A segment that is on disk; nothing but the size of its data file is looked at."""
        path = place.path(names.log_name(base_offset) + suffix)
        records = RecordsFile(place.env.files, path, place.warm, size=place.env.files.size(path))
        return cls(place, base_offset, records, suffix)

    def __repr__(self) -> str:
        return f"LogSegment({self.records.path}, {self.size} bytes)"

    @property
    def size(self) -> int:
        return self.records.size

    @property
    def largest(self) -> TimestampOffset:
        """Any thread may ask. Only the owner sets `_largest`; what others found holds until the data changes."""
        known = self._largest
        if known is not None:
            return known
        version = (self.records.cuts, self.records.size)
        if self._largest_found is None or self._largest_found[0] != version:
            self._largest_found = (version, self._find_largest())
        return self._largest_found[1]

    @property
    def first_timestamp(self) -> int:
        """Of the first batch; −1 while there is none."""
        if self._first_timestamp is None and self.size:
            for _, batch in self.records.headers(0):
                self._first_timestamp = batch.max_timestamp
                break
        return NO_TIMESTAMP if self._first_timestamp is None else self._first_timestamp

    def can_hold(self, offset: int) -> bool:
        """Whether the offset fits an int32 relative to the base."""
        return 0 <= offset - self.base_offset <= MAX_RELATIVE_OFFSET

    def age_for_roll_ms(self, now_ms: int, message_timestamp: int) -> int:
        """From the first batch's timestamp to the new message's, else from creation to now."""
        first = self.first_timestamp
        if first >= 0:
            return message_timestamp - first
        return now_ms - self.created_ms

    def should_roll(self, config: LogConfig, now_ms: int, append_bytes: int, timestamp: int, last_offset: int) -> bool:
        """Whether an append must go to a new segment. `timestamp` and `last_offset` are the append's largest."""
        size = self.records.size
        return (
            size > config.segment_bytes - append_bytes
            or (size > 0 and self.age_for_roll_ms(now_ms, timestamp) > config.segment_ms - self.roll_jitter_ms)
            or self.offset_index.is_full
            or self.time_index.is_full
            or not self.can_hold(last_offset)
        )

    def append(self, batches: Sequence[ShallowBatch], parts: Sequence[Buffer], total_bytes: int) -> None:
        """Write `parts`, which are exactly `batches`, in one call, and index them.

        On any error nothing of it is in the segment: bytes already written are cut off again.
        """
        last_offset = batches[-1].last_offset
        if last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            raise SegmentOffsetOverflowError(
                f"offset {last_offset} is too far from the base {self.base_offset} of its segment"
            )
        records = self.records
        position = records.size
        try:
            records.append(parts, total_bytes)
            self.index(batches, position)
        except (OSError, TailraceError):
            self._undo_append(position, batches[0].last_offset)
            raise
        if position == 0:
            self._first_timestamp = batches[0].max_timestamp

    def append_run(self, run: BatchRun, data: Buffer) -> None:
        """`append` for many batches at a time, at least one; they are exactly `data`."""
        if run.next_offset - 1 - self.base_offset > MAX_RELATIVE_OFFSET:
            raise SegmentOffsetOverflowError(
                f"offset {run.next_offset - 1} is too far from the base {self.base_offset} of its segment"
            )
        position = self.records.size
        try:
            self.records.append((data,), len(data))
            self.index_run(run, position)
        except (OSError, TailraceError):
            self._undo_append(position, run.last_offset(0))
            raise
        if position == 0:
            self._first_timestamp = run.max_timestamp(0)

    def index(self, batches: Sequence[ShallowBatch], position: int) -> None:
        """Enter batches that stand in the file one behind the other from `position` on."""
        largest = self._largest
        if largest is None:
            self._largest = largest = self.largest
        largest_timestamp, offset_of_largest = largest
        since = self._bytes_since_index_entry
        interval = self._place.config.index_interval_bytes
        offset_index, time_index = self.offset_index, self.time_index
        try:
            for batch in batches:
                if batch.max_timestamp > largest_timestamp:
                    largest_timestamp, offset_of_largest = batch.max_timestamp, batch.last_offset
                # A full index takes no more: the next append rolls, and a longer scan is all that this one costs.
                if since > interval and not (offset_index.is_full or time_index.is_full):
                    offset_index.append(batch.last_offset, position)
                    time_index.maybe_append(largest_timestamp, offset_of_largest)
                    since = 0
                since += batch.size
                position += batch.size
        finally:
            self._bytes_since_index_entry = since
            if largest_timestamp != largest.timestamp:
                self._largest = TimestampOffset(largest_timestamp, offset_of_largest)

    def index_run(self, run: BatchRun, position: int) -> None:
        """`index` for many batches at a time, at least one; the last of them must begin at an int32."""
        offset_index, time_index = self.offset_index, self.time_index
        found = run.entries(
            position,
            base_offset=self.base_offset,
            interval_bytes=self._place.config.index_interval_bytes,
            since_entry_bytes=self._bytes_since_index_entry,
            largest=self.largest,
            last_indexed_timestamp=time_index.last_entry.timestamp,
            offset_room=offset_index.max_entries - offset_index.entries,
            time_room=time_index.max_entries - 1 - time_index.entries,
        )
        offset_index.extend(found.offset_entries)
        time_index.extend(found.time_entries)
        self._bytes_since_index_entry = found.since_entry_bytes
        self._largest = found.largest

    def _undo_append(self, position: int, first_offset: int) -> None:
        self.records.has_waste = True  # until the cut has succeeded, whatever fails before it
        self._forget_from(first_offset)
        self.records.cut(position)

    def add_aborted(self, aborted: AbortedTxn) -> None:
        self.txn_index.append(aborted)

    def translate(self, offset: int, from_position: int = 0) -> tuple[int, ShallowBatch] | None:
        """Place and header of the first batch whose last offset is at least `offset`; None when there is none."""
        cuts = self.records.cuts
        try:
            self._check_indexes()
            return self._translate(offset, from_position)
        except CorruptIndexError:
            self.mend_indexes(cuts)
            return self._translate(offset, from_position)

    def _translate(self, offset: int, from_position: int) -> tuple[int, ShallowBatch] | None:
        if offset <= self.base_offset:  # whoever reads on from the segment before: nothing has to be looked up
            indexed_offset, indexed_position = self.base_offset, 0
        else:
            indexed_offset, indexed_position = self.offset_index.lookup(offset)
        start = max(indexed_position, from_position)
        if indexed_position and indexed_position >= self.records.size:
            raise CorruptIndexError(f"{self.offset_index.path} points beyond the end of {self.records.path}")
        position = -1
        try:
            for position, batch in self.records.headers(start):
                if position == indexed_position and position and batch.last_offset > indexed_offset:
                    raise CorruptIndexError(f"{self.offset_index.path} points at no batch of offset {indexed_offset}")
                if batch.last_offset >= offset:
                    return position, batch
        except CorruptMessageError as error:
            if indexed_position and not self._indexes_are_fresh:
                raise CorruptIndexError(f"{self.offset_index.path}: {error}") from error
            raise
        if position < 0 and 0 < start == indexed_position:
            raise CorruptIndexError(f"{self.offset_index.path} points at no whole batch of {self.records.path}")
        return None

    def read(self, offset: int, max_bytes: int, max_position: int, min_one_message: bool) -> FetchData | None:
        """A slice from the batch that holds `offset` up to `max_position`; None when the segment has no such batch."""
        cuts = self.records.cuts
        found = self.translate(offset)
        if found is None:
            return None
        position, batch = found
        start = LogOffsetMetadata(offset, self.base_offset, position)
        wanted = max(max_bytes, batch.size) if min_one_message else max_bytes
        # A bound from before a truncation may lie behind the present end, where other bytes come to stand.
        size = min(max_position - position, self.records.size - position, wanted)
        if size <= 0:
            return FetchData(start, None)
        records = LogSlice(self.records, self.records.file, position, size, cuts)
        return FetchData(start, records, first_entry_incomplete=wanted < batch.size)

    def offset_behind(self, position: int) -> int | None:
        """An offset that the offset index has at or behind `position`; None when it has none there.

        Everything before `position` is below it. An entry is believed when the batch it speaks of stands in its
        place: a lower offset would hide what lies between.
        """
        cuts = self.records.cuts
        try:
            return self._offset_behind(position)
        except CorruptIndexError:
            self.mend_indexes(cuts)
            return self._offset_behind(position)

    def _offset_behind(self, position: int) -> int | None:
        entry = self.offset_index.first_from(position)
        if entry is None:
            return None
        header = self.records.read(entry.position, HEADER_BYTES)
        try:
            batch = next_batch(header, 0, self.records.size - entry.position) if len(header) == HEADER_BYTES else None
        except CorruptMessageError:
            batch = None
        if batch is None or batch.last_offset != entry.offset:
            raise CorruptIndexError(f"{self.offset_index.path} points at no batch of offset {entry.offset}")
        return entry.offset

    def next_offset(self) -> int:
        """The offset after the last batch, or the base of an empty segment."""
        return self.tail()[0]

    def tail(self) -> tuple[int, int]:
        """The offset after the last whole batch, and the position behind it. CorruptMessageError for a damaged end."""
        try:
            self._check_indexes()
            return self._tail(self.offset_index.last_position)
        except (CorruptIndexError, CorruptMessageError):
            self.rebuild_indexes()
            return self._tail(self.offset_index.last_position)

    def walk_to_end(self) -> int:
        """`next_offset`, from the first batch on, for a segment that is not in a log yet."""
        return self._tail(0)[0]

    def _tail(self, indexed_position: int) -> tuple[int, int]:
        following, end = self.base_offset, indexed_position
        for position, batch in self.records.headers(indexed_position):
            if batch.last_offset < following:
                raise CorruptMessageError(f"{self!r} goes from offset {following} back to {batch.last_offset}")
            following, end = batch.next_offset, position + batch.size
        if 0 < end == indexed_position:
            raise CorruptIndexError(f"{self.offset_index.path} points at no whole batch of {self.records.path}")
        return following, end

    def cut_zeros_off(self) -> None:
        """Cut off, durably, what a preallocation left behind the last batch: lost power may undo a roll's trim.

        Only for a segment all of whose batches are durable: zeros could stand for a batch that was lost.
        """
        end = self.offset_index.last_position
        try:
            for position, batch in self.records.headers(end):
                end = position + batch.size
        except CorruptMessageError:
            pass  # so it goes with zeros; other bytes are damage, which readers will be told of
        if end < self.records.size and is_zero_from(self.records.file, end):
            self.records.cut(end)

    def position_to_cut(self, offset: int) -> int:
        """Where the batches end that lie below `offset`; CorruptMessageError when damage hides that.

        A torn end is not kept: it would hide what is appended behind it.
        """
        found = self.translate(offset)
        return self.tail()[1] if found is None else found[0]

    def cut_at(self, offset: int) -> int:
        """Drop every batch that holds `offset` or more, durably; returns how many bytes went."""
        position, size = self.position_to_cut(offset), self.records.size
        self.forget_from(offset, position)
        self.records.cut_file()()
        self.records.end_cut()
        return size - position

    def forget_from(self, offset: int, position: int) -> None:
        """The first part of `cut_at`, see `RecordsFile`; `position` is the `position_to_cut` of `offset`."""
        self._forget_from(offset)
        self.offset_index.preallocate()
        self.time_index.preallocate()
        self.records.forget_from(position)
        if position == 0:
            self.created_ms = self._place.env.clock.now_ms()

    def _forget_from(self, offset: int) -> None:
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        self._bytes_since_index_entry = 0
        self._largest = None
        self._first_timestamp = None

    def _find_largest(self) -> TimestampOffset:
        """The time index knows everything up to the last offset entry; what follows is scanned."""
        cuts = self.records.cuts
        try:
            self._check_indexes()
            largest = self.time_index.last_entry
            position = self.offset_index.last_position
            for _, batch in self.records.headers(position):
                if batch.max_timestamp > largest.timestamp:
                    largest = TimestampOffset(batch.max_timestamp, batch.last_offset)
        except (CorruptIndexError, CorruptMessageError):
            self.mend_indexes(cuts)
            return self._largest or TimestampOffset(NOTHING_SO_FAR, self.base_offset)
        return largest

    def check_indexes_to(self, end: int) -> None:
        """Make sure that no index speaks of offsets from `end` on, where the segment ends; else rebuild it, or cut it.

        For the segment just below the recovery point: its data is durable, but a final trim of its indexes, or
        what a truncation took from them, may have been lost with the power. And for one that takes appends: it
        could not enter them behind an entry that is greater.
        """
        try:
            self._check_indexes()
            if max(self.offset_index.last_offset, self.time_index.last_offset) >= end > self.base_offset:
                raise CorruptIndexError(f"the indexes of {self!r} reach beyond offset {end}")
        except CorruptIndexError:
            self.rebuild_indexes()
        self.txn_index.truncate_to(end)

    def _check_indexes(self) -> None:
        """Once, before the first lookup in files that were found on disk."""
        if not self._indexes_are_checked:
            self.offset_index.sanity_check(self.records.size)
            self.time_index.sanity_check()
            if self.offset_index.entries and not self.time_index.entries and self.first_timestamp >= 0:
                raise CorruptIndexError(f"{self.time_index.path} is empty, although {self.records.path} has timestamps")
            self._indexes_are_checked = True

    def mend_indexes(self, cuts: int) -> None:
        """Rebuild indexes that contradict the data; SegmentGoneError when a cut since `cuts` explains it."""
        with self._mending:
            if self.records.cuts != cuts:
                raise SegmentGoneError(f"{self.records.path} was truncated while it was searched") from None
            self.rebuild_indexes()

    def rebuild_indexes(self) -> None:
        """Make both sparse indexes anew from the headers, as far as these are sound.

        They are durable before they take the place of the old ones: nobody looks at them again after a crash.
        """
        old: tuple[SparseIndex[Any], ...] = (self.offset_index, self.time_index)
        files, warm, room = self._place.env.files, self._place.warm, self._place.config.segment_index_bytes
        temporary = [index.path + names.TEMPORARY_SUFFIX for index in old]
        self.offset_index = OffsetIndex(files, temporary[0], self.base_offset, room, warm, entries=0)
        self.time_index = TimeIndex(files, temporary[1], self.base_offset, room, warm, entries=0)
        self.reset_indexes()
        try:
            following = self.base_offset
            for position, batch in self.records.headers(0):
                if batch.last_offset < following or not self.can_hold(batch.last_offset):
                    break  # damaged, or to be split by the load; reads go on from the last entry
                self.index((batch,), position)
                following = batch.next_offset
        except CorruptMessageError:
            pass  # what cannot be walked cannot be indexed; reads up to there go on
        self.finish_indexes()
        fresh: tuple[SparseIndex[Any], ...] = (self.offset_index, self.time_index)
        for before, index in zip(old, fresh, strict=True):
            index.sync()
            index.rename_to(before.path)
            before.release()
        files.sync_dir(self._place.dir)

    def drop_indexes(self) -> None:
        """Remove the files of both sparse indexes, durably; lookups walk the data until they are rebuilt."""
        files, warm, room = self._place.env.files, self._place.warm, self._place.config.segment_index_bytes
        old = (self.offset_index, self.time_index)
        self.offset_index = OffsetIndex(files, old[0].path, self.base_offset, room, warm)
        self.time_index = TimeIndex(files, old[1].path, self.base_offset, room, warm)
        for index in old:
            index.delete()
        files.sync_dir(self._place.dir)

    def reset_indexes(self) -> None:
        """Empty offset and time index, to be filled by `index` and ended by `finish_indexes`."""
        self.offset_index.reset()
        self.time_index.reset()
        self._largest = TimestampOffset(NOTHING_SO_FAR, self.base_offset)
        self._bytes_since_index_entry = 0
        self._indexes_are_checked = self._indexes_are_fresh = True

    def finish_indexes(self) -> None:
        largest = self.largest
        self.time_index.maybe_append(largest.timestamp, largest.offset, skip_full_check=True)
        self.offset_index.trim()
        self.time_index.trim()

    def become_active(self) -> None:
        """Ready a loaded segment for appends: full-length indexes."""
        self.offset_index.preallocate()
        self.time_index.preallocate()

    def become_inactive(self) -> None:
        """Record the true largest timestamp in the slot kept for it, give back preallocated space."""
        self.finish_indexes()
        self.records.trim()
        self.records.unpin()

    def sync(self) -> None:
        """Make data and indexes durable. Runs on any thread."""
        self.records.sync()
        self.offset_index.sync()
        self.time_index.sync()
        self.txn_index.sync()

    def change_index_suffix(self, old: str, new: str) -> None:
        """Rename the indexes from one suffix to another; those that do not exist are passed over."""
        for index in (self.offset_index, self.time_index, self.txn_index):
            index.rename_to(index.path.removesuffix(old) + new)

    def moved_to(self, place: SegmentPlace) -> None:
        """The directory was renamed; what is open stays open."""
        self._place = place
        self.records.path = place.path(names.log_name(self.base_offset))
        self.offset_index.moved_to(place.path(names.offset_index_name(self.base_offset)))
        self.time_index.moved_to(place.path(names.time_index_name(self.base_offset)))
        self.txn_index.moved_to(place.path(names.txn_index_name(self.base_offset)))

    def release(self) -> None:
        """Let go of handles without writing anything."""
        self.offset_index.release()
        self.time_index.release()
        self.txn_index.close()
        self.records.close()

    def delete_indexes(self) -> None:
        """Unlink those of a segment that is, or will be, out of the log."""
        self.offset_index.delete()
        self.time_index.delete()
        self.txn_index.delete()

    def delete(self) -> None:
        """Unlink every file; one that is missing is fine. Readers that hold a slice finish undisturbed."""
        self.is_deleted = True
        self.records.close()
        files = self._place.env.files
        self.delete_indexes()
        with suppress(FileNotFoundError):  # a later segment of this name was removed after it, and took the name along
            files.unlink(self.records.path)
