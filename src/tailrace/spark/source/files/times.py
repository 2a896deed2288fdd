"""The first offset at or after a time, from a partition's files."""

from __future__ import annotations

from tailrace.env import File, Files
from tailrace.model.errors import CorruptMessageError, InvalidDataError, MessageTooLargeError
from tailrace.record.reader import records_of
from tailrace.record.shallow import ShallowBatch, next_batch
from tailrace.spark.source.files.headers import headers
from tailrace.spark.source.files.seeking import next_indexed, seek, time_floor
from tailrace.spark.source.files.segments import Segment, SegmentList
from tailrace.spark.source.ranges import Bounds


def first_at_or_after(
    files: Files,
    segments: SegmentList,
    time_ms: int,
    bounds: Bounds,
    recovery_point: int | None,
    *,
    counts_markers: bool = True,
) -> int | None:
    """The first record, in the order of offsets within `bounds`, with that timestamp or a later one.

    A marker of a transaction is one for brokers, which are asked the same; without `counts_markers` it is not.
    FileNotFoundError when a segment goes away meanwhile: list again.
    """
    for segment in segments.covering(bounds.start, bounds.end):
        file = segment.open(files)
        try:
            floor = time_floor(files, segment, file, time_ms, recovery_point)
            if not floor.is_all:
                start = max(bounds.start, floor.offset)
                found = _in_segment(files, segment, file, time_ms, start, counts_markers)
                if found is not None:
                    return found if found < bounds.end else None
        finally:
            file.close()
    return None


def _in_segment(
    files: Files, segment: Segment, file: File, time_ms: int, start: int, counts_markers: bool
) -> int | None:
    position: int | None = seek(files, segment, file, start).position
    while position is not None:
        try:
            for at, batch in headers(file, position):
                position = at + batch.size
                if batch.is_control and not counts_markers:
                    continue
                if batch.max_timestamp >= time_ms and batch.last_offset >= start:
                    found = _in_batch(file, at, batch, time_ms, start)
                    if found is not None:
                        return found
            return None
        except CorruptMessageError:
            behind = next_indexed(files, segment, file, position, start)
            position = None if behind is None else behind.position
    return None


def _in_batch(file: File, position: int, batch: ShallowBatch, time_ms: int, start: int) -> int | None:
    """A batch that cannot be read counts from its first offset on: who reads it will tell what is wrong with it."""
    data = file.read_at(batch.size, position)
    try:
        whole = next_batch(data, 0, len(data))
        if whole is not None:
            for record in records_of(data, whole):
                if record.timestamp >= time_ms and record.offset >= start:
                    return record.offset
    except (InvalidDataError, MessageTooLargeError):
        return max(batch.base_offset, start)
    return None
