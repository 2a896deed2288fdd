# cython: boundscheck=False, wraparound=False
# mypy: disable-error-code="valid-type,untyped-decorator,no-any-return"
"""Kernel: checks the records of a v2 batch byte by byte. It can stop and go on anywhere, and names the first fault.

    field               type      the record is at fault when it is
    length              varint    negative, or its fields end before or behind it
    attributes          byte      (unused: any value is fine)
    timestamp delta     varlong   out of the allowed range with the base timestamp; −1 stands for none and is allowed
    offset delta        varint    not the record's place in the batch
    key length, key     varint    below −1 (−1 is null), or null where a key is required
    value length, value varint    below −1 (−1 is null)
    header count        varint    negative
    key length, key     varint    negative: a header's key is never null
    value length, value varint    below −1 (−1 is null)

The verdict depends on the bytes alone, not on where they were cut into pieces. Keys and values are skipped, so a record
may be any number of times as long as a piece. `whole` is the fast way for records that need none of this.
"""

from __future__ import annotations

import cython

# The first fault by its status; {found} is the value at fault, {record} the index of the record.
FAULTS = {
    1: "the batch states {found} records",
    2: "its length is {found}",
    3: "it has a number with more bits than its type",
    4: "its fields go beyond its stated length",
    5: "its fields end {found} bytes before its stated length",
    6: "its offset delta is {found}, not {record}",
    7: "its key length is {found}",
    8: "it has no key, and a compacted topic requires one",
    9: "its timestamp {found} is out of the allowed range",
    10: "its value length is {found}",
    11: "its header count is {found}",
    12: "it has a header key of length {found}",
    13: "it has a header value of length {found}",
    14: "the batch ends within it",
    15: "the batch ends before it but states {found} records",
    16: "the batch states {record} records but goes on behind them",
}
NO_KEY_FAULT = 8
TIMESTAMP_FAULT = 9

_BAD_COUNT = cython.declare(cython.int, 1)
_BAD_LENGTH = cython.declare(cython.int, 2)
_BAD_NUMBER = cython.declare(cython.int, 3)
_OVERRUN = cython.declare(cython.int, 4)
_UNDERRUN = cython.declare(cython.int, 5)
_BAD_OFFSET = cython.declare(cython.int, 6)
_BAD_KEY = cython.declare(cython.int, 7)
_NO_KEY = cython.declare(cython.int, 8)
_BAD_TIMESTAMP = cython.declare(cython.int, 9)
_BAD_VALUE = cython.declare(cython.int, 10)
_BAD_HEADER_COUNT = cython.declare(cython.int, 11)
_BAD_HEADER_KEY = cython.declare(cython.int, 12)
_BAD_HEADER_VALUE = cython.declare(cython.int, 13)
_TRUNCATED = cython.declare(cython.int, 14)
_MISSING = cython.declare(cython.int, 15)
_SURPLUS = cython.declare(cython.int, 16)

# The field to be read next.
_AT_LENGTH = cython.declare(cython.int, 0)
_AT_ATTRIBUTES = cython.declare(cython.int, 1)
_AT_TIMESTAMP = cython.declare(cython.int, 2)
_AT_OFFSET = cython.declare(cython.int, 3)
_AT_KEY = cython.declare(cython.int, 4)
_AT_VALUE = cython.declare(cython.int, 5)
_AT_HEADER_COUNT = cython.declare(cython.int, 6)
_AT_HEADER_KEY = cython.declare(cython.int, 7)
_AT_HEADER_VALUE = cython.declare(cython.int, 8)
_AT_RECORD_END = cython.declare(cython.int, 9)

_INT64_MAX = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)
_INT64_MIN = cython.declare(cython.longlong, ~0x7FFFFFFFFFFFFFFF)

_GIL_WORTH_BYTES = cython.declare(cython.Py_ssize_t, 1 << 17)  # as in `whole`


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _wrapping_sum(a: cython.longlong, b: cython.longlong) -> cython.longlong:
    """As Java adds; the plain sum would be undefined in C and too big in Python."""
    if b > 0 and a > _INT64_MAX - b:
        return _INT64_MIN + (a - (_INT64_MAX - b) - 1)
    if b < 0 and a < _INT64_MIN - b:
        return _INT64_MAX - ((_INT64_MIN - b) - a - 1)
    return a + b


