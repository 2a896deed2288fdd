# cython: boundscheck=False, wraparound=False
# mypy: disable-error-code="valid-type,untyped-decorator,no-any-return,name-defined"
"""Kernel: a column of bytes in the layout of Apache Arrow, filled without the GIL. For `columns`.

It is three buffers, which the caller makes: where each row ends in the bytes (int32, one more than there are rows, the
first 0), the bytes of all rows behind each other, and a bit for each row, lowest first, cleared where the row is null.

What is copied is not checked here: whoever calls knows that it is in the buffer. The room is.
"""

from __future__ import annotations

import cython


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _copy(
    buffer: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    out: cython.uchar[::1],
    position: cython.Py_ssize_t,
) -> cython.void:
    """`size` is positive."""
    if cython.compiled:
        memcpy(cython.address(out[position]), cython.address(buffer[start]), size)  # noqa: F821
    else:
        out[position : position + size] = buffer[start : start + size]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _clear_bit(bits: cython.uchar[::1], place: cython.Py_ssize_t) -> cython.void:
    bits[place >> 3] = bits[place >> 3] & (0xFF ^ (1 << (place & 7)))


@cython.final
@cython.cclass
class BytesColumn:
    """Room for a column, and how much of it is filled: `rows`, `used_bytes`, and `nulls` of the rows.

    `bits` come all set. `needed_bytes` is what a row needs that did not fit.
    """

    def __init__(self, ends: cython.int[::1], bits: cython.uchar[::1], data: cython.uchar[::1]) -> None:
        if len(ends) < 1:
            raise IndexError("a column has at least the 0 where its first row begins")
        self.rows = 0
        self.used_bytes = 0
        self.nulls = 0
        self.needed_bytes = 0
        ends[0] = 0
        self._ends = ends
        self._bits = bits
        self._bytes = data
        self._room = min(len(ends) - 1, 8 * len(bits))

    def grow(self, ends: cython.int[::1], bits: cython.uchar[::1], data: cython.uchar[::1]) -> None:
        """Other buffers, which begin with what is filled of the old ones."""
        if len(ends) <= self.rows or 8 * len(bits) < self.rows or len(data) < self.used_bytes:
            raise IndexError(f"less room than what {self.rows} rows of {self.used_bytes} bytes have filled")
        self._ends = ends
        self._bits = bits
        self._bytes = data
        self._room = min(len(ends) - 1, 8 * len(bits))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _fitting(
        self,
        rows: cython.const[cython.longlong][::1],
        first: cython.Py_ssize_t,
        count: cython.Py_ssize_t,
        part: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """How many of `count` walked records fit, going by the part of them whose start is in column `part`."""
        cell: cython.Py_ssize_t = 8 * first + part + 1
        fit: cython.Py_ssize_t = 0
        # Together they must stay below what an int32 can tell.
        room: cython.longlong = min(len(self._bytes), 0x7FFFFFFF) - self.used_bytes
        count = min(count, self._room - self.rows)
        while fit < count:
            if rows[cell] > 0:
                if rows[cell] > room:
                    self.needed_bytes = rows[cell]
                    break
                room -= rows[cell]
            cell += 8
            fit += 1
        return fit

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _put(
        self,
        buffer: cython.const[cython.uchar][::1],
        rows: cython.const[cython.longlong][::1],
        first: cython.Py_ssize_t,
        count: cython.Py_ssize_t,
        part: cython.Py_ssize_t,
    ) -> cython.void:
        """That part of `count` records, which fit."""
        row: cython.Py_ssize_t = self.rows
        used: cython.Py_ssize_t = self.used_bytes
        cell: cython.Py_ssize_t = 8 * first + part
        length: cython.Py_ssize_t
        for row in range(self.rows, self.rows + count):
            length = rows[cell + 1]
            if length > 0:
                _copy(buffer, rows[cell], length, self._bytes, used)
                used += length
            elif length < 0:
                _clear_bit(self._bits, row)
                self.nulls += 1
            self._ends[row + 1] = used
            cell += 8
        self.rows += count
        self.used_bytes = used

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _put_one(
        self, buffer: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, length: cython.longlong
    ) -> cython.bint:
        """One row; False when it does not fit."""
        if self.rows >= self._room:
            return False
        if length > min(len(self._bytes), 0x7FFFFFFF) - self.used_bytes:
            self.needed_bytes = length
            return False
        if length > 0:
            _copy(buffer, start, length, self._bytes, self.used_bytes)
            self.used_bytes += length
        elif length < 0:
            _clear_bit(self._bits, self.rows)
            self.nulls += 1
        self.rows += 1
        self._ends[self.rows] = self.used_bytes
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _back_to(self, rows: cython.Py_ssize_t, used_bytes: cython.Py_ssize_t, nulls: cython.Py_ssize_t) -> cython.void:
        """As it was."""
        place: cython.Py_ssize_t
        for place in range(rows, self.rows):
            self._bits[place >> 3] = self._bits[place >> 3] | (1 << (place & 7))
        self.rows = rows
        self.used_bytes = used_bytes
        self.nulls = nulls
