# cython: boundscheck=False, wraparound=False
# mypy: disable-error-code="valid-type,untyped-decorator,no-any-return,name-defined"
"""Kernel: many batches of a segment at a time, seen from outside, as recovery needs them.

    walk_run      the headers of v2 batches that follow each other in a buffer and in the log
    check_run     how many of them have the CRC that they state
    columns_run   all fields of their headers, as columns
    index_run     the entries that such batches make in the sparse indexes of their segment

A batch becomes a row of eight int64, `BATCH_ROW` apart. Its bytes are `buffer[BATCH_START:BATCH_END]`; the producer id
is negative without a producer; of the attributes there is the lower byte, which is all that is defined.

`check_run` is without the GIL. The others keep it: what they do for a megabyte of batches takes microseconds, and to
get the GIL back may take milliseconds.

Bounds checks are off in C: every read of the buffer stands behind a comparison of our own with an end that was checked
against the buffer's size.
"""

from __future__ import annotations

import cython

if not cython.compiled:
    from tailrace.record.kernels.crc import _crc, _three_crcs

BATCH_ROW = 8
(
    BATCH_START,
    BATCH_END,
    BATCH_CRC,
    BATCH_LAST_OFFSET,
    BATCH_MAX_TIMESTAMP,
    BATCH_PRODUCER_ID,
    BATCH_PRODUCER_EPOCH,
    BATCH_ATTRIBUTES,
) = range(BATCH_ROW)

HEADER_COLUMNS = (
    "start",
    "size",
    "crc",
    "base_offset",
    "last_offset",
    "leader_epoch",
    "attributes",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
)
"""What `columns_run` fills, in this order."""

_GIL_WORTH_BYTES = cython.declare(cython.longlong, 1 << 17)  # as in `whole`
_TWO_TO_31 = cython.declare(cython.longlong, 1 << 31)
_TWO_TO_32 = cython.declare(cython.longlong, 1 << 32)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _uint32(buffer: cython.const[cython.uchar][::1], position: cython.Py_ssize_t) -> cython.longlong:
    value: cython.longlong = buffer[position]
    value = value << 8 | buffer[position + 1]
    value = value << 8 | buffer[position + 2]
    return value << 8 | buffer[position + 3]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _int32(buffer: cython.const[cython.uchar][::1], position: cython.Py_ssize_t) -> cython.longlong:
    value: cython.longlong = _uint32(buffer, position)
    return value - _TWO_TO_32 if value & _TWO_TO_31 else value


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _int64(buffer: cython.const[cython.uchar][::1], position: cython.Py_ssize_t) -> cython.longlong:
    return _int32(buffer, position) * _TWO_TO_32 + _uint32(buffer, position + 4)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _walk(
    buffer: cython.const[cython.uchar][::1],
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    next_offset: cython.longlong,
    greatest_offset: cython.longlong,
    latest_epoch: cython.longlong,
    rows: cython.longlong[::1],
) -> cython.Py_ssize_t:
    filled: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t
    room: cython.Py_ssize_t = len(rows) // 8
    length: cython.longlong
    base_offset: cython.longlong
    delta: cython.longlong
    while filled < room and end - position >= 61:
        length = _int32(buffer, position + 8)
        if buffer[position + 16] != 2 or length < 49 or length > end - position - 12:
            break
        base_offset = _int64(buffer, position)
        delta = _int32(buffer, position + 23)
        if base_offset < next_offset or base_offset > greatest_offset:
            break
        if delta < 0 or delta > greatest_offset - base_offset:
            break
        if _int32(buffer, position + 12) > latest_epoch:
            break
        at = 8 * filled
        rows[at] = position
        rows[at + 1] = position + 12 + length
        rows[at + 2] = _uint32(buffer, position + 17)
        rows[at + 3] = base_offset + delta
        rows[at + 4] = _int64(buffer, position + 35)
        rows[at + 5] = _int64(buffer, position + 43)
        rows[at + 6] = _int32(buffer, position + 51) >> 16
        rows[at + 7] = buffer[position + 22]
        next_offset = base_offset + delta + 1
        filled += 1
        position += 12 + length
    return filled


