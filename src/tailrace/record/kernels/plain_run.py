# cython: boundscheck=False, wraparound=False
# mypy: disable-error-code="valid-type,untyped-decorator,no-any-return"
"""Kernel: compaction of plain batches, as many at a time as a buffer holds.

A batch is plain when it is of format v2, uncompressed, no control batch, has no more records than there are rows, and
its records' fate depends on nothing but keys and times: it does not belong to a transaction that may be aborted, and is
none of those that stay even when they are empty. It must be sound: whole, in its place in the order of offsets, and
with the CRC that it states. At the first batch that is not all of this a run ends, and the caller looks at it alone.

    map     enters the keys of a run into the table of `offset_map`
    sift    writes what stays of a run to another buffer: batches that lose nothing as they are, others anew as
            `record.filter` tells, without those that lose all

Both are without the GIL from the first batch to the last. Bounds checks are off in C: every read of the buffer stands
behind a comparison of our own with an end that was checked against the buffer's size.
"""

from __future__ import annotations

import cython

if not cython.compiled:
    from tailrace.record.kernels.crc import _crc
    from tailrace.record.kernels.fields import _copy, _int32, _int64, _intact_to, _put_int32, _put_int64, _uint32
    from tailrace.record.kernels.offset_map import _keep_rows, _put_rows
    from tailrace.record.kernels.rebuild import _rebuild
    from tailrace.record.kernels.whole import _are_in_order, _walk

# Why a run has ended: all is taken; the next batch is not plain and sound, or not whole; its records are not what it
# states; the table is full; there is no room for what may stay of it.
STOP_AT_END, STOP_ODD, STOP_BAD_RECORDS, STOP_TABLE_FULL, STOP_OUT_FULL = range(5)
_AT_END = cython.declare(cython.int, 0)
_ODD = cython.declare(cython.int, 1)
_BAD_RECORDS = cython.declare(cython.int, 2)
_TABLE_FULL = cython.declare(cython.int, 3)
_OUT_FULL = cython.declare(cython.int, 4)
_NO_ROOM = cython.declare(cython.int, 5)  # for more batches before those that were taken are dealt with

_GREATEST_GROWTH = cython.declare(cython.Py_ssize_t, 13)  # as in `rebuild`
_GREATEST_LENGTH = cython.declare(cython.longlong, 1 << 30)  # what is written anew cannot leave 31 bits
_RECORDS_TOGETHER = cython.declare(cython.Py_ssize_t, 1024)  # their rows, and what they are of, stay in a cache
_UNBOUNDED = cython.declare(cython.Py_ssize_t, 1 << 62)

_TRANSACTIONAL_BIT = cython.declare(cython.int, 0x10)
_HORIZON_BIT = cython.declare(cython.int, 0x40)


