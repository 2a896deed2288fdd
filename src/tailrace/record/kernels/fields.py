# cython: boundscheck=False, wraparound=False
# mypy: disable-error-code="valid-type,untyped-decorator,no-any-return,name-defined"
"""Kernel: the fields of a v2 batch in a buffer, read and written, and whether it is intact.

For other kernels; see `record.batch`.

Nothing is checked here: whoever calls knows that the bytes are in the buffer.
"""

from __future__ import annotations

import cython

if not cython.compiled:
    from tailrace.record.kernels.crc import _crc, _three_crcs

_TWO_TO_31 = cython.declare(cython.longlong, 1 << 31)
_TWO_TO_32 = cython.declare(cython.longlong, 1 << 32)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _uint32(buffer: cython.const[cython.uchar][::1], position: cython.Py_ssize_t) -> cython.longlong:
    value: cython.longlong = buffer[position]
    value = value << 8 | buffer[position + 1]
    value = value << 8 | buffer[position + 2]
    return value << 8 | buffer[position + 3]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _int32(buffer: cython.const[cython.uchar][::1], position: cython.Py_ssize_t) -> cython.longlong:
    value: cython.longlong = _uint32(buffer, position)
    return value - _TWO_TO_32 if value & _TWO_TO_31 else value


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _int64(buffer: cython.const[cython.uchar][::1], position: cython.Py_ssize_t) -> cython.longlong:
    return _int32(buffer, position) * _TWO_TO_32 + _uint32(buffer, position + 4)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _end_of(
    buffer: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Where the batch at `start` ends; −1 unless it lies whole before `end`."""
    length: cython.longlong
    if end - start < 61:
        return -1
    length = _int32(buffer, start + 8)
    return start + 12 + length if 49 <= length <= end - start - 12 else -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_int32(out: cython.uchar[::1], position: cython.Py_ssize_t, value: cython.longlong) -> cython.void:
    out[position] = (value >> 24) & 0xFF
    out[position + 1] = (value >> 16) & 0xFF
    out[position + 2] = (value >> 8) & 0xFF
    out[position + 3] = value & 0xFF


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_int64(out: cython.uchar[::1], position: cython.Py_ssize_t, value: cython.longlong) -> cython.void:
    _put_int32(out, position, value >> 32)
    _put_int32(out, position + 4, value)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _copy(
    buffer: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    out: cython.uchar[::1],
    position: cython.Py_ssize_t,
) -> cython.void:
    if cython.compiled:
        memcpy(cython.address(out[position]), cython.address(buffer[start]), size)  # noqa: F821
    else:
        out[position : position + size] = buffer[start : start + size]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _intact_to(
    buffer: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    behind: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Up to where the batches from `start` on have the CRCs that they state: `start`, or the end of a batch.

    The first ends at `behind`. If two more lie whole before `end` they are looked at with it: of short ones three sums
    take no more time than one.
    """
    second: cython.Py_ssize_t
    third: cython.Py_ssize_t
    sums = cython.declare(cython.uint[3])
    if cython.compiled:
        second = _end_of(buffer, behind, end)
        third = _end_of(buffer, second, end) if second > 0 else -1
        if third > 0:
            _three_crcs(buffer, start + 21, behind, behind + 21, second, second + 21, third, sums)
            if sums[0] != _uint32(buffer, start + 17):
                return start
            if sums[1] != _uint32(buffer, behind + 17):
                return behind
            return third if sums[2] == _uint32(buffer, second + 17) else second
    return behind if _crc(buffer, start + 21, behind) == _uint32(buffer, start + 17) else start
