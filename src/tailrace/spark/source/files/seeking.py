"""From offsets and times to places in a segment, through indexes that are believed as far as they prove themselves.

An index may be of a segment that is being written (full length, zeros behind its entries, the newest still in its
owner's memory), of one that a crash left behind, or of the compacted segment that has just taken the other's name. So:

    offset index   an entry is used when the batch that it points to is there and ends with its offset
    time index     an entry (T, O) is used when the batch that holds O has T as its largest timestamp

What fails that is passed over, and the segment is walked from its beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

from tailrace.env import File, Files
from tailrace.model.errors import CorruptMessageError
from tailrace.record.shallow import ShallowBatch
from tailrace.spark.source.files.headers import batch_at, headers, is_intact
from tailrace.spark.source.files.segments import Segment
from tailrace.storage.index_entries import MAX_INDEX_BYTES, OFFSET_ENTRY, TIME_ENTRY
from tailrace.storage.names import INDEX_SUFFIX, TIME_INDEX_SUFFIX

_BLOCK_ENTRIES: Final = 256


class Place(NamedTuple):
    """Where to begin. `batch` is None at the end of the segment, or where no batch stands."""

    position: int
    batch: ShallowBatch | None


class IndexEntries:
    """The entries of an index file, read in blocks."""

    def __init__(self, file: File, entry: Struct) -> None:
        self._file = file
        self._entry = entry
        self._blocks: dict[int, bytes] = {}
        size = file.size()
        self.count = size // entry.size if size <= MAX_INDEX_BYTES else 0
        self.is_whole = size % entry.size == 0

    def __getitem__(self, place: int) -> tuple[int, ...]:
        number, within = divmod(place, _BLOCK_ENTRIES)
        if number not in self._blocks:
            block_bytes = _BLOCK_ENTRIES * self._entry.size
            self._blocks[number] = self._file.read_at(block_bytes, number * block_bytes)
        raw = self._blocks[number][within * self._entry.size : (within + 1) * self._entry.size]
        return self._entry.unpack(raw) if len(raw) == self._entry.size else (0,) * 2

    def last_where(self, holds: Callable[[tuple[int, ...]], bool]) -> int:
        """The last entry for which `holds`, which no entry does behind one for which it does not; −1 without any.

        In a file that does not ascend this is any entry: whoever asks proves it.
        """
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if holds(self[middle]):
                low = middle + 1
            else:
                high = middle
        return low - 1


def seek(files: Files, segment: Segment, file: File, target: int) -> Place:
    """The first batch that ends at `target` or behind it."""
    position = 0
    if target > segment.base_offset:
        position = indexed_position(files, segment, file, target)
    try:
        for at, batch in headers(file, position):
            if batch.last_offset >= target:
                return Place(at, batch)
            position = at + batch.size
    except CorruptMessageError:
        pass
    return Place(position, None)


def indexed_position(files: Files, segment: Segment, file: File, target: int) -> int:
    """Of a batch that begins at or before `target`; 0 where no entry proves itself."""
    index = segment.open_index(files, INDEX_SUFFIX)
    if index is None:
        return 0
    try:
        entries = IndexEntries(index, OFFSET_ENTRY)
        relative = target - segment.base_offset
        # A slot of zeros is empty: no entry points to the first batch of a segment.
        place = entries.last_where(lambda entry: entry[1] > 0 and entry[0] <= relative)
        if place < 0:
            return 0
        offset, position = entries[place]
        return position if _is_proven(segment, file, segment.base_offset + offset, position) else 0
    finally:
        index.close()


def _is_proven(segment: Segment, file: File, offset: int, position: int) -> bool:
    """Whether a batch stands at `position` that the entry can mean: it ends with `offset`.

    Kafka used to make one entry for several batches appended together, with the last offset of the last: then the CRC
    has to say that a batch begins there.
    """
    batch = batch_at(file, position) if position > 0 else None
    if batch is None or not segment.base_offset <= batch.last_offset <= offset:
        return False
    return batch.last_offset == offset or is_intact(file, position, batch)


def next_indexed(files: Files, segment: Segment, file: File, position: int, offset: int) -> Place | None:
    """The next intact batch behind damage at `position` that the index knows, with an offset from `offset` on."""
    index = segment.open_index(files, INDEX_SUFFIX)
    if index is None:
        return None
    try:
        entries = IndexEntries(index, OFFSET_ENTRY)
        place = entries.last_where(lambda entry: 0 < entry[1] <= position) + 1
        while place < entries.count:
            at = entries[place][1]
            batch = batch_at(file, at) if at > position else None
            if at <= 0:
                return None
            if batch is not None and batch.base_offset >= offset and is_intact(file, at, batch):
                return Place(at, batch)
            place += 1
        return None
    finally:
        index.close()


class TimeFloor(NamedTuple):
    """Every record of the segment below `offset` is older than the time that was asked about."""

    offset: int
    is_all: bool = False
    """Of the whole segment, however it goes on."""


def time_floor(files: Files, segment: Segment, file: File, time_ms: int, recovery_point: int | None) -> TimeFloor:
    """How much of a segment is surely older than `time_ms`, by its time index.

    The last entry of a segment that is written no more is its largest timestamp. Only a segment that was flushed
    surely has it: where a recovery point is known, the segment must lie below it.
    """
    nothing = TimeFloor(segment.base_offset)
    index = segment.open_index(files, TIME_INDEX_SUFFIX)
    if index is None:
        return nothing
    try:
        entries = IndexEntries(index, TIME_ENTRY)
        place = entries.last_where(lambda entry: any(entry) and entry[0] < time_ms)
        if place < 0:
            return nothing
        timestamp, relative = entries[place]
        offset = segment.base_offset + relative
        if relative < 0 or not _has_timestamp(files, segment, file, offset, timestamp):
            return nothing
        was_flushed = recovery_point is None or (segment.behind or recovery_point + 1) <= recovery_point
        is_last = place + 1 == entries.count and entries.is_whole and segment.behind is not None
        return TimeFloor(offset + 1, is_last and was_flushed)
    finally:
        index.close()


def _has_timestamp(files: Files, segment: Segment, file: File, offset: int, timestamp: int) -> bool:
    batch = seek(files, segment, file, offset).batch
    return batch is not None and batch.base_offset <= offset and batch.max_timestamp == timestamp
