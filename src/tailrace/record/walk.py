"""Walks stored v2 batches: where in the buffer the key, value and headers of each record lie, without copying any.

A record becomes a row of eight int64 in an `array('q')`, `ROW` apart, in these columns:

    OFFSET  TIMESTAMP  KEY_START  KEY_LENGTH  VALUE_START  VALUE_LENGTH  HEADERS_START  HEADERS_END

Starts and ends are positions in the buffer walked; a length of −1 is a null. Headers go from their count to the end of
the record and are known to be well formed. Offsets are taken as they stand: compaction leaves gaps in them.
CRCs are not checked.
"""

from __future__ import annotations

from array import array
from typing import Final

from tailrace.env.files import Buffer
from tailrace.model.errors import CorruptMessageError, InvalidDataError, InvalidRecordError
from tailrace.model.invariant import invariant
from tailrace.record import kernels
from tailrace.record.batch import HEADER_BYTES, TIMESTAMP_TYPE_BIT, BatchHeader
from tailrace.record.check import INT64_MAX, INT64_MIN, fault_of
from tailrace.record.kernels import (
    AT_END,
    HEADERS_END,
    HEADERS_START,
    KEY_LENGTH,
    KEY_START,
    NOT_PLAIN,
    OFFSET,
    ROW,
    ROWS_FULL,
    TIMESTAMP,
    VALUE_LENGTH,
    VALUE_START,
    BytewiseCheck,
)

__all__ = [
    "AT_END",
    "HEADERS_END",
    "HEADERS_START",
    "KEY_LENGTH",
    "KEY_START",
    "NOT_PLAIN",
    "OFFSET",
    "ROW",
    "ROWS_FULL",
    "TIMESTAMP",
    "VALUE_LENGTH",
    "VALUE_START",
    "new_rows",
    "walk_batches",
    "walk_records",
]

_SMALLEST_RECORD_BYTES: Final = 7  # a length and six fields of one byte each
_ROW_BYTES: Final = 8 * ROW


def new_rows(count: int) -> array[int]:
    """Room for `count` records."""
    return array("q", bytes(_ROW_BYTES * count))


def walk_records(
    buffer: Buffer, start: int, end: int, header: BatchHeader, rows: array[int] | None = None
) -> array[int]:
    """A row for each record of one batch, whose uncompressed records are `buffer[start:end]`: of a compressed batch
    that is what it was decompressed to. Fills `rows`, which must have room, or makes them.

    Raises InvalidRecordError unless the bytes are exactly as many well-formed records as the header states.
    """
    count = header.record_count
    if not 0 <= start <= end <= len(buffer):
        raise CorruptMessageError(f"records from {start} to {end} are not in a buffer of {len(buffer)} bytes")
    if not 0 <= count <= (end - start) // _SMALLEST_RECORD_BYTES:
        raise InvalidRecordError(f"the batch states {count} records in {end - start} bytes")
    if rows is None:
        rows = new_rows(count)
    invariant(len(rows) >= ROW * count, "rows have room for every record of the batch")
    same_timestamp = header.attributes & TIMESTAMP_TYPE_BIT != 0
    base_timestamp = header.max_timestamp if same_timestamp else header.base_timestamp
    if not kernels.walk_records(buffer, start, end, count, header.base_offset, base_timestamp, same_timestamp, rows):
        raise _fault_in(buffer, start, end, count)
    return rows


def walk_batches(buffer: Buffer, start: int, end: int, rows: array[int]) -> tuple[int, int, int]:
    """Fill a row for each record of the whole batches in `buffer[start:end]`, as far as they are plain.

    Returns the position behind the last batch taken, the count of rows filled, and why it stopped: AT_END (what is
    left, if anything, is not a whole batch), ROWS_FULL (the next batch has more records than there are rows left) or
    NOT_PLAIN (the next batch is compressed, a control batch or not of magic 2: for the caller to handle).
    Raises CorruptMessageError for a batch of impossible length, InvalidRecordError for one with bad records.
    """
    if not 0 <= start <= end <= len(buffer):
        raise CorruptMessageError(f"batches from {start} to {end} are not in a buffer of {len(buffer)} bytes")
    position, filled, reason = kernels.walk_batches(buffer, start, end, rows)
    if reason == kernels.BAD_LENGTH:
        length = int.from_bytes(buffer[position + 8 : position + 12], "big", signed=True)
        raise CorruptMessageError(f"the batch at position {position} states a length of {length} bytes")
    if reason == kernels.BAD_RECORDS:
        header = BatchHeader.at(buffer, position)
        raise _fault_in(buffer, position + HEADER_BYTES, position + header.size, header.record_count)
    return position, filled, reason


def _fault_in(buffer: Buffer, start: int, end: int, count: int) -> InvalidDataError:
    """What is wrong with records that the kernel would not walk."""
    bytewise = BytewiseCheck(count, 0, True, False, INT64_MIN, INT64_MAX, False)
    while start < end and not bytewise.status:
        start = bytewise.read_record(buffer, start, end)
    bytewise.finish()
    return fault_of(bytewise)
