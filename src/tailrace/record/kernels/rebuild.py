# cython: boundscheck=False, wraparound=False
# mypy: disable-error-code="valid-type,untyped-decorator,no-any-return"
"""Kernel: writes some of a batch's records anew, with timestamps that count from another base.

A record keeps all its bytes but two fields: its timestamp delta, and its length where the delta's size changes. So the
offset deltas stay, and with them the batch's base offset must.

The records were walked before; what is read here is checked again, since bounds checks are off in C.
"""

from __future__ import annotations

import cython

GREATEST_GROWTH = 13
"""By so many bytes can a record grow at most: nine of its timestamp delta, four of its length."""

_GREATEST_GROWTH = cython.declare(cython.Py_ssize_t, 13)
_INT64_MAX = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)
_INT64_MIN = cython.declare(cython.longlong, ~0x7FFFFFFFFFFFFFFF)

_GIL_WORTH_BYTES = cython.declare(cython.Py_ssize_t, 1 << 17)  # as in `whole`


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _number(
    buffer: cython.const[cython.uchar][::1],
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    max_bytes: cython.int,
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    """The zigzag number at `position` and the position behind it, or −1 for that when it is cut off or too big."""
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
def _zigzag(value: cython.longlong) -> cython.ulonglong:
    half: cython.ulonglong
    if value >= 0:
        half = value
        return half << 1
    half = ~value
    return half << 1 | 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _size_of(number: cython.ulonglong) -> cython.Py_ssize_t:
    size: cython.Py_ssize_t = 1
    while number >= 0x80:
        number >>= 7
        size += 1
    return size


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _write(out: cython.uchar[::1], position: cython.Py_ssize_t, number: cython.ulonglong) -> cython.Py_ssize_t:
    while number >= 0x80:
        out[position] = (number & 0x7F) | 0x80
        number >>= 7
        position += 1
    out[position] = number & 0x7F
    return position + 1


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
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _wrapping_difference(a: cython.longlong, b: cython.longlong) -> cython.longlong:
    """What must be added to `b`, as Java adds, to give `a`."""
    if b < 0 and a > _INT64_MAX + b:
        return _INT64_MIN + (a - (_INT64_MAX + b) - 1)
    if b > 0 and a < _INT64_MIN + b:
        return _INT64_MAX - ((_INT64_MIN + b) - a - 1)
    return a - b


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _rebuild(
    buffer: cython.const[cython.uchar][::1],
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    kept: cython.const[cython.uchar][::1],
    kept_at: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    base_timestamp: cython.longlong,
    same_timestamp: cython.bint,
    has_new_base: cython.bint,
    new_base: cython.longlong,
    out: cython.uchar[::1],
    out_at: cython.Py_ssize_t,
) -> tuple[cython.Py_ssize_t, cython.longlong, cython.longlong]:
    """Writes from `out[out_at]` on; returns where that ended, −1 for what cannot be done."""
    record: cython.Py_ssize_t
    behind: cython.Py_ssize_t
    rest: cython.Py_ssize_t
    length: cython.longlong
    delta: cython.longlong
    timestamp: cython.longlong
    encoded: cython.ulonglong
    max_timestamp: cython.longlong = -1
    written: cython.Py_ssize_t = out_at
    for record in range(count):
        length, position = _number(buffer, position, end, 5)
        if position < 0 or length < 1 or length > end - position:
            return -1, 0, 0
        behind = position + length
        if kept[kept_at + record] != 0:
            delta, rest = _number(buffer, position + 1, behind, 10)
            if rest < 0 or behind - position > len(out) - written - _GREATEST_GROWTH - 1:
                return -1, 0, 0
            timestamp = base_timestamp if same_timestamp else _wrapping_sum(base_timestamp, delta)
            if not has_new_base:
                has_new_base = True
                new_base = timestamp
            if timestamp > max_timestamp:
                max_timestamp = timestamp
            encoded = _zigzag(_wrapping_difference(timestamp, new_base))
            written = _write(out, written, _zigzag(1 + _size_of(encoded) + behind - rest))
            out[written] = buffer[position]
            written = _write(out, written + 1, encoded)
            while rest < behind:
                out[written] = buffer[rest]
                written += 1
                rest += 1
        position = behind
    return written if position == end else -1, new_base, max_timestamp


def rebuild_records(
    buffer: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    kept: cython.const[cython.uchar][::1],
    kept_at: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    base_timestamp: cython.longlong,
    same_timestamp: cython.bint,
    has_new_base: cython.bint,
    new_base: cython.longlong,
    out: cython.uchar[::1],
) -> tuple[int, int, int]:
    """Write to `out` those of the `count` records `buffer[start:end]` whose mark, from `kept[kept_at]` on, is not 0.

    Timestamps count from `new_base`, or without `has_new_base` from that of the first record kept. With
    `same_timestamp` every record has the base timestamp. `out` needs room for the bytes of all records and
    GREATEST_GROWTH for each one kept. Returns the bytes written, the base that was taken, and the greatest
    timestamp kept, at least −1; −1 bytes when these are not `count` records, or there is no room.
    """
    written: cython.Py_ssize_t
    base: cython.longlong
    max_timestamp: cython.longlong
    if start < 0 or start > end or end > len(buffer):
        raise IndexError(f"[{start}:{end}] is outside a buffer of {len(buffer)} bytes")
    if kept_at < 0 or count < 0 or kept_at > len(kept) - count:
        raise IndexError(f"{count} marks from {kept_at} on: there are {len(kept)}")
    if end - start < _GIL_WORTH_BYTES:
        written, base, max_timestamp = _rebuild(
            buffer, start, end, kept, kept_at, count, base_timestamp, same_timestamp, has_new_base, new_base, out, 0
        )
    else:
        with cython.nogil:
            written, base, max_timestamp = _rebuild(
                buffer, start, end, kept, kept_at, count, base_timestamp, same_timestamp, has_new_base, new_base, out, 0
            )
    return written, base, max_timestamp