@cython.final
@cython.cclass
class PlainRun:
    """Runs of one segment after the other; see the module. One thread at a time.

    The caller sets where the batches belong: `next_offset` is the least that the next one may begin at, 0 at least;
    none ends at `end_offset` or above. Transactional batches that end at `aborted_from` or above are not plain, nor is
    any that ends at `framed_from` or above.

    After `map` and `sift`: `position` and `next_offset` are behind what was taken, `reason` is why it ended there, and
    the first `seen_count` of `seen` are the producers of its transactional batches.
    """

    next_offset = cython.declare(cython.longlong, visibility="public")
    end_offset = cython.declare(cython.longlong, visibility="public")
    aborted_from = cython.declare(cython.longlong, visibility="public")
    framed_from = cython.declare(cython.longlong, visibility="public")
    position = cython.declare(cython.Py_ssize_t, visibility="readonly")
    reason = cython.declare(cython.int, visibility="readonly")
    seen_count = cython.declare(cython.Py_ssize_t, visibility="readonly")

    # Of `map`.
    entries = cython.declare(cython.longlong, visibility="readonly")
    latest_offset = cython.declare(cython.longlong, visibility="readonly")

    # Of `sift`.
    records_read = cython.declare(cython.longlong, visibility="readonly")
    records_kept = cython.declare(cython.longlong, visibility="readonly")
    keyless = cython.declare(cython.longlong, visibility="readonly")
    written = cython.declare(cython.Py_ssize_t, visibility="readonly")
    made_count = cython.declare(cython.Py_ssize_t, visibility="readonly")

    _rows: cython.longlong[::1]
    _kept: cython.uchar[::1]
    _seen: cython.longlong[::1]
    # Those that were taken and not dealt with yet: how many batches, records and bytes, at the most, to write.
    _batches: cython.Py_ssize_t
    _records: cython.Py_ssize_t
    _bytes: cython.Py_ssize_t
    _starts: cython.Py_ssize_t
    _keeps_tombstones: cython.bint
    _intact_to: cython.Py_ssize_t  # batches that end here or before have the CRCs they state

    def __init__(
        self,
        rows: cython.longlong[::1],
        kept: cython.uchar[::1],
        seen: cython.longlong[::1],
    ) -> None:
        """Room: `rows` for eight numbers a record, `kept` for a mark a record, `seen` for producers."""
        if len(kept) < len(rows) // 8:
            raise IndexError(f"{len(kept)} marks for {len(rows) // 8} records")
        self._rows = rows
        self._kept = kept
        self._seen = seen
        self.next_offset = 0
        self.end_offset = 0
        self.aborted_from = 0
        self.framed_from = 0
        self.reason = 0
        self.entries = 0
        self.latest_offset = -1
        self._keeps_tombstones = True
        self._begin(0, 0, 0)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _begin(
        self, position: cython.Py_ssize_t, written: cython.Py_ssize_t, made_count: cython.Py_ssize_t
    ) -> cython.void:
        self.position = position
        self.written = written
        self.made_count = made_count
        self.seen_count = 0
        self.records_read = 0
        self.records_kept = 0
        self.keyless = 0
        self._intact_to = 0
        self._taken()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _taken(self) -> cython.void:
        """What was taken is dealt with."""
        self._batches = 0
        self._records = 0
        self._bytes = 0
        self._starts = self.position

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _take(
        self,
        buffer: cython.const[cython.uchar][::1],
        end: cython.Py_ssize_t,
        now_ms: cython.longlong,
        room_bytes: cython.Py_ssize_t,
        room_batches: cython.Py_ssize_t,
    ) -> cython.int:
        """Prove and walk the batch at `position`, and move on; 0, or why that was not done.

        The room is for all that is written.
        """
        start: cython.Py_ssize_t = self.position
        behind: cython.Py_ssize_t
        length: cython.longlong
        count: cython.longlong
        delta: cython.longlong
        base_offset: cython.longlong
        attributes: cython.int
        same_timestamp: cython.bint
        keeps_tombstones: cython.bint
        if end - start < 61 or buffer[start + 16] != 2:
            return _ODD
        length = _int32(buffer, start + 8)
        if length < 49 or length > end - start - 12 or length > _GREATEST_LENGTH:
            return _ODD
        behind = start + 12 + length
        base_offset = _int64(buffer, start)
        delta = _int32(buffer, start + 23)
        attributes = buffer[start + 22]
        count = _int32(buffer, start + 57)
        if base_offset < self.next_offset or delta < 0 or base_offset > self.end_offset - 1 - delta:
            return _ODD
        if attributes & 0x27 or count < 0 or count > len(self._rows) // 8:
            return _ODD
        if base_offset + delta >= self.framed_from:
            return _ODD
        if attributes & _TRANSACTIONAL_BIT and (
            base_offset + delta >= self.aborted_from or self.seen_count >= len(self._seen)
        ):
            return _ODD
        keeps_tombstones = not (attributes & _HORIZON_BIT) or now_ms < _int64(buffer, start + 27)
        if self._batches >= room_batches - self.made_count:
            return _NO_ROOM
        if self._records > 0 and self._records + count > min(len(self._rows) // 8, _RECORDS_TOGETHER):
            return _NO_ROOM
        if behind - start + _GREATEST_GROWTH * count > room_bytes - self.written - self._bytes:
            return _NO_ROOM
        if self._batches > 0 and keeps_tombstones != self._keeps_tombstones:
            return _NO_ROOM
        if behind > self._intact_to:
            self._intact_to = _intact_to(buffer, start, behind, end)
        if behind > self._intact_to:
            return _ODD
        same_timestamp = (attributes & 0x08) != 0
        if count > (behind - start - 61) // 7 or count != _walk(
            buffer,
            start + 61,
            behind,
            count,
            base_offset,
            _int64(buffer, start + (35 if same_timestamp else 27)),
            same_timestamp,
            self._rows,
            self._records,
        ):
            return _BAD_RECORDS
        # The table's marks go by offset: were one of them another record's, that one would be lost.
        if not _are_in_order(self._rows, self._records, count, base_offset, base_offset + delta):
            return _BAD_RECORDS
        if attributes & _TRANSACTIONAL_BIT:
            self._saw(_int64(buffer, start + 43))
        self._keeps_tombstones = keeps_tombstones
        self._batches += 1
        self._records += count
        self._bytes += behind - start + _GREATEST_GROWTH * count
        self.position = behind
        self.next_offset = base_offset + delta + 1
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _saw(self, producer_id: cython.longlong) -> cython.void:
        if self.seen_count == 0 or self._seen[self.seen_count - 1] != producer_id:
            self._seen[self.seen_count] = producer_id
            self.seen_count += 1

    def map(
        self,
        buffer: cython.const[cython.uchar][::1],
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        table: cython.ulonglong[::1],
        entries: cython.longlong,
        limit: cython.longlong,
        secret_low: cython.ulonglong,
        secret_high: cython.ulonglong,
        from_offset: cython.longlong,
        obsolete: cython.uchar[::1],
        obsolete_from: cython.longlong,
    ) -> int:
        """Enter the keys of the batches in `buffer[start:end]`, as `put_rows` does; returns the reason it ended.

        `entries` is then what is in the table, and everything up to `latest_offset` was entered, −1 when nothing was.
        """
        if start < 0 or start > end or end > len(buffer):
            raise IndexError(f"[{start}:{end}] is outside a buffer of {len(buffer)} bytes")
        if len(table) < 3 or min(from_offset, obsolete_from, self.next_offset, self.end_offset) < 0:
            raise IndexError(f"{len(table)} cells; offsets from {from_offset}, {self.next_offset} to {self.end_offset}")
        self.entries = entries
        self.latest_offset = -1
        self._begin(start, 0, 0)
        with cython.nogil:
            self._map(buffer, end, table, limit, secret_low, secret_high, from_offset, obsolete, obsolete_from)
        return self.reason

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _map(
        self,
        buffer: cython.const[cython.uchar][::1],
        end: cython.Py_ssize_t,
        table: cython.ulonglong[::1],
        limit: cython.longlong,
        secret_low: cython.ulonglong,
        secret_high: cython.ulonglong,
        from_offset: cython.longlong,
        obsolete: cython.uchar[::1],
        obsolete_from: cython.longlong,
    ) -> cython.void:
        stopped: cython.int
        put: cython.Py_ssize_t
        last_put: cython.longlong
        while True:
            stopped = 0
            while stopped == 0 and self.position < end:
                stopped = self._take(buffer, end, 0, _UNBOUNDED, _UNBOUNDED)
            put, self.entries, last_put = _put_rows(
                table,
                self.entries,
                limit,
                secret_low,
                secret_high,
                buffer,
                self._rows,
                self._records,
                from_offset,
                obsolete,
                obsolete_from,
            )
            if put != self._records:
                self.latest_offset = max(self.latest_offset, last_put)
                self.reason = _TABLE_FULL
                return
            if self._batches > 0:
                self.latest_offset = self.next_offset - 1
            self._taken()
            if stopped != _NO_ROOM:
                self.reason = stopped  # 0 is _AT_END
                return

    def sift(
        self,
        buffer: cython.const[cython.uchar][::1],
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        table: cython.ulonglong[::1],
        secret_low: cython.ulonglong,
        secret_high: cython.ulonglong,
        latest_offset: cython.longlong,
        obsolete: cython.const[cython.uchar][::1],
        obsolete_from: cython.longlong,
        now_ms: cython.longlong,
        horizon_ms: cython.longlong,
        out: cython.uchar[::1],
        written: cython.Py_ssize_t,
        made: cython.longlong[::1],
        made_count: cython.Py_ssize_t,
    ) -> int:
        """Write what stays of the batches in `buffer[start:end]`, by the rule of `keep_rows`; returns the reason.

        A horizon at or before `now_ms` has passed; `horizon_ms` is the one that a batch gets which has none and keeps a
        tombstone. `out` needs 13 bytes a record more than the batch has, or the run ends before it.

        `written` bytes of `out` are `made_count` batches, with a row for each in `made` in the columns of `batch_run`;
        what is written comes behind them.
        """
        if start < 0 or start > end or end > len(buffer):
            raise IndexError(f"[{start}:{end}] is outside a buffer of {len(buffer)} bytes")
        if len(table) < 3 or min(obsolete_from, self.next_offset, self.end_offset) < 0:
            raise IndexError(f"{len(table)} cells; offsets from {self.next_offset} to {self.end_offset}")
        if written < 0 or written > len(out) or made_count < 0 or made_count > len(made) // 8:
            raise IndexError(f"{made_count} batches in {written} bytes: there are {len(made) // 8} and {len(out)}")
        self._begin(start, written, made_count)
        with cython.nogil:
            self._sift(
                buffer,
                end,
                table,
                secret_low,
                secret_high,
                latest_offset,
                obsolete,
                obsolete_from,
                now_ms,
                horizon_ms,
                out,
                made,
            )
        return self.reason

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _sift(
        self,
        buffer: cython.const[cython.uchar][::1],
        end: cython.Py_ssize_t,
        table: cython.ulonglong[::1],
        secret_low: cython.ulonglong,
        secret_high: cython.ulonglong,
        latest_offset: cython.longlong,
        obsolete: cython.const[cython.uchar][::1],
        obsolete_from: cython.longlong,
        now_ms: cython.longlong,
        horizon_ms: cython.longlong,
        out: cython.uchar[::1],
        made: cython.longlong[::1],
    ) -> cython.void:
        stopped: cython.int
        is_stuck: cython.bint
        while True:
            stopped = 0
            while stopped == 0 and self.position < end:
                stopped = self._take(buffer, end, now_ms, len(out), len(made) // 8)
            self.keyless += _keep_rows(
                table,
                secret_low,
                secret_high,
                latest_offset,
                self._keeps_tombstones,
                buffer,
                self._rows,
                self._records,
                self._kept,
                0,
                obsolete,
                obsolete_from,
            )
            if not self._write(buffer, horizon_ms, out, made):
                self.reason = _BAD_RECORDS
                return
            is_stuck = self._batches == 0
            self._taken()
            if stopped != _NO_ROOM or is_stuck:
                self.reason = _OUT_FULL if stopped == _NO_ROOM else stopped  # 0 is _AT_END
                return

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _write(
        self,
        buffer: cython.const[cython.uchar][::1],
        horizon_ms: cython.longlong,
        out: cython.uchar[::1],
        made: cython.longlong[::1],
    ) -> cython.bint:
        """What stays of the batches that were taken."""
        start: cython.Py_ssize_t = self._starts
        behind: cython.Py_ssize_t
        mark: cython.Py_ssize_t = 0
        count: cython.Py_ssize_t
        kept: cython.Py_ssize_t
        record: cython.Py_ssize_t
        end: cython.Py_ssize_t
        gets_horizon: cython.bint
        for _ in range(self._batches):
            behind = start + 12 + _int32(buffer, start + 8)
            count = _int32(buffer, start + 57)
            kept = 0
            gets_horizon = False
            for record in range(mark, mark + count):
                kept += self._kept[record] != 0
                gets_horizon |= self._kept[record] == 2
            gets_horizon &= not (buffer[start + 22] & _HORIZON_BIT)
            self.records_read += count
            self.records_kept += kept
            if kept > 0:
                end = self.written + behind - start
                if kept == count and not gets_horizon:
                    _copy(buffer, start, behind - start, out, self.written)
                else:
                    end = self._write_anew(buffer, start, behind, mark, kept, gets_horizon, horizon_ms, out)
                if end < 0:
                    return False
                self._made_to(end, out, made)
            mark += count
            start = behind
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _write_anew(
        self,
        buffer: cython.const[cython.uchar][::1],
        start: cython.Py_ssize_t,
        behind: cython.Py_ssize_t,
        mark: cython.Py_ssize_t,
        kept: cython.Py_ssize_t,
        gets_horizon: cython.bint,
        horizon_ms: cython.longlong,
        out: cython.uchar[::1],
    ) -> cython.Py_ssize_t:
        """The batch with `kept` of its records, whose marks are from `mark` on; returns where it ends, −1 if it does
        not have the records that it had."""
        made: cython.Py_ssize_t = self.written
        end: cython.Py_ssize_t
        attributes: cython.int = buffer[start + 22]
        same_timestamp: cython.bint = (attributes & 0x08) != 0
        base_timestamp: cython.longlong = _int64(buffer, start + (35 if same_timestamp else 27))
        max_timestamp: cython.longlong
        if not gets_horizon:
            horizon_ms = _int64(buffer, start + 27)
        end, base_timestamp, max_timestamp = _rebuild(
            buffer,
            start + 61,
            behind,
            self._kept,
            mark,
            _int32(buffer, start + 57),
            base_timestamp,
            same_timestamp,
            gets_horizon or (attributes & _HORIZON_BIT) != 0,
            horizon_ms,
            out,
            made + 61,
        )
        if end < 0:
            return end
        _copy(buffer, start, 61, out, made)
        _put_int32(out, made + 8, end - made - 12)
        if gets_horizon:
            out[made + 22] = attributes | _HORIZON_BIT
        _put_int64(out, made + 27, base_timestamp)
        if not same_timestamp:
            _put_int64(out, made + 35, max_timestamp)
        _put_int32(out, made + 57, kept)
        _put_int32(out, made + 17, _crc(out, made + 21, end))
        return end

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _made_to(
        self, end: cython.Py_ssize_t, out: cython.const[cython.uchar][::1], made: cython.longlong[::1]
    ) -> cython.void:
        """A batch was written up to `end`."""
        cell: cython.Py_ssize_t = 8 * self.made_count
        start: cython.Py_ssize_t = self.written
        made[cell] = start
        made[cell + 1] = end
        made[cell + 2] = _uint32(out, start + 17)
        made[cell + 3] = _int64(out, start) + _int32(out, start + 23)
        made[cell + 4] = _int64(out, start + 35)
        made[cell + 5] = _int64(out, start + 43)
        made[cell + 6] = _int32(out, start + 51) >> 16
        made[cell + 7] = out[start + 22]
        self.made_count += 1
        self.written = end
