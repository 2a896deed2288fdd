# cython: boundscheck=False, wraparound=False
# mypy: disable-error-code="valid-type,untyped-decorator,no-any-return,name-defined,union-attr"
"""Kernel: records that were walked, copied into the columns of an Apache Arrow record batch, without the GIL.

For `columns`. A column is filled at a time, as many rows of it as fit into all.
"""

from __future__ import annotations

import cython

if not cython.compiled:
    from tailrace.record.kernels.bytes_column import BytesColumn

# What may be full.
COLUMNS_FULL, KEYS_FULL, VALUES_FULL, HEADERS_FULL = range(1, 5)
_COLUMNS_FULL = cython.declare(cython.int, 1)
_KEYS_FULL = cython.declare(cython.int, 2)
_VALUES_FULL = cython.declare(cython.int, 3)
_HEADERS_FULL = cython.declare(cython.int, 4)

_INT64_MAX = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)
_INT64_MIN = cython.declare(cython.longlong, ~0x7FFFFFFFFFFFFFFF)
_GREATEST_MS = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF // 1000)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _number(
    buffer: cython.const[cython.uchar][::1], position: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    """The zigzag number of five bytes at the most at `position` and the position behind it, −1 when it is no such."""
    value: cython.longlong = 0
    byte: cython.longlong
    shift: cython.int = 0
    while position < end and shift < 35:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    return 0, -1