def walk_run(
    buffer: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    next_offset: cython.longlong,
    greatest_offset: cython.longlong,
    latest_epoch: cython.longlong,
    rows: cython.longlong[::1],
) -> int:
    """Fill a row for each whole v2 batch from `start` on that goes on where the one before ends; returns how many.

    The first begins at `next_offset` (0 at least) or above; none ends above `greatest_offset`, which is less than
    2⁶³ − 1, or is of a later leader epoch than `latest_epoch`. Stops before the first batch that breaks a rule, which
    the caller looks at, and where rows or buffer end.
    """
    if start < 0 or start > end or end > len(buffer):
        raise IndexError(f"[{start}:{end}] is outside a buffer of {len(buffer)} bytes")
    if next_offset < 0 or greatest_offset == 0x7FFFFFFFFFFFFFFF:
        raise IndexError(f"offsets from {next_offset} to {greatest_offset} are more than a log can have")
    return _walk(buffer, start, end, next_offset, greatest_offset, latest_epoch, rows)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _lies_in(
    buffer: cython.const[cython.uchar][::1], rows: cython.const[cython.longlong][::1], at: cython.Py_ssize_t
) -> cython.bint:
    """Whether the batch of the row at `at` lies in the buffer, with bytes behind its CRC."""
    return rows[at] >= 0 and 21 < rows[at + 1] <= len(buffer) and rows[at] < rows[at + 1] - 21


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_intact(
    buffer: cython.const[cython.uchar][::1], rows: cython.const[cython.longlong][::1], at: cython.Py_ssize_t
) -> cython.bint:
    return _lies_in(buffer, rows, at) and _crc(buffer, rows[at] + 21, rows[at + 1]) == rows[at + 2]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _are_three_intact(
    buffer: cython.const[cython.uchar][::1], rows: cython.const[cython.longlong][::1], at: cython.Py_ssize_t
) -> cython.bint:
    sums = cython.declare(cython.uint[3])
    if not (_lies_in(buffer, rows, at) and _lies_in(buffer, rows, at + 8) and _lies_in(buffer, rows, at + 16)):
        return False
    if cython.compiled:
        _three_crcs(
            buffer,
            rows[at] + 21,
            rows[at + 1],
            rows[at + 8] + 21,
            rows[at + 9],
            rows[at + 16] + 21,
            rows[at + 17],
            sums,
        )
        return sums[0] == rows[at + 2] and sums[1] == rows[at + 10] and sums[2] == rows[at + 18]
    return False  # one by one is as fast


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _check(
    buffer: cython.const[cython.uchar][::1], rows: cython.const[cython.longlong][::1], count: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    row: cython.Py_ssize_t = 0
    while row + 3 <= count and _are_three_intact(buffer, rows, 8 * row):
        row += 3
    while row < count and _is_intact(buffer, rows, 8 * row):
        row += 1
    return row


def check_run(
    buffer: cython.const[cython.uchar][::1], rows: cython.const[cython.longlong][::1], count: cython.Py_ssize_t
) -> int:
    """How many of `count` batches, from the first on, have the CRC that they state; none that is not in the buffer."""
    intact: cython.Py_ssize_t
    if count < 0 or count > len(rows) // 8:
        raise IndexError(f"{count} batches in {len(rows)} numbers")
    if len(buffer) < _GIL_WORTH_BYTES:
        return _check(buffer, rows, count)
    with cython.nogil:
        intact = _check(buffer, rows, count)
    return intact


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fill_columns(
    buffer: cython.const[cython.uchar][::1],
    rows: cython.const[cython.longlong][::1],
    count: cython.Py_ssize_t,
    columns: cython.longlong[::1],
) -> cython.Py_ssize_t:
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    start: cython.Py_ssize_t
    for row in range(count):
        at = 8 * row
        if rows[at] < 0 or rows[at] > len(buffer) - 61:
            return row
        start = rows[at]
        columns[row] = rows[at]
        columns[row + count] = rows[at + 1] - rows[at]
        columns[row + 2 * count] = rows[at + 2]
        columns[row + 3 * count] = _int64(buffer, start)
        columns[row + 4 * count] = rows[at + 3]
        columns[row + 5 * count] = _int32(buffer, start + 12)
        columns[row + 6 * count] = _int32(buffer, start + 21) >> 16
        columns[row + 7 * count] = _int64(buffer, start + 27)
        columns[row + 8 * count] = rows[at + 4]
        columns[row + 9 * count] = rows[at + 5]
        columns[row + 10 * count] = rows[at + 6]
        columns[row + 11 * count] = _int32(buffer, start + 53)
        columns[row + 12 * count] = _int32(buffer, start + 57)
    return count


def columns_run(
    buffer: cython.const[cython.uchar][::1],
    rows: cython.const[cython.longlong][::1],
    count: cython.Py_ssize_t,
    columns: cython.longlong[::1],
) -> None:
    """The headers of `count` batches, whose rows are of `walk_run`, as HEADER_COLUMNS: one of `count` numbers behind
    the other. `columns` has room for all of them."""
    if count < 0 or count > len(rows) // 8 or count > len(columns) // 13:
        raise IndexError(f"{count} batches in {len(rows)} numbers, and columns of {len(columns)}")
    filled: cython.Py_ssize_t = _fill_columns(buffer, rows, count, columns)
    if filled < count:
        raise IndexError(f"batch {filled} of {count} is outside a buffer of {len(buffer)} bytes")


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put(out: cython.uchar[::1], position: cython.Py_ssize_t, value: cython.longlong) -> cython.void:
    """An int32, big-endian."""
    out[position] = (value >> 24) & 0xFF
    out[position + 1] = (value >> 16) & 0xFF
    out[position + 2] = (value >> 8) & 0xFF
    out[position + 3] = value & 0xFF


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _index(
    rows: cython.const[cython.longlong][::1],
    count: cython.Py_ssize_t,
    position: cython.longlong,
    base_offset: cython.longlong,
    interval_bytes: cython.longlong,
    since_entry_bytes: cython.longlong,
    largest: cython.longlong,
    offset_of_largest: cython.longlong,
    last_indexed: cython.longlong,
    offset_entries: cython.uchar[::1],
    time_entries: cython.uchar[::1],
) -> tuple[cython.Py_ssize_t, cython.Py_ssize_t, cython.longlong, cython.longlong, cython.longlong]:
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    size: cython.longlong
    offset_bytes: cython.Py_ssize_t = 0
    time_bytes: cython.Py_ssize_t = 0
    for row in range(count):
        at = 8 * row
        size = rows[at + 1] - rows[at]
        if rows[at + 4] > largest:
            largest = rows[at + 4]
            offset_of_largest = rows[at + 3]
        if (
            since_entry_bytes > interval_bytes
            and offset_bytes + 8 <= len(offset_entries)
            and time_bytes + 12 <= len(time_entries)
        ):
            _put(offset_entries, offset_bytes, rows[at + 3] - base_offset)
            _put(offset_entries, offset_bytes + 4, position)
            offset_bytes += 8
            if largest > last_indexed:
                _put(time_entries, time_bytes, largest >> 32)
                _put(time_entries, time_bytes + 4, largest)
                _put(time_entries, time_bytes + 8, offset_of_largest - base_offset)
                time_bytes += 12
                last_indexed = largest
            since_entry_bytes = 0
        since_entry_bytes += size
        position += size
    return offset_bytes, time_bytes, since_entry_bytes, largest, offset_of_largest


def index_run(
    rows: cython.const[cython.longlong][::1],
    count: cython.Py_ssize_t,
    position: cython.longlong,
    base_offset: cython.longlong,
    interval_bytes: cython.longlong,
    since_entry_bytes: cython.longlong,
    largest: cython.longlong,
    offset_of_largest: cython.longlong,
    last_indexed: cython.longlong,
    offset_entries: cython.uchar[::1],
    time_entries: cython.uchar[::1],
) -> tuple[int, int, int, int, int]:
    """The index entries of `count` batches that stand in a file from `position` on, as `LogSegment.index` makes them.

    The rows are of `walk_run`, all positions are int32, and offsets are no further from `base_offset`. Before the
    first batch, `since_entry_bytes` follow the last entry; the largest timestamp is `largest`, of the batch that ends
    at `offset_of_largest`; the last one in the time index is `last_indexed`, −1 at least. `offset_entries` and
    `time_entries` are all the room there is: where one is full, neither gets any more.

    Returns how many bytes of both are filled, and with these batches `since_entry_bytes`, `largest` and
    `offset_of_largest`.
    """
    if count < 0 or count > len(rows) // 8:
        raise IndexError(f"{count} batches in {len(rows)} numbers")
    return _index(
        rows,
        count,
        position,
        base_offset,
        interval_bytes,
        since_entry_bytes,
        largest,
        offset_of_largest,
        last_indexed,
        offset_entries,
        time_entries,
    )
