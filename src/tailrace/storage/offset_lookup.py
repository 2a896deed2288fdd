"""Offsets by time: the first record at or after a timestamp, and the record with the largest one.

A time index narrows the search to a place in one segment; from there batches are walked by their headers, and only
the batch that holds the answer is decompressed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tailrace.model.errors import CorruptIndexError, SegmentGoneError
from tailrace.model.ids import NO_LEADER_EPOCH, NO_TIMESTAMP
from tailrace.record.reader import Record, records_of
from tailrace.record.shallow import ShallowBatch, next_batch
from tailrace.storage.segment import LogSegment
from tailrace.storage.segments import LogSegments

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5


class FoundOffset(NamedTuple):
    """`timestamp` is −1 for the ends of a log, which have an offset but no record."""

    timestamp: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH


def first_at_or_after(segments: LogSegments, timestamp: int, start_offset: int) -> FoundOffset | None:
    """The first record, in offset order from `start_offset` on, whose timestamp is at least `timestamp`."""
    for segment in segments.covering(start_offset):
        if segment.size and segment.largest.timestamp >= timestamp:
            found = _in_segment(segment, timestamp, start_offset)
            if found is not None:
                return found
    return None


def with_largest_timestamp(segments: LogSegments, start_offset: int) -> FoundOffset | None:
    """The first record that has the largest timestamp of the log; None for a log without records."""
    best: LogSegment | None = None
    largest = NO_TIMESTAMP
    for segment in segments.covering(start_offset):
        timestamp = _largest_from(segment, start_offset)
        if timestamp > largest:
            best, largest = segment, timestamp
    return None if best is None else _in_segment(best, largest, start_offset)


def _largest_from(segment: LogSegment, start_offset: int) -> int:
    """The largest timestamp of the batches that reach `start_offset`: a log may start inside its first segment."""
    if segment.base_offset >= start_offset:
        return segment.largest.timestamp
    found = segment.translate(start_offset)
    if found is None:
        return NO_TIMESTAMP
    return max((batch.max_timestamp for _, batch in segment.records.headers(found[0])), default=NO_TIMESTAMP)


def _in_segment(segment: LogSegment, timestamp: int, start_offset: int) -> FoundOffset | None:
    cuts = segment.records.cuts
    try:
        return _search(segment, timestamp, start_offset, cuts)
    finally:
        if segment.records.cuts != cuts:
            raise SegmentGoneError(f"{segment.records.path} was truncated while it was searched")


def _search(segment: LogSegment, timestamp: int, start_offset: int, cuts: int) -> FoundOffset | None:
    try:
        from_offset = max(segment.time_index.lookup(timestamp).offset, start_offset)
        found = segment.translate(from_offset)
    except CorruptIndexError:
        segment.mend_indexes(cuts)
        found = segment.translate(start_offset)
    if found is None:
        return None
    for position, batch in segment.records.headers(found[0]):
        if batch.max_timestamp >= timestamp and batch.last_offset >= start_offset:
            record = _in_batch(segment, position, batch, timestamp, start_offset)
            if record is not None:
                return FoundOffset(record.timestamp, record.offset, batch.leader_epoch)
    return None


def _in_batch(
    segment: LogSegment, position: int, batch: ShallowBatch, timestamp: int, start_offset: int
) -> Record | None:
    buffer = segment.records.read(position, batch.size)
    whole = next_batch(buffer, 0, len(buffer))
    if whole is None:
        return None
    for record in records_of(buffer, whole):
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return record
    return None