@cython.final
@cython.cclass
class ColumnSet:
    """Room for the columns of a record batch, and what is filled: `rows`, `rows_without_headers` of which have none.

    Offsets are int64, timestamps int64 in µs (those beyond are the greatest, or the least), timestamp types int32; keys
    and values are a `BytesColumn` each. Headers are a `BytesColumn` each for their keys and their values, where those
    of each row end (int32, from 0 on), and a bit for each row, set before, that is cleared where it has none.

    What a row needs that did not fit is in the columns of bytes, and in `needed_headers` how many headers it has.
    """

    def __init__(
        self,
        offsets: cython.longlong[::1],
        timestamps: cython.longlong[::1],
        types: cython.int[::1],
        keys: BytesColumn | None,
        values: BytesColumn | None,
    ) -> None:
        """As many rows as `offsets` has room for. What is not wanted of the others is empty, or None."""
        self.rows = 0
        self.rows_without_headers = 0
        self.needed_headers = 0
        self.full = 0
        self._row_room = len(offsets)
        self._offsets = offsets
        self._timestamps = timestamps
        self._types = types
        self._wants_keys = keys is not None
        self._keys = keys
        self._wants_values = values is not None
        self._values = values
        self._wants_headers = False

    def add_headers(
        self, ends: cython.int[::1], bits: cython.uchar[::1], keys: BytesColumn, values: BytesColumn
    ) -> None:
        """They are wanted too. Before the first row."""
        if len(ends) <= self._row_room or 8 * len(bits) < self._row_room or self.rows > 0:
            raise IndexError(f"{len(ends)} ends and {len(bits)} bytes of bits for {self._row_room} rows")
        ends[0] = 0
        self._header_ends = ends
        self._header_bits = bits
        self._header_keys = keys
        self._header_values = values
        self._wants_headers = True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _give(
        self,
        buffer: cython.const[cython.uchar][::1],
        walked: cython.const[cython.longlong][::1],
        first: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        timestamp_type: cython.int,
    ) -> cython.Py_ssize_t:
        """Copy the records that were walked into rows `first` to before `end`; returns before which one it stopped,
        with what is full then in `full`."""
        count: cython.Py_ssize_t
        wanted: cython.Py_ssize_t
        while first < end:
            self.full = _COLUMNS_FULL
            count = min(end - first, self._row_room - self.rows)
            if self._wants_keys and count > 0:
                wanted = count
                count = self._keys._fitting(walked, first, wanted, 2)
                if count < wanted:
                    self.full = _KEYS_FULL
            if self._wants_values and count > 0:
                wanted = count
                count = self._values._fitting(walked, first, wanted, 4)
                if count < wanted:
                    self.full = _VALUES_FULL
            if self._wants_headers and count > 0:
                wanted = count
                count = self._put_headers(buffer, walked, first, wanted)
                if count < wanted:
                    self.full = _HEADERS_FULL
            if count <= 0:
                return first
            self._put_numbers(walked, first, count, timestamp_type)
            if self._wants_keys:
                self._keys._put(buffer, walked, first, count, 2)
            if self._wants_values:
                self._values._put(buffer, walked, first, count, 4)
            self.rows += count
            first += count
        return first

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _put_numbers(
        self,
        walked: cython.const[cython.longlong][::1],
        first: cython.Py_ssize_t,
        count: cython.Py_ssize_t,
        timestamp_type: cython.int,
    ) -> cython.void:
        place: cython.Py_ssize_t
        cell: cython.Py_ssize_t = 8 * first
        timestamp: cython.longlong
        for place in range(self.rows, self.rows + count):
            self._offsets[place] = walked[cell]
            cell += 8
        if len(self._timestamps) >= self._row_room:
            cell = 8 * first + 1
            for place in range(self.rows, self.rows + count):
                timestamp = walked[cell]
                if timestamp > _GREATEST_MS:
                    self._timestamps[place] = _INT64_MAX
                elif timestamp < -_GREATEST_MS:
                    self._timestamps[place] = _INT64_MIN
                else:
                    self._timestamps[place] = timestamp * 1000
                cell += 8
        if len(self._types) >= self._row_room:
            for place in range(self.rows, self.rows + count):
                self._types[place] = timestamp_type

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _put_headers(
        self,
        buffer: cython.const[cython.uchar][::1],
        walked: cython.const[cython.longlong][::1],
        first: cython.Py_ssize_t,
        count: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Of `count` records; returns of how many they fit."""
        place: cython.Py_ssize_t
        before: cython.Py_ssize_t
        cell: cython.Py_ssize_t = 8 * first
        for place in range(self.rows, self.rows + count):
            before = self._header_keys.rows
            if not self._put_headers_of(buffer, walked[cell + 6], walked[cell + 7]):
                return place - self.rows
            if self._header_keys.rows == before:
                self._header_bits[place >> 3] = self._header_bits[place >> 3] & (0xFF ^ (1 << (place & 7)))
                self.rows_without_headers += 1
            self._header_ends[place + 1] = self._header_keys.rows
            cell += 8
        return count

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _put_headers_of(
        self, buffer: cython.const[cython.uchar][::1], position: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.bint:
        """The headers at `position`, which were found well formed; False when they do not fit."""
        keys: cython.Py_ssize_t = self._header_keys.rows
        key_bytes: cython.Py_ssize_t = self._header_keys.used_bytes
        value_bytes: cython.Py_ssize_t = self._header_values.used_bytes
        null_values: cython.Py_ssize_t = self._header_values.nulls
        left: cython.longlong
        length: cython.longlong
        size: cython.Py_ssize_t = end - position
        fits: cython.bint = True
        left, position = _number(buffer, position, end)
        self.needed_headers = left
        while fits and position >= 0 and left > 0:
            length, position = _number(buffer, position, end)
            if position < 0 or length < 0 or length > end - position:
                break
            fits = self._header_keys._put_one(buffer, position, length)
            length, position = _number(buffer, position + length, end)
            if position < 0 or length > end - position:
                break
            fits = fits and self._header_values._put_one(buffer, position, length)
            position += max(length, 0)
            left -= 1
        # Ill formed now: others write this buffer. Its CRC no longer tells anything, so neither do its headers.
        if not fits or left != 0:
            self._header_keys._back_to(keys, key_bytes, 0)
            self._header_values._back_to(keys, value_bytes, null_values)
            self._header_keys.needed_bytes = size
            self._header_values.needed_bytes = size
        return fits
