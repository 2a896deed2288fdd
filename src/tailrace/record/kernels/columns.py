# cython: boundscheck=False, wraparound=False
# mypy: disable-error-code="valid-type,untyped-decorator,no-any-return,name-defined"
"""Kernel: the records of many batches as columns, in the layout of Apache Arrow.

Room for the columns comes from the caller, as a `ColumnSet`.

A run goes over batches of format v2 that are whole and have the CRC that they state. Records outside the wanted
offsets and times are left out, and so are control batches. At the first batch that is not like this, or is compressed,
or may belong to an aborted transaction, a run ends, and the caller looks at it alone; the records of such a batch,
decompressed, come here again. It also ends where a column is full, in the middle of a batch if need be, and goes on
there when there is room.

Records are walked some at a time, then copied a column at a time. Both are without the GIL. Bounds checks are off in
C: every read of the buffer stands behind a comparison of our own with an end that was checked against its size, and
none believes what was read before: the buffer may be a file that somebody else writes.
"""

from __future__ import annotations

import cython

if not cython.compiled:
    from tailrace.record.kernels.bytes_column import BytesColumn
    from tailrace.record.kernels.column_set import ColumnSet
    from tailrace.record.kernels.fields import _intact_to
    from tailrace.record.kernels.whole import _are_in_order, _walk

# Why a run has ended, if not because one of the columns is full (1 to 4, see `column_set`). What is left is no whole
# batch; the next batch is for the caller to look at, or does not have the CRC it states, or some of its records are not
# right (it is passed); it begins behind the wanted offsets; there is no room for another gap.
COLUMNS_AT_END, COLUMNS_ODD, COLUMNS_BAD_CRC, COLUMNS_BAD_RECORDS, COLUMNS_BEHIND, GAPS_FULL = range(5, 11)
_AT_END = cython.declare(cython.int, 5)
_ODD = cython.declare(cython.int, 6)
_BAD_CRC = cython.declare(cython.int, 7)
_BAD_RECORDS = cython.declare(cython.int, 8)
_BEHIND = cython.declare(cython.int, 9)
_GAPS_FULL = cython.declare(cython.int, 10)

_GREATEST_OFFSET = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFE)
_INT64_MAX = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)
_INT64_MIN = cython.declare(cython.longlong, ~0x7FFFFFFFFFFFFFFF)
_TWO_TO_31 = cython.declare(cython.longlong, 1 << 31)
_TWO_TO_32 = cython.declare(cython.longlong, 1 << 32)


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


def new_bytes_column(ends: cython.int[::1], bits: cython.uchar[::1], data: cython.uchar[::1]) -> BytesColumn:
    """Empty, of the form that `ColumnRun` takes."""
    return BytesColumn(ends, bits, data)


def new_column_set(
    offsets: cython.longlong[::1],
    timestamps: cython.longlong[::1],
    types: cython.int[::1],
    keys: BytesColumn | None,
    values: BytesColumn | None,
) -> ColumnSet:
    """The same; see there."""
    return ColumnSet(offsets, timestamps, types, keys, values)


