# cython: boundscheck=False, wraparound=False
# mypy: disable-error-code="valid-type,untyped-decorator,no-any-return"
"""Kernel: produce requests that a connection has sent one behind the other, found in its buffer.

`take_frames` takes those that are alike but for their correlation ids and their records: see `protocol.produce_shape`
for how they look. The records of each must be one batch that `produce_rules` has nothing against. It stops at the first
request that is not such a one, or not there whole; the broker looks at that in the general way.

It holds the GIL, since it makes a list, and what it does for a request takes less than a microsecond.

Bounds checks are off in C: every read of the buffer stands behind a comparison of our own with an end that was checked
against the buffer's size.
"""

from __future__ import annotations

import cython

if not cython.compiled:
    from tailrace.record.kernels.fields import _int32

_FRONT = cython.declare(cython.Py_ssize_t, 12)  # size, api key, version, correlation id
_BATCH_HEADER = cython.declare(cython.Py_ssize_t, 61)
_NO_TAGS = cython.declare(cython.Py_ssize_t, 3)
_TRANSACTIONAL_BIT = cython.declare(cython.int, 0x10)
_CODEC_MASK = cython.declare(cython.int, 0x07)
_ZSTD = cython.declare(cython.int, 4)
_ZSTD_FROM = cython.declare(cython.int, 7)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _is_same(
    buffer: cython.const[cython.uchar][::1], position: cython.Py_ssize_t, same: cython.const[cython.uchar][::1]
) -> cython.bint:
    place: cython.Py_ssize_t = 0
    while place < len(same) and buffer[position + place] == same[place]:
        place += 1
    return place == len(same)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _records_in(
    buffer: cython.const[cython.uchar][::1],
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    version: cython.longlong,
    is_flexible: cython.bint,
) -> cython.Py_ssize_t:
    """Where the records begin whose length stands at `position`; −1 unless they reach to `end` and may be taken."""
    size: cython.longlong = 0
    shift: cython.int = 0
    byte: cython.longlong = 0x80
    attributes: cython.int
    if is_flexible:
        while byte >= 0x80:
            if position >= end or shift == 28:
                return -1
            byte = buffer[position]
            size |= (byte & 0x7F) << shift
            shift += 7
            position += 1
        size -= 1
    else:
        if end - position < 4:
            return -1
        size = _int32(buffer, position)
        position += 4
    if size != end - position or size < _BATCH_HEADER:
        return -1
    attributes = buffer[position + 22]
    if buffer[position + 16] != 2 or _int32(buffer, position + 8) != size - 12 or attributes & _TRANSACTIONAL_BIT:
        return -1
    if attributes & _CODEC_MASK == _ZSTD and version < _ZSTD_FROM:
        return -1
    return position


def take_frames(
    buffer: cython.const[cython.uchar][::1],
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    same: cython.const[cython.uchar][::1],
    version: cython.longlong,
    is_flexible: cython.bint,
    longest: cython.longlong,
) -> tuple[int, int, list[tuple[int, int, int]]]:
    """The requests from `begin` on that have `version`, `same` behind their correlation id, the partition of the first
    one, and `longest` bytes at most.

    Returns that partition, the position behind the last request, and for each its correlation id and where its records
    begin and end.
    """
    taken: list[tuple[int, int, int]] = []
    partition: cython.longlong = 0
    size: cython.longlong
    behind: cython.Py_ssize_t
    position: cython.Py_ssize_t
    records: cython.Py_ssize_t
    records_end: cython.Py_ssize_t
    if begin < 0 or begin > end or end > len(buffer):
        raise IndexError(f"[{begin}:{end}] is outside a buffer of {len(buffer)} bytes")
    while end - begin >= _FRONT:
        size = _int32(buffer, begin)
        if size < _FRONT or size > longest or size > end - begin - 4:
            break
        behind = begin + 4 + size
        if _int32(buffer, begin + 4) != version:  # the api key is 0
            break
        position = begin + _FRONT
        if behind - position < len(same) + 4 or not _is_same(buffer, position, same):
            break
        position += len(same)
        if not taken:
            partition = _int32(buffer, position)
        elif partition != _int32(buffer, position):
            break
        position += 4
        records_end = behind
        if is_flexible:
            records_end -= _NO_TAGS
            if records_end < position or buffer[records_end] or buffer[records_end + 1] or buffer[records_end + 2]:
                break
        records = _records_in(buffer, position, records_end, version, is_flexible)
        if records < 0:
            break
        taken.append((_int32(buffer, begin + 8), records, records_end))
        begin = behind
    return partition, begin, taken
