"""Where a partition's log begins and ends for a reader of its files.

    start   the log start that is noted, or the first segment's base offset when that is higher
    end     the high watermark that is noted, as far as the segments go

A broker notes high watermarks every `replica.high.watermark.checkpoint.interval.ms` (5 s) and log starts every minute:
a live directory is seen that much late, and never shows what may still be taken back. A partition that is missing
from the noted high watermarks is newer than they are: nothing of it is known to be committed yet. Where there is no
such file at all (a copy of folders without it, a broker in its first seconds) the log is read to its end: up to the
first batch of the last segment that is not whole or does not have the CRC it states.
"""

from __future__ import annotations

from tailrace.env import File, Files
from tailrace.model.errors import CorruptMessageError
from tailrace.model.offsets import MAX_RELATIVE_OFFSET
from tailrace.spark.source.files.folders import Noted
from tailrace.spark.source.files.headers import headers, is_intact
from tailrace.spark.source.files.seeking import indexed_position, seek
from tailrace.spark.source.files.segments import Segment, SegmentList
from tailrace.spark.source.ranges import Bounds


def committed_bounds(files: Files, segments: SegmentList, noted: Noted) -> Bounds:
    """FileNotFoundError when a segment goes away meanwhile: list again."""
    first = segments.first
    noted_start = noted.log_start or 0
    if first is None:
        start = max(noted_start, noted.high_watermark or 0)
        return Bounds(start, start)
    start = max(first.base_offset, noted_start)
    if noted.high_watermark is not None:
        end = _reached(files, segments, noted.high_watermark)
    elif noted.has_high_watermarks:
        end = start
    else:
        end = _end_of(files, segments)
    return Bounds(start, max(start, end))


def _reached(files: Files, segments: SegmentList, offset: int) -> int:
    """`offset`, or the end of the log where that comes first."""
    last = segments.last
    if last is None or offset <= last.base_offset:
        return offset
    file = last.open(files)
    try:
        position, batch = seek(files, last, file, offset - 1)
        if batch is not None and is_intact(file, position, batch):
            return offset
    finally:
        file.close()
    return min(offset, _end_of(files, segments))


def _end_of(files: Files, segments: SegmentList) -> int:
    last = segments.last
    return 0 if last is None else end_of_segment(files, last)


def end_of_segment(files: Files, segment: Segment) -> int:
    """Behind its last good batch. What lies before the index's last entry is not read again."""
    file = segment.open(files)
    try:
        position = indexed_position(files, segment, file, segment.base_offset + MAX_RELATIVE_OFFSET)
        end = _good_end(file, position)
        if end is None and position:
            end = _good_end(file, 0)
        return segment.base_offset if end is None else end
    finally:
        file.close()


def _good_end(file: File, position: int) -> int | None:
    end = None
    try:
        for at, batch in headers(file, position):
            if not is_intact(file, at, batch):
                break
            end = batch.next_offset
    except CorruptMessageError:
        pass
    return end