@cython.final
@cython.cclass
class ColumnRun:
    """Runs over one buffer after the other, into one set of columns after the other; see the module. One thread.

    The caller begins a buffer (`begin_batches` or `begin_records`), then calls `take` with it again and again, and each
    time does something about what it returns: columns that are full grow, or others are begun. Transactional and
    control batches that end at `aborted_from` or above are odd: below, no transaction is aborted.

    `next_offset` is behind the last batch seen. `position` is behind the last one taken, or passed because its records
    are bad: then `batch_start` is where it began, and the offsets from `bad_from` to before `next_offset` are lost.
    The first `gap_count` pairs of `gaps` are the wanted offsets that no batch had, until `clear_gaps`.
    """

    next_offset = cython.declare(cython.longlong, visibility="public")
    aborted_from = cython.declare(cython.longlong, visibility="public")
    gap_count = cython.declare(cython.Py_ssize_t, visibility="readonly")
    position = cython.declare(cython.Py_ssize_t, visibility="readonly")
    batch_start = cython.declare(cython.Py_ssize_t, visibility="readonly")
    bad_from = cython.declare(cython.longlong, visibility="readonly")

    _end_offset: cython.longlong
    _first_ms: cython.longlong
    _last_ms: cython.longlong
    _gaps: cython.longlong[::1]

    _columns: ColumnSet
    _walked: cython.longlong[::1]  # records in the columns of `whole`, all of the same timestamp type
    _walked_count: cython.Py_ssize_t
    _given: cython.Py_ssize_t
    _walked_type: cython.int

    _size: cython.Py_ssize_t
    _has_batches: cython.bint
    _intact_to: cython.Py_ssize_t  # batches that end here or before have the CRCs they state
    # Of a batch: whether records are left to walk, and how many; where the next one is, and the last one ends; what
    # they count from; the least offset that the next may have, and the least that is wanted.
    _is_inside: cython.bint
    _left: cython.longlong
    _inside: cython.Py_ssize_t
    _batch_end: cython.Py_ssize_t
    _base_offset: cython.longlong
    _last_offset: cython.longlong
    _base_timestamp: cython.longlong
    _type: cython.int
    _expected: cython.longlong
    _wanted_from: cython.longlong
    _has_unwanted: cython.bint

    def __init__(
        self,
        start_offset: cython.longlong,
        end_offset: cython.longlong,
        first_ms: cython.longlong,
        last_ms: cython.longlong,
        walked: cython.longlong[::1],
        gaps: cython.longlong[::1],
        columns: ColumnSet,
    ) -> None:
        """Wanted are the offsets from `start_offset` to before `end_offset` with timestamps from `first_ms` to
        `last_ms`. Room: `walked` for eight numbers a record, `gaps` for two a gap."""
        if start_offset < 0 or len(walked) < 8 or len(gaps) < 2:
            raise IndexError(f"from offset {start_offset} with room for {len(walked)} and {len(gaps)} numbers")
        self.next_offset = start_offset
        self.aborted_from = _INT64_MAX
        self.gap_count = 0
        self.bad_from = 0
        self._end_offset = end_offset
        self._first_ms = first_ms
        self._last_ms = last_ms
        self._walked = walked
        self._gaps = gaps
        self._columns = columns
        self._walked_count = 0
        self._given = 0
        self._walked_type = 0
        self._begin(0, 0, True)

    @cython.cfunc
    def _begin(self, size: cython.Py_ssize_t, position: cython.Py_ssize_t, has_batches: cython.bint) -> cython.void:
        self.position = position
        self.batch_start = position
        self._size = size
        self._has_batches = has_batches
        self._intact_to = 0
        self._is_inside = False
        self._batch_end = position

    def clear_gaps(self) -> None:
        self.gap_count = 0

    def begin_columns(self, columns: ColumnSet) -> None:
        """Other columns from now on."""
        self._columns = columns

    def begin_batches(self, size: cython.Py_ssize_t, position: cython.Py_ssize_t) -> None:
        """A buffer of `size` bytes with batches from `position` on. What was walked of another has been taken."""
        if position < 0 or position > size or self._given != self._walked_count:
            raise IndexError(f"position {position} of {size}; {self._walked_count - self._given} records are left")
        self._begin(size, position, True)

    def begin_records(
        self,
        size: cython.Py_ssize_t,
        count: cython.longlong,
        base_offset: cython.longlong,
        last_offset: cython.longlong,
        base_timestamp: cython.longlong,
        timestamp_type: cython.int,
    ) -> None:
        """A buffer of `size` bytes that is all records of one batch. There is room for a gap.

        `base_timestamp` is what the records count from, or under LogAppendTime the one that all have.
        """
        if size < 0 or self._given != self._walked_count or 2 * self.gap_count > len(self._gaps) - 2:
            raise IndexError(f"{self._walked_count - self._given} records and {self.gap_count} gaps are left")
        if base_offset < 0 or last_offset < base_offset or last_offset > _GREATEST_OFFSET:
            raise IndexError(f"no batch goes from offset {base_offset} to {last_offset}")
        self._begin(size, 0, False)
        self.position = size
        self._enter(0, size, count, base_offset, last_offset, base_timestamp, timestamp_type)

    def pass_batch(self, base_offset: cython.longlong, last_offset: cython.longlong) -> None:
        """A batch with these offsets was seen, and none of its records is wanted. There is room for a gap."""
        if 2 * self.gap_count > len(self._gaps) - 2 or last_offset > _GREATEST_OFFSET:
            raise IndexError(f"offset {last_offset}, {self.gap_count} gaps are left")
        self._saw(base_offset, last_offset)

    def take(self, buffer: cython.const[cython.uchar][::1]) -> int:
        """Fill the columns from the buffer that was begun, and say why that ended."""
        reason: cython.int
        if len(buffer) != self._size:
            raise IndexError(f"a buffer of {self._size} bytes was begun, this one has {len(buffer)}")
        with cython.nogil:
            reason = self._take(buffer)
        return reason

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _take(self, buffer: cython.const[cython.uchar][::1]) -> cython.int:
        ended: cython.int
        while self._give(buffer):
            ended = self._gather(buffer)
            if ended == _BAD_RECORDS or (ended != 0 and self._give(buffer)):
                return ended
        return self._columns.full

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _give(self, buffer: cython.const[cython.uchar][::1]) -> cython.bint:
        """Copy what was walked into the columns; False when it does not fit."""
        if self._given < self._walked_count:
            self._given = self._columns._give(buffer, self._walked, self._given, self._walked_count, self._walked_type)
        return self._given == self._walked_count

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _gather(self, buffer: cython.const[cython.uchar][::1]) -> cython.int:
        """Walk as many records as there is room for; 0, or why there are no more."""
        reason: cython.int
        self._given = 0
        self._walked_count = 0
        while self._walked_count < len(self._walked) // 8:
            if self._is_inside:
                reason = self._walk_some(buffer)
            elif self._has_batches:
                reason = self._next_batch(buffer)
            else:
                reason = _AT_END
            if reason != 0:
                return 0 if reason < 0 else reason
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _next_batch(self, buffer: cython.const[cython.uchar][::1]) -> cython.int:
        """Look at the batch at `position`, and move behind it; 0, or why that was not done."""
        start: cython.Py_ssize_t = self.position
        behind: cython.Py_ssize_t
        length: cython.longlong
        base_offset: cython.longlong
        delta: cython.longlong
        attributes: cython.int
        if self.next_offset >= self._end_offset:
            return _BEHIND
        if self._size - start < 61:
            return _AT_END if self._size - start < 12 else _ODD
        length = _int32(buffer, start + 8)
        if buffer[start + 16] != 2 or length < 49:
            return _ODD
        if length > self._size - start - 12:
            return _AT_END
        behind = start + 12 + length
        base_offset = _int64(buffer, start)
        delta = _int32(buffer, start + 23)
        attributes = buffer[start + 22]
        if base_offset < 0 or delta < 0 or base_offset > _GREATEST_OFFSET - delta:
            return _ODD
        if 2 * self.gap_count > len(self._gaps) - 2:
            return _GAPS_FULL
        if base_offset >= self._end_offset:
            self._saw(base_offset, base_offset - 1)
            return _BEHIND
        if attributes & 0x07 or (attributes & 0x30 and base_offset + delta >= self.aborted_from):
            return _ODD
        if behind > self._intact_to:
            self._intact_to = _intact_to(buffer, start, behind, self._size)
        if behind > self._intact_to:
            return _BAD_CRC
        self.batch_start = start
        self.position = behind
        if attributes & 0x20 or _int64(buffer, start + 35) < self._first_ms:
            self._saw(base_offset, base_offset + delta)
        else:
            self._enter(
                start + 61,
                behind,
                _int32(buffer, start + 57),
                base_offset,
                base_offset + delta,
                _int64(buffer, start + (35 if attributes & 0x08 else 27)),
                (attributes & 0x08) >> 3,
            )
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _saw(self, base_offset: cython.longlong, last_offset: cython.longlong) -> cython.void:
        """A batch with these offsets. There is room for a gap."""
        behind_gap: cython.longlong = min(base_offset, self._end_offset)
        if behind_gap > self.next_offset:
            self._gaps[2 * self.gap_count] = self.next_offset
            self._gaps[2 * self.gap_count + 1] = behind_gap
            self.gap_count += 1
            self.next_offset = behind_gap
        self.next_offset = max(self.next_offset, last_offset + 1)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _enter(
        self,
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        count: cython.longlong,
        base_offset: cython.longlong,
        last_offset: cython.longlong,
        base_timestamp: cython.longlong,
        timestamp_type: cython.int,
    ) -> cython.void:
        """A batch whose records are wanted, unless they were seen before or lie behind."""
        self._wanted_from = self.next_offset
        self._saw(base_offset, last_offset)
        self._is_inside = last_offset >= self._wanted_from and base_offset < self._end_offset
        self._inside = start
        self._batch_end = end
        self._left = count
        self._base_offset = base_offset
        self._last_offset = last_offset
        self._base_timestamp = base_timestamp
        self._type = timestamp_type
        self._expected = base_offset
        self._has_unwanted = (
            base_offset < self._wanted_from
            or last_offset >= self._end_offset
            or self._first_ms > _INT64_MIN
            or self._last_ms < _INT64_MAX
        )

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _walk_some(self, buffer: cython.const[cython.uchar][::1]) -> cython.int:
        """More records of the batch; 0, the fault that they have, or −1 when those before must be given first."""
        row: cython.Py_ssize_t = self._walked_count
        count: cython.longlong = min(self._left, len(self._walked) // 8 - row)
        taken: cython.longlong
        is_short: cython.bint
        if row > 0 and self._type != self._walked_type:
            return -1
        self._walked_type = self._type
        if self._left < 0 or self._left > (self._batch_end - self._inside) // 7:
            return self._bad()
        taken = _walk(
            buffer,
            self._inside,
            self._batch_end,
            count,
            self._base_offset,
            self._base_timestamp,
            self._type == 1,
            self._walked,
            row,
        )
        is_short = 0 <= taken < count
        if taken < 0:  # all of `count`, and not the last of the bytes
            taken = count
        if not _are_in_order(self._walked, row, taken, self._expected, self._last_offset):
            return self._bad()
        if taken > 0:
            self._expected = self._walked[8 * (row + taken) - 8] + 1
            self._inside = self._walked[8 * (row + taken) - 1]
            self._left -= taken
            self._walked_count = self._sift(row, taken) if self._has_unwanted else row + taken
        if is_short or (self._left == 0 and self._inside != self._batch_end):
            return self._bad()
        self._is_inside = self._left > 0
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _bad(self) -> cython.int:
        self._is_inside = False
        self.bad_from = max(self._expected, self._wanted_from)
        return _BAD_RECORDS

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _sift(self, row: cython.Py_ssize_t, count: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Leave only what is wanted of the walked records from `row` on; returns behind which row it ends."""
        place: cython.Py_ssize_t
        column: cython.Py_ssize_t
        offset: cython.longlong
        timestamp: cython.longlong
        for place in range(row, row + count):
            offset = self._walked[8 * place]
            timestamp = self._walked[8 * place + 1]
            if offset < self._wanted_from or offset >= self._end_offset:
                continue
            if timestamp < self._first_ms or timestamp > self._last_ms:
                continue
            for column in range(8):
                self._walked[8 * row + column] = self._walked[8 * place + column]
            row += 1
        return row