@cython.final
@cython.cclass
class BytewiseCheck:
    """Where the check of one batch stands.

    `status` is 0 or the first fault, a key of FAULTS; nothing is read after it. `record` is the index of the record
    being read, `between_records` whether none of its bytes has been, `found` the value at fault. `max_timestamp` is the
    greatest timestamp so far, −1 at least, and `record_of_max` the first record that has it, −1 when none is above −1.
    `timestamp`, `key_length` and `value_length` belong to the last record that was read.
    """

    status = cython.declare(cython.int, visibility="readonly")
    found = cython.declare(cython.longlong, visibility="readonly")
    record = cython.declare(cython.longlong, visibility="readonly")
    max_timestamp = cython.declare(cython.longlong, visibility="readonly")
    record_of_max = cython.declare(cython.longlong, visibility="readonly")
    between_records = cython.declare(cython.bint, visibility="readonly")
    timestamp = cython.declare(cython.longlong, visibility="readonly")
    key_length = cython.declare(cython.longlong, visibility="readonly")
    value_length = cython.declare(cython.longlong, visibility="readonly")

    _count: cython.longlong
    _base_timestamp: cython.longlong
    _same_timestamp: cython.bint
    _require_key: cython.bint
    _require_offsets: cython.bint
    _earliest: cython.longlong
    _latest: cython.longlong

    # The rest is the record being read: its next field, the bytes to skip before that, the bytes it has left after
    # those, its headers left, and as much of a number as has been read.
    _field: cython.int
    _skip: cython.longlong
    _left: cython.longlong
    _headers: cython.longlong
    _number: cython.ulonglong
    _number_bytes: cython.int

    def __init__(
        self,
        count: cython.longlong,
        base_timestamp: cython.longlong,
        same_timestamp: cython.bint,
        require_key: cython.bint,
        earliest: cython.longlong,
        latest: cython.longlong,
        require_offsets: cython.bint = True,
    ) -> None:
        """With `same_timestamp` every record has the base timestamp, whatever its delta says."""
        self.status = _BAD_COUNT if count < 0 else 0
        self.found = count
        self.record = 0
        self.max_timestamp = -1
        self.record_of_max = -1
        self.between_records = True
        self.timestamp = 0
        self.key_length = 0
        self.value_length = 0
        self._count = count
        self._base_timestamp = base_timestamp
        self._same_timestamp = same_timestamp
        self._require_key = require_key
        self._require_offsets = require_offsets
        self._earliest = earliest
        self._latest = latest
        self._field = _AT_LENGTH
        self._skip = 0
        self._left = 0
        self._headers = 0
        self._number = 0
        self._number_bytes = 0

    def took(self, record: cython.longlong, max_timestamp: cython.longlong, record_of_max: cython.longlong) -> None:
        """Records up to `record` were found right by other means, their greatest timestamp as given."""
        self.record = record
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.record_of_max = record_of_max

    def read_record(
        self, buffer: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> int:
        """Read on in `buffer[start:end]` to the end of this record at most; returns the position reached."""
        position: cython.Py_ssize_t
        if start < 0 or start > end or end > len(buffer):
            raise IndexError(f"[{start}:{end}] is outside a buffer of {len(buffer)} bytes")
        if end - start < _GIL_WORTH_BYTES:
            position = self._read_record(buffer, start, end)
        else:
            with cython.nogil:
                position = self._read_record(buffer, start, end)
        return position

    def finish(self) -> int:
        """There are no more bytes; returns the status."""
        if self.status == 0:
            if not self.between_records:
                self._fail(_TRUNCATED, 0)
            elif self.record < self._count:
                self._fail(_MISSING, self._count)
        return self.status

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _fail(self, status: cython.int, found: cython.longlong) -> cython.void:
        self.status = status
        self.found = found

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _read_record(
        self, buffer: cython.const[cython.uchar][::1], position: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        if self.status == 0 and position < end and self.record >= self._count:
            self._fail(_SURPLUS, 0)
        while self.status == 0:
            if self._skip > end - position:
                self._skip -= end - position
                return end
            position += self._skip
            self._skip = 0
            if self._field == _AT_RECORD_END:
                self._end_record()
                return position
            if position == end:
                return position
            self.between_records = False
            self._read_byte(buffer[position])
            position += 1
        return position

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _read_byte(self, byte: cython.ulonglong) -> cython.void:
        wide: cython.bint = self._field == _AT_TIMESTAMP
        half: cython.longlong
        if self._field != _AT_LENGTH:
            if self._left == 0:
                self._fail(_OVERRUN, 0)
                return
            self._left -= 1
        if self._field == _AT_ATTRIBUTES:
            self._field = _AT_TIMESTAMP
            return
        self._number_bytes += 1
        if self._number_bytes == (10 if wide else 5) and byte > (0x01 if wide else 0x0F):
            self._fail(_BAD_NUMBER, 0)
            return
        self._number |= (byte & 0x7F) << (7 * self._number_bytes - 7)
        if byte < 0x80:
            half = self._number >> 1
            self._take(~half if self._number & 1 else half)
            self._number = 0
            self._number_bytes = 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _take(self, value: cython.longlong) -> cython.void:
        """The next field has the value given."""
        if self._field == _AT_LENGTH:
            if value < 0:
                self._fail(_BAD_LENGTH, value)
            self._left = value
            self._field = _AT_ATTRIBUTES
        elif self._field == _AT_TIMESTAMP:
            self.timestamp = self._base_timestamp
            if not self._same_timestamp:
                self.timestamp = _wrapping_sum(self._base_timestamp, value)
            self._field = _AT_OFFSET
        elif self._field == _AT_OFFSET:
            if value != self.record and self._require_offsets:
                self._fail(_BAD_OFFSET, value)
            self._field = _AT_KEY
        elif self._field == _AT_KEY:
            self.key_length = value
            self._take_key_length(value)
            self._field = _AT_VALUE
        elif self._field == _AT_VALUE:
            self.value_length = value
            self._skip_bytes(value, -1, _BAD_VALUE)
            self._field = _AT_HEADER_COUNT
        elif self._field == _AT_HEADER_COUNT:
            if value < 0:
                self._fail(_BAD_HEADER_COUNT, value)
            self._headers = value
            self._field = _AT_HEADER_KEY if value > 0 else _AT_RECORD_END
        elif self._field == _AT_HEADER_KEY:
            self._skip_bytes(value, 0, _BAD_HEADER_KEY)
            self._field = _AT_HEADER_VALUE
        else:
            self._skip_bytes(value, -1, _BAD_HEADER_VALUE)
            self._headers -= 1
            self._field = _AT_HEADER_KEY if self._headers > 0 else _AT_RECORD_END

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _take_key_length(self, length: cython.longlong) -> cython.void:
        """Where both the key and the timestamp are at fault the key is named, as Kafka does."""
        if length < 0 and self._require_key:
            self._fail(_NO_KEY if length == -1 else _BAD_KEY, length)
        elif self.timestamp != -1 and not self._earliest <= self.timestamp <= self._latest:
            self._fail(_BAD_TIMESTAMP, self.timestamp)
        else:
            self._skip_bytes(length, -1, _BAD_KEY)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _skip_bytes(self, length: cython.longlong, least: cython.longlong, fault: cython.int) -> cython.void:
        if length < least:
            self._fail(fault, length)
        elif length > self._left:
            self._fail(_OVERRUN, 0)
        elif length > 0:
            self._left -= length
            self._skip = length

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _end_record(self) -> cython.void:
        if self._left > 0:
            self._fail(_UNDERRUN, self._left)
            return
        if self.timestamp > self.max_timestamp:
            self.max_timestamp = self.timestamp
            self.record_of_max = self.record
        self.record += 1
        self._field = _AT_LENGTH
        self.between_records = True
