# cython: boundscheck=False, wraparound=False
# mypy: disable-error-code="valid-type,untyped-decorator,no-any-return"
"""Kernel: takes records that lie whole in a buffer and are right, at full speed. What is wrong it does not say.

    check_whole    checks records of a v2 batch as a leader must before it appends them
    check_all      the same for a batch that is all there
    walk_records   finds where the parts of each record of one batch lie
    walk_some      the same for as many records as there is room for
    walk_batches   the same over a buffer of batches
    are_in_order   whether records that were walked have the offsets of their batch

Each stops at the first record that is cut off or not right and says where; `bytewise` then looks at that record again.
`check` and `walk` in the folder above drive them and raise typed errors.

Bounds checks are off in C: every read of the buffer stands behind a comparison of our own with an end that was checked
against the buffer's size. A number is refused when it has more bits than its type: Kafka drops such bits, other
readers do not, and a batch must mean the same to all. A timestamp that leaves 64 bits wraps, as in Java.
"""

from __future__ import annotations

import cython

# Columns of a row of eight int64, which is what walking makes of a record.
ROW = 8
OFFSET, TIMESTAMP, KEY_START, KEY_LENGTH, VALUE_START, VALUE_LENGTH, HEADERS_START, HEADERS_END = range(ROW)

# Why `walk_batches` stopped.
AT_END, ROWS_FULL, NOT_PLAIN, BAD_LENGTH, BAD_RECORDS = range(5)
_AT_END = cython.declare(cython.int, 0)
_ROWS_FULL = cython.declare(cython.int, 1)
_NOT_PLAIN = cython.declare(cython.int, 2)
_BAD_LENGTH = cython.declare(cython.int, 3)
_BAD_RECORDS = cython.declare(cython.int, 4)

_INT64_MAX = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)
_INT64_MIN = cython.declare(cython.longlong, ~0x7FFFFFFFFFFFFFFF)

_TWO_TO_31 = cython.declare(cython.longlong, 1 << 31)
_TWO_TO_32 = cython.declare(cython.longlong, 1 << 32)

