# cython: boundscheck=False, wraparound=False
# mypy: disable-error-code="valid-type,untyped-decorator,no-any-return,name-defined,type-arg"
"""Kernel: rows of columns into open record batches, each row into the batch of its partition.

Columns are as Arrow lays them out. Bytes of variable length are an array of n + 1 int64 offsets into one buffer; a null
has a 0 in a bitmap of validity, least significant bit first, and no bitmap means no nulls.

    slot    room for one open batch in `out`; its records begin behind the room for the header
    lane    a partition of a topic; it has a slot while it has records
    topic   its lanes follow each other

A row goes to the partition that it names; else, with a key, to that of the key's murmur2, as Kafka's own clients
choose; else to the one that its topic has for such rows now. The run stops where the caller has something to do, before
the row at hand, and goes on with that row.

Bounds checks are off in C: columns are measured when they are attached, and each row's offsets before they are used.
"""

from __future__ import annotations

import cython

# Why a run has stopped: all rows are taken; the lane has no slot; its slot has no room for the row; the row has no
# topic, a partition that its topic has not, a timestamp below 0, a header without a key; offsets that cannot be.
ROWS_TAKEN, NEEDS_SLOT, SLOT_FULL, NULL_TOPIC, BAD_PARTITION, BAD_TIMESTAMP, BAD_HEADER, BAD_OFFSETS = range(8)
_TAKEN = cython.declare(cython.int, 0)
_NEEDS_SLOT = cython.declare(cython.int, 1)
_FULL = cython.declare(cython.int, 2)
_NULL_TOPIC = cython.declare(cython.int, 3)
_BAD_PARTITION = cython.declare(cython.int, 4)
_BAD_TIMESTAMP = cython.declare(cython.int, 5)
_BAD_HEADER = cython.declare(cython.int, 6)
_BAD_OFFSETS = cython.declare(cython.int, 7)

# The numbers of a slot: bytes taken, with the header; records; their first and their greatest timestamp.
SLOT_USED, SLOT_COUNT, SLOT_BASE_TIMESTAMP, SLOT_MAX_TIMESTAMP, SLOT_NUMBERS = range(5)
_USED = cython.declare(cython.Py_ssize_t, 0)
_COUNT = cython.declare(cython.Py_ssize_t, 1)
_BASE = cython.declare(cython.Py_ssize_t, 2)
_MAX = cython.declare(cython.Py_ssize_t, 3)
_SLOT_NUMBERS = cython.declare(cython.Py_ssize_t, 4)

# The numbers of a topic: its first lane; its partitions; which of them takes rows without a key.
TOPIC_LANE, TOPIC_PARTITIONS, TOPIC_STICKY, TOPIC_NUMBERS = range(4)
_LANE = cython.declare(cython.Py_ssize_t, 0)
_PARTITIONS = cython.declare(cython.Py_ssize_t, 1)
_STICKY = cython.declare(cython.Py_ssize_t, 2)
_TOPIC_NUMBERS = cython.declare(cython.Py_ssize_t, 3)

_MICROS_PER_MS = cython.declare(cython.longlong, 1000)
_LONGEST = cython.declare(cython.longlong, 1 << 40)
"""No buffer is longer: sums of sizes stay far below 63 bits."""

_SEED = cython.declare(cython.ulonglong, 0x9747B28C)
_FACTOR = cython.declare(cython.ulonglong, 0x5BD1E995)
_MASK = cython.declare(cython.ulonglong, 0xFFFFFFFF)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_valid(bitmap: cython.const[cython.uchar][::1], bit: cython.Py_ssize_t) -> cython.bint:
    return len(bitmap) == 0 or (bitmap[bit >> 3] >> (bit & 7)) & 1 != 0


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
def _sized(size: cython.longlong) -> cython.longlong:
    """Bytes of a field of so many, −1 for null, with its length before it."""
    return _size_of(_zigzag(size)) + (size if size > 0 else 0)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _murmur2(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, size: cython.longlong) -> cython.ulonglong:
    """As `client.partitioner` has it."""
    word: cython.ulonglong
    state: cython.ulonglong = size
    state = (state & _MASK) ^ _SEED
    while size >= 4:
        word = data[at + 3]
        word = word << 8 | data[at + 2]
        word = word << 8 | data[at + 1]
        word = word << 8 | data[at]
        word = word * _FACTOR & _MASK
        word = (word ^ word >> 24) * _FACTOR & _MASK
        state = (state * _FACTOR & _MASK) ^ word
        at += 4
        size -= 4
    if size > 0:
        word = 0
        while size > 0:
            size -= 1
            word = word << 8 | data[at + size]
        state = (state ^ word) * _FACTOR & _MASK
    state = (state ^ state >> 13) * _FACTOR & _MASK
    return state ^ state >> 15