# Whoever gives the GIL away may wait milliseconds for it; to hold it for some microseconds hurts nobody.
_GIL_WORTH_BYTES = cython.declare(cython.Py_ssize_t, 1 << 17)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _long_number(
    buffer: cython.const[cython.uchar][::1],
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    max_bytes: cython.int,
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    """`_number` of any length."""
    value: cython.ulonglong = 0
    byte: cython.ulonglong
    half: cython.longlong
    taken: cython.int = 0
    while position < end:
        byte = buffer[position]
        position += 1
        taken += 1
        if taken == max_bytes and byte > (0x0F if max_bytes == 5 else 0x01):
            return 0, -1
        value |= (byte & 0x7F) << (7 * taken - 7)
        if byte < 0x80:
            half = value >> 1
            return (~half if value & 1 else half), position
    return 0, -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _number(
    buffer: cython.const[cython.uchar][::1],
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    max_bytes: cython.int,
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    """The zigzag number at `position` and the position behind it, or −1 for that when it is cut off or too big."""
    first: cython.longlong
    second: cython.longlong
    if position < end:
        first = buffer[position]
        if first < 0x80:
            return (first >> 1) ^ -(first & 1), position + 1
        if position + 1 < end:
            second = buffer[position + 1]
            if second < 0x80:
                return ((first & 0x7F) >> 1 | second << 6) ^ -(first & 1), position + 2
    return _long_number(buffer, position, end, max_bytes)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _wrapping_sum(a: cython.longlong, b: cython.longlong) -> cython.longlong:
    """As Java adds; the plain sum would be undefined in C and too big in Python."""
    if b > 0 and a > _INT64_MAX - b:
        return _INT64_MIN + (a - (_INT64_MAX - b) - 1)
    if b < 0 and a < _INT64_MIN - b:
        return _INT64_MAX - ((_INT64_MIN - b) - a - 1)
    return a + b


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _behind_headers(
    buffer: cython.const[cython.uchar][::1],
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.longlong,
) -> cython.Py_ssize_t:
    length: cython.longlong
    while count > 0:
        count -= 1
        length, position = _number(buffer, position, end, 5)
        if position < 0 or length < 0 or length > end - position:
            return -1
        length, position = _number(buffer, position + length, end, 5)
        if position < 0 or length < -1 or length > end - position:
            return -1
        if length > 0:
            position += length
    return position


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _parse(
    buffer: cython.const[cython.uchar][::1], position: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> tuple[
    cython.Py_ssize_t,
    cython.longlong,
    cython.longlong,
    cython.Py_ssize_t,
    cython.longlong,
    cython.Py_ssize_t,
    cython.longlong,
    cython.Py_ssize_t,
]:
    """The record at `position`: its end, timestamp delta, offset delta, start and length of key and of value, and
    where its headers start. The end is −1 unless the record is whole and well formed."""
    length: cython.longlong
    timestamp_delta: cython.longlong
    offset_delta: cython.longlong
    key_length: cython.longlong
    value_length: cython.longlong
    header_count: cython.longlong
    key_start: cython.Py_ssize_t
    value_start: cython.Py_ssize_t
    headers_start: cython.Py_ssize_t

    length, position = _number(buffer, position, end, 5)
    if position < 0 or length < 0 or length > end - position:
        return -1, 0, 0, 0, 0, 0, 0, 0
    end = position + length
    timestamp_delta, position = _number(buffer, position + 1, end, 10)
    if position < 0:
        return -1, 0, 0, 0, 0, 0, 0, 0
    offset_delta, position = _number(buffer, position, end, 5)
    if position < 0:
        return -1, 0, 0, 0, 0, 0, 0, 0
    key_length, key_start = _number(buffer, position, end, 5)
    position = key_start + (key_length if key_length > 0 else 0)
    if key_start < 0 or key_length < -1 or position > end:
        return -1, 0, 0, 0, 0, 0, 0, 0
    value_length, value_start = _number(buffer, position, end, 5)
    headers_start = value_start + (value_length if value_length > 0 else 0)
    if value_start < 0 or value_length < -1 or headers_start > end:
        return -1, 0, 0, 0, 0, 0, 0, 0
    header_count, position = _number(buffer, headers_start, end, 5)
    if position < 0 or header_count < 0:
        return -1, 0, 0, 0, 0, 0, 0, 0
    if header_count > 0:
        position = _behind_headers(buffer, position, end, header_count)
    if position != end:
        return -1, 0, 0, 0, 0, 0, 0, 0
    return end, timestamp_delta, offset_delta, key_start, key_length, value_start, value_length, headers_start


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _check(
    buffer: cython.const[cython.uchar][::1],
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    record: cython.longlong,
    count: cython.longlong,
    base_timestamp: cython.longlong,
    same_timestamp: cython.bint,
    require_key: cython.bint,
    earliest: cython.longlong,
    latest: cython.longlong,
) -> tuple[cython.Py_ssize_t, cython.longlong, cython.longlong, cython.longlong]:
    behind: cython.Py_ssize_t
    timestamp_delta: cython.longlong
    offset_delta: cython.longlong
    key_length: cython.longlong
    timestamp: cython.longlong = base_timestamp
    max_timestamp: cython.longlong = -1
    record_of_max: cython.longlong = -1
    while record < count and position < end:
        behind, timestamp_delta, offset_delta, _, key_length, _, _, _ = _parse(buffer, position, end)
        if behind < 0 or offset_delta != record or (key_length < 0 and require_key):
            break
        if not same_timestamp:
            timestamp = _wrapping_sum(base_timestamp, timestamp_delta)
        if (timestamp < earliest or timestamp > latest) and timestamp != -1:
            break
        if timestamp > max_timestamp:
            max_timestamp = timestamp
            record_of_max = record
        position = behind
        record += 1
    return position, record, max_timestamp, record_of_max


def check_whole(
    buffer: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    record: cython.longlong,
    count: cython.longlong,
    base_timestamp: cython.longlong,
    same_timestamp: cython.bint,
    require_key: cython.bint,
    earliest: cython.longlong,
    latest: cython.longlong,
) -> tuple[int, int, int, int]:
    """Take records number `record` up to `count` from `buffer[start:end]` until one is not whole, or not right.

    Returns where that one starts, its number, the greatest timestamp taken, at least −1, and the number of the first
    record that had it, −1 when all were at or below −1. With `same_timestamp` every record has the base timestamp.
    """
    position: cython.Py_ssize_t
    max_timestamp: cython.longlong
    record_of_max: cython.longlong
    if start < 0 or start > end or end > len(buffer):
        raise IndexError(f"[{start}:{end}] is outside a buffer of {len(buffer)} bytes")
    if end - start < _GIL_WORTH_BYTES:
        position, record, max_timestamp, record_of_max = _check(
            buffer, start, end, record, count, base_timestamp, same_timestamp, require_key, earliest, latest
        )
    else:
        with cython.nogil:
            position, record, max_timestamp, record_of_max = _check(
                buffer, start, end, record, count, base_timestamp, same_timestamp, require_key, earliest, latest
            )
    return position, record, max_timestamp, record_of_max


def check_all(
    buffer: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.longlong,
    base_timestamp: cython.longlong,
    same_timestamp: cython.bint,
    require_key: cython.bint,
    earliest: cython.longlong,
    latest: cython.longlong,
) -> tuple[int, int] | None:
    """`check_whole` for an uncompressed batch, with as little around it as can be.

    Returns the greatest timestamp and the first record that has it, or None unless `buffer[start:end]` is inside the
    buffer and exactly `count` records that are right.
    """
    position: cython.Py_ssize_t
    record: cython.longlong
    max_timestamp: cython.longlong
    record_of_max: cython.longlong
    if start < 0 or start > end or end > len(buffer):
        return None
    if end - start < _GIL_WORTH_BYTES:
        position, record, max_timestamp, record_of_max = _check(
            buffer, start, end, 0, count, base_timestamp, same_timestamp, require_key, earliest, latest
        )
    else:
        with cython.nogil:
            position, record, max_timestamp, record_of_max = _check(
                buffer, start, end, 0, count, base_timestamp, same_timestamp, require_key, earliest, latest
            )
    if position != end or record != count:
        return None
    return max_timestamp, record_of_max


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _walk(
    buffer: cython.const[cython.uchar][::1],
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.longlong,
    base_offset: cython.longlong,
    base_timestamp: cython.longlong,
    same_timestamp: cython.bint,
    rows: cython.longlong[::1],
    row: cython.Py_ssize_t,
) -> cython.longlong:
    """Fills rows from number `row`; returns how many records it took, −1 when bytes are left behind the last one."""
    behind: cython.Py_ssize_t
    timestamp_delta: cython.longlong
    offset_delta: cython.longlong
    key_start: cython.Py_ssize_t
    key_length: cython.longlong
    value_start: cython.Py_ssize_t
    value_length: cython.longlong
    headers_start: cython.Py_ssize_t
    record: cython.longlong = 0
    cell: cython.Py_ssize_t = row * 8
    while record < count and cell + 8 <= len(rows):
        (
            behind,
            timestamp_delta,
            offset_delta,
            key_start,
            key_length,
            value_start,
            value_length,
            headers_start,
        ) = _parse(buffer, position, end)
        if behind < 0:
            return record
        rows[cell] = _wrapping_sum(base_offset, offset_delta)
        rows[cell + 1] = base_timestamp if same_timestamp else _wrapping_sum(base_timestamp, timestamp_delta)
        rows[cell + 2] = key_start
        rows[cell + 3] = key_length
        rows[cell + 4] = value_start
        rows[cell + 5] = value_length
        rows[cell + 6] = headers_start
        rows[cell + 7] = behind
        cell += 8
        position = behind
        record += 1
    return record if position == end else -1


def walk_records(
    buffer: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.longlong,
    base_offset: cython.longlong,
    base_timestamp: cython.longlong,
    same_timestamp: cython.bint,
    rows: cython.longlong[::1],
) -> bool:
    """Fill a row for each of `count` records, which are `buffer[start:end]`; False unless they are exactly that.

    Starts and ends are positions in the buffer; a length of −1 is a null. Headers go from their count to the end of
    the record. Offset deltas may be anything: compaction leaves gaps in them.
    """
    taken: cython.longlong
    if start < 0 or start > end or end > len(buffer):
        raise IndexError(f"[{start}:{end}] is outside a buffer of {len(buffer)} bytes")
    if end - start < _GIL_WORTH_BYTES:
        taken = _walk(buffer, start, end, count, base_offset, base_timestamp, same_timestamp, rows, 0)
    else:
        with cython.nogil:
            taken = _walk(buffer, start, end, count, base_offset, base_timestamp, same_timestamp, rows, 0)
    return taken == count


def walk_some(
    buffer: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.longlong,
    base_offset: cython.longlong,
    base_timestamp: cython.longlong,
    same_timestamp: cython.bint,
    rows: cython.longlong[::1],
) -> tuple[int, int]:
    """`walk_records` for the first records of a batch that may have more than there are rows.

    Fills a row for each of up to `count` records, which begin at `start`. Returns how many it took and the position
    behind them: fewer than `count` with rows left over when the next one is not right.
    """
    taken: cython.longlong
    if start < 0 or start > end or end > len(buffer):
        raise IndexError(f"[{start}:{end}] is outside a buffer of {len(buffer)} bytes")
    count = min(count, len(rows) // 8)
    if end - start < _GIL_WORTH_BYTES:
        taken = _walk(buffer, start, end, count, base_offset, base_timestamp, same_timestamp, rows, 0)
    else:
        with cython.nogil:
            taken = _walk(buffer, start, end, count, base_offset, base_timestamp, same_timestamp, rows, 0)
    if taken < 0:  # all that were wanted, and not the last of the bytes
        taken = count
    return taken, rows[8 * taken - 1] if taken > 0 else start


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _are_in_order(
    rows: cython.longlong[::1],
    row: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    first_offset: cython.longlong,
    last_offset: cython.longlong,
) -> cython.bint:
    """Rows from number `row` on; `last_offset` is less than 2⁶³ − 1."""
    place: cython.Py_ssize_t
    offset: cython.longlong
    for place in range(row, row + count):
        offset = rows[8 * place]
        if offset < first_offset or offset > last_offset:
            return False
        first_offset = offset + 1
    return True


def are_in_order(
    rows: cython.longlong[::1], count: cython.Py_ssize_t, first_offset: cython.longlong, last_offset: cython.longlong
) -> bool:
    """Whether the offsets of the first `count` rows ascend, from `first_offset` or above to `last_offset` or below."""
    if count < 0 or count > len(rows) // 8 or last_offset == 0x7FFFFFFFFFFFFFFF:
        raise IndexError(f"{count} rows up to offset {last_offset}: there are {len(rows) // 8}")
    return _are_in_order(rows, 0, count, first_offset, last_offset)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _int32(buffer: cython.const[cython.uchar][::1], position: cython.Py_ssize_t) -> cython.longlong:
    value: cython.longlong = buffer[position]
    value = value << 8 | buffer[position + 1]
    value = value << 8 | buffer[position + 2]
    value = value << 8 | buffer[position + 3]
    return value - _TWO_TO_32 if value & _TWO_TO_31 else value


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _int64(buffer: cython.const[cython.uchar][::1], position: cython.Py_ssize_t) -> cython.longlong:
    low: cython.longlong = _int32(buffer, position + 4)
    return _int32(buffer, position) * _TWO_TO_32 + (low + _TWO_TO_32 if low < 0 else low)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _walk_batches(
    buffer: cython.const[cython.uchar][::1],
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    rows: cython.longlong[::1],
) -> tuple[cython.Py_ssize_t, cython.Py_ssize_t, cython.int]:
    filled: cython.Py_ssize_t = 0
    behind: cython.Py_ssize_t
    attributes: cython.int
    length: cython.longlong
    count: cython.longlong
    same_timestamp: cython.bint
    while end - position >= 17:  # up to and with the magic
        length = _int32(buffer, position + 8)
        if length < (49 if buffer[position + 16] == 2 else 14):
            return position, filled, _BAD_LENGTH
        behind = position + 12 + length
        if behind > end:
            break
        if buffer[position + 16] != 2:
            return position, filled, _NOT_PLAIN
        attributes = buffer[position + 22]
        if attributes & 0x27:  # compressed, or a control batch
            return position, filled, _NOT_PLAIN
        count = _int32(buffer, position + 57)
        if count < 0 or count > (behind - position - 61) // 7:
            return position, filled, _BAD_RECORDS
        if count > len(rows) // 8 - filled:
            return position, filled, _ROWS_FULL
        same_timestamp = (attributes & 0x08) != 0
        if count != _walk(
            buffer,
            position + 61,
            behind,
            count,
            _int64(buffer, position),
            _int64(buffer, position + (35 if same_timestamp else 27)),
            same_timestamp,
            rows,
            filled,
        ):
            return position, filled, _BAD_RECORDS
        filled += count
        position = behind
    return position, filled, _AT_END


def walk_batches(
    buffer: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    rows: cython.longlong[::1],
) -> tuple[int, int, int]:
    """Fill a row for each record of the whole batches in `buffer[start:end]`, as far as they are plain.

    Returns the position behind the last batch taken, the count of rows, and why it stopped: AT_END (what is left, if
    anything, is not a whole batch), ROWS_FULL (the next batch has more records than there are rows left), NOT_PLAIN
    (the next batch is compressed, a control batch or of another magic), BAD_LENGTH, BAD_RECORDS.
    """
    position: cython.Py_ssize_t
    filled: cython.Py_ssize_t
    reason: cython.int
    if start < 0 or start > end or end > len(buffer):
        raise IndexError(f"[{start}:{end}] is outside a buffer of {len(buffer)} bytes")
    if end - start < _GIL_WORTH_BYTES:
        position, filled, reason = _walk_batches(buffer, start, end, rows)
    else:
        with cython.nogil:
            position, filled, reason = _walk_batches(buffer, start, end, rows)
    return position, filled, reason