@cython.final
@cython.cclass
class RowRun:
    """Of one task; see the module. One thread.

    `lay_out` gives it the slots, and is repeated when there are more of them or of topics; `attach`, `attach_headers`
    the columns of the next rows. `row` is the next row; the caller may pass over one. When `go` stops for want of room,
    `lane` says where.
    """

    row = cython.declare(cython.Py_ssize_t, visibility="public")
    lane = cython.declare(cython.Py_ssize_t, visibility="readonly")

    _out: cython.uchar[::1]
    _slot_bytes: cython.Py_ssize_t
    _slots: cython.longlong[::1]
    _lanes: cython.longlong[::1]
    _topics: cython.longlong[::1]

    _rows: cython.Py_ssize_t
    _now_ms: cython.longlong
    _topic_of: cython.const[cython.int][::1]
    _key_offsets: cython.const[cython.longlong][::1]
    _key_data: cython.const[cython.uchar][::1]
    _key_valid: cython.const[cython.uchar][::1]
    _key_bit: cython.Py_ssize_t
    _value_offsets: cython.const[cython.longlong][::1]
    _value_data: cython.const[cython.uchar][::1]
    _value_valid: cython.const[cython.uchar][::1]
    _value_bit: cython.Py_ssize_t
    _partition_of: cython.const[cython.int][::1]
    _partition_valid: cython.const[cython.uchar][::1]
    _partition_bit: cython.Py_ssize_t
    _time_of: cython.const[cython.longlong][::1]
    _time_valid: cython.const[cython.uchar][::1]
    _time_bit: cython.Py_ssize_t

    _list_offsets: cython.const[cython.longlong][::1]
    _list_valid: cython.const[cython.uchar][::1]
    _list_bit: cython.Py_ssize_t
    _pair_valid: cython.const[cython.uchar][::1]
    _pair_bit: cython.Py_ssize_t
    _name_offsets: cython.const[cython.longlong][::1]
    _name_data: cython.const[cython.uchar][::1]
    _name_valid: cython.const[cython.uchar][::1]
    _name_bit: cython.Py_ssize_t
    _content_offsets: cython.const[cython.longlong][::1]
    _content_data: cython.const[cython.uchar][::1]
    _content_valid: cython.const[cython.uchar][::1]
    _content_bit: cython.Py_ssize_t

    # Of the row at hand.
    _start: cython.longlong
    _size: cython.longlong

    def lay_out(
        self,
        out: cython.uchar[::1],
        slot_bytes: cython.Py_ssize_t,
        slots: cython.longlong[::1],
        lanes: cython.longlong[::1],
        topics: cython.longlong[::1],
    ) -> None:
        """`lanes` has the slot of each lane, −1 for none; `slots` and `topics` as the numbers above say."""
        if slot_bytes < 0 or len(out) // max(slot_bytes, 1) < len(slots) // _SLOT_NUMBERS:
            raise IndexError(f"{len(out)} bytes for {len(slots) // _SLOT_NUMBERS} slots of {slot_bytes}")
        self._out = out
        self._slot_bytes = slot_bytes
        self._slots = slots
        self._lanes = lanes
        self._topics = topics

    def attach(
        self,
        rows: cython.Py_ssize_t,
        now_ms: cython.longlong,
        topic_of: cython.const[cython.int][::1],
        key: tuple,
        value: tuple,
        partition: tuple,
        time: tuple,
    ) -> None:
        """Columns of the next `rows`: (offsets, data, validity, first bit) of keys and values, (values, validity, first
        bit) of partitions and of times in microseconds. `topic_of` is the place of a row's topic among the topics, −1
        for none. Empty columns: every row is of the first topic, has no key, names no partition, is of `now_ms`."""
        self.row = 0
        self._rows = 0  # until all is known to be long enough
        self._now_ms = now_ms
        self._topic_of = topic_of
        self._key_offsets, self._key_data, self._key_valid, self._key_bit = key
        self._value_offsets, self._value_data, self._value_valid, self._value_bit = value
        self._partition_of, self._partition_valid, self._partition_bit = partition
        self._time_of, self._time_valid, self._time_bit = time
        self._list_offsets = self._key_offsets[:0]
        _check_length(len(topic_of), rows, True)
        _check_length(len(self._key_offsets), rows + 1, True)
        _check_length(len(self._value_offsets), rows + 1, False)
        _check_length(len(self._partition_of), rows, True)
        _check_length(len(self._time_of), rows, True)
        _check_bits(self._key_valid, self._key_bit, rows)
        _check_bits(self._value_valid, self._value_bit, rows)
        _check_bits(self._partition_valid, self._partition_bit, rows)
        _check_bits(self._time_valid, self._time_bit, rows)
        self._rows = rows

    def attach_headers(self, lists: tuple, pairs: tuple, name: tuple, content: tuple) -> None:
        """After `attach`: (offsets, validity, first bit) of lists, (validity, first bit) of what is in them, and the
        two columns of that."""
        count: cython.Py_ssize_t
        rows: cython.Py_ssize_t = self._rows
        self._rows = 0
        self._list_offsets, self._list_valid, self._list_bit = lists
        self._pair_valid, self._pair_bit = pairs
        self._name_offsets, self._name_data, self._name_valid, self._name_bit = name
        self._content_offsets, self._content_data, self._content_valid, self._content_bit = content
        _check_length(len(self._list_offsets), rows + 1, False)
        _check_bits(self._list_valid, self._list_bit, rows)
        count = len(self._name_offsets) - 1
        _check_length(len(self._content_offsets), count + 1, False)
        _check_bits(self._pair_valid, self._pair_bit, count)
        _check_bits(self._name_valid, self._name_bit, count)
        _check_bits(self._content_valid, self._content_bit, count)
        self._rows = rows

    def go(self) -> int:
        """Why it has stopped."""
        reason: cython.int
        with cython.nogil:
            reason = self._go()
        return reason

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _go(self) -> cython.int:
        reason: cython.int
        while self.row < self._rows:
            reason = self._put_row()
            if reason != _TAKEN:
                return reason
            self.row += 1
        return _TAKEN

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _find(
        self,
        offsets: cython.const[cython.longlong][::1],
        at: cython.Py_ssize_t,
        limit: cython.Py_ssize_t,
    ) -> cython.bint:
        """Sets where the bytes at place `at` are; false when they are not in a buffer of `limit` bytes."""
        self._start = offsets[at]
        if self._start < 0 or offsets[at + 1] < self._start or offsets[at + 1] > limit:
            return False
        self._size = offsets[at + 1] - self._start
        return True

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _put_number(self, at: cython.Py_ssize_t, number: cython.ulonglong) -> cython.Py_ssize_t:
        while number >= 0x80:
            self._out[at] = (number & 0x7F) | 0x80
            number >>= 7
            at += 1
        self._out[at] = number & 0x7F
        return at + 1

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _put_bytes(
        self,
        at: cython.Py_ssize_t,
        data: cython.const[cython.uchar][::1],
        start: cython.Py_ssize_t,
        size: cython.longlong,
    ) -> cython.Py_ssize_t:
        """A length, −1 for null, and so many bytes."""
        at = self._put_number(at, _zigzag(size))
        if size <= 0:
            return at
        if cython.compiled:
            memcpy(cython.address(self._out[at]), cython.address(data[start]), size)  # noqa: F821
        else:
            self._out[at : at + size] = data[start : start + size]
        return at + size

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _lane_of(self, key_start: cython.Py_ssize_t, key_size: cython.longlong) -> cython.int:
        """Sets `lane`."""
        topic: cython.Py_ssize_t = 0
        partition: cython.longlong
        partitions: cython.longlong
        if len(self._topic_of) > 0:
            topic = self._topic_of[self.row]
            if topic < 0:
                return _NULL_TOPIC
        topic *= _TOPIC_NUMBERS
        partitions = self._topics[topic + _PARTITIONS]
        if len(self._partition_of) > 0 and _is_valid(self._partition_valid, self._partition_bit + self.row):
            partition = self._partition_of[self.row]
            if partition < 0 or partition >= partitions:
                return _BAD_PARTITION
        elif key_size >= 0:
            partition = (_murmur2(self._key_data, key_start, key_size) & 0x7FFFFFFF) % cython.cast(
                cython.ulonglong, partitions
            )
        else:
            partition = self._topics[topic + _STICKY]
        self.lane = self._topics[topic + _LANE] + partition
        return _TAKEN

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _size_of_headers(self, first: cython.longlong, behind: cython.longlong) -> cython.longlong:
        """−1 when one has no key, −2 when its bytes are nowhere."""
        total: cython.longlong = 0
        at: cython.Py_ssize_t
        for at in range(first, behind):
            if not _is_valid(self._pair_valid, self._pair_bit + at):
                return -1
            if not _is_valid(self._name_valid, self._name_bit + at):
                return -1
            if not self._find(self._name_offsets, at, len(self._name_data)):
                return -2
            total += _sized(self._size)
            if not self._find(self._content_offsets, at, len(self._content_data)):
                return -2
            total += _sized(self._size if _is_valid(self._content_valid, self._content_bit + at) else -1)
            if total > _LONGEST:
                return -2
        return total

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _put_headers(
        self, out_at: cython.Py_ssize_t, first: cython.longlong, behind: cython.longlong
    ) -> cython.Py_ssize_t:
        at: cython.Py_ssize_t
        for at in range(first, behind):
            self._find(self._name_offsets, at, len(self._name_data))
            out_at = self._put_bytes(out_at, self._name_data, self._start, self._size)
            self._find(self._content_offsets, at, len(self._content_data))
            if not _is_valid(self._content_valid, self._content_bit + at):
                self._size = -1
            out_at = self._put_bytes(out_at, self._content_data, self._start, self._size)
        return out_at

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _put_row(self) -> cython.int:
        row: cython.Py_ssize_t = self.row
        key_start: cython.Py_ssize_t = 0
        key_size: cython.longlong = -1
        value_start: cython.Py_ssize_t
        value_size: cython.longlong = -1
        first: cython.longlong = 0
        behind: cython.longlong = 0
        headers_size: cython.longlong = 0
        timestamp: cython.longlong = self._now_ms
        slot: cython.Py_ssize_t
        at: cython.Py_ssize_t
        delta: cython.ulonglong
        place: cython.ulonglong
        body: cython.longlong
        reason: cython.int
        if len(self._key_offsets) > 0 and _is_valid(self._key_valid, self._key_bit + row):
            if not self._find(self._key_offsets, row, len(self._key_data)):
                return _BAD_OFFSETS
            key_start, key_size = self._start, self._size
        if not self._find(self._value_offsets, row, len(self._value_data)):
            return _BAD_OFFSETS
        value_start = self._start
        if _is_valid(self._value_valid, self._value_bit + row):
            value_size = self._size
        if len(self._list_offsets) > 0 and _is_valid(self._list_valid, self._list_bit + row):
            if not self._find(self._list_offsets, row, len(self._name_offsets) - 1):
                return _BAD_OFFSETS
            first = self._start
            behind = first + self._size
            headers_size = self._size_of_headers(first, behind)
            if headers_size < 0:
                return _BAD_HEADER if headers_size == -1 else _BAD_OFFSETS
        if len(self._time_of) > 0 and _is_valid(self._time_valid, self._time_bit + row):
            if self._time_of[row] < 0:
                return _BAD_TIMESTAMP
            timestamp = self._time_of[row] // _MICROS_PER_MS
        reason = self._lane_of(key_start, key_size)
        if reason != _TAKEN:
            return reason
        slot = self._lanes[self.lane]
        if slot < 0:
            return _NEEDS_SLOT

        at = slot * self._slot_bytes + self._slots[slot * _SLOT_NUMBERS + _USED]
        place = self._slots[slot * _SLOT_NUMBERS + _COUNT]
        if place == 0:
            delta = 0
        else:
            delta = _zigzag(timestamp - self._slots[slot * _SLOT_NUMBERS + _BASE])
        body = 1 + _size_of(delta) + _size_of(place << 1) + _sized(key_size) + _sized(value_size)
        body += _size_of(_zigzag(behind - first)) + headers_size
        if at + body + _size_of(_zigzag(body)) > (slot + 1) * self._slot_bytes:
            return _FULL

        at = self._put_number(at, _zigzag(body))
        self._out[at] = 0
        at = self._put_number(at + 1, delta)
        at = self._put_number(at, place << 1)
        at = self._put_bytes(at, self._key_data, key_start, key_size)
        at = self._put_bytes(at, self._value_data, value_start, value_size)
        at = self._put_number(at, _zigzag(behind - first))
        at = self._put_headers(at, first, behind)

        slot *= _SLOT_NUMBERS
        self._slots[slot + _USED] = at - slot // _SLOT_NUMBERS * self._slot_bytes
        self._slots[slot + _COUNT] += 1
        if place == 0:
            self._slots[slot + _BASE] = timestamp
            self._slots[slot + _MAX] = timestamp
        elif timestamp > self._slots[slot + _MAX]:
            self._slots[slot + _MAX] = timestamp
        return _TAKEN


@cython.cfunc
def _check_length(found: cython.Py_ssize_t, needed: cython.Py_ssize_t, may_be_empty: cython.bint) -> object:
    if found < needed and not (may_be_empty and found == 0):
        raise IndexError(f"a column of {found} numbers, where {needed} are needed")
    return None


@cython.cfunc
def _check_bits(bitmap: cython.const[cython.uchar][::1], first: cython.Py_ssize_t, needed: cython.Py_ssize_t) -> object:
    if len(bitmap) > 0 and (first < 0 or 8 * len(bitmap) < first + needed):
        raise IndexError(f"a bitmap of {len(bitmap)} bytes for {needed} rows from {first} on")
    return None


def murmur2(data: cython.const[cython.uchar][::1]) -> int:
    """The hash that chooses partitions; unsigned, 32 bits."""
    return _murmur2(data, 0, len(data))
