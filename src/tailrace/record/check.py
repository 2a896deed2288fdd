"""Checks every record of a v2 batch, as a leader must before it appends the batch.

What is checked is told in `kernels.bytewise`; the header itself and its CRC are the validator's. A compressed batch is
decompressed and checked in blocks of at most 1 MiB, so the size of what it holds costs no memory, and no more of it
is decompressed than up to its first fault. It ends at MAX_DECOMPRESSED_BYTES too: a batch of a megabyte can be thirty
gigabytes inside, and neither readers nor the cleaner would take more.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tailrace.env.files import Buffer
from tailrace.model.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
)
from tailrace.model.record_rules import RecordRules
from tailrace.record import kernels
from tailrace.record.batch import CODEC_MASK, HEADER_BYTES, LOG_OVERHEAD, TIMESTAMP_TYPE_BIT, BatchHeader
from tailrace.record.compression import NONE, blocks
from tailrace.record.kernels import check_all, check_whole
from tailrace.record.reader import MAX_DECOMPRESSED_BYTES

INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1

_new_tuple: Final = tuple.__new__  # a named tuple's own constructor takes as long as the check of one record


class CheckedRecords(NamedTuple):
    """The greatest timestamp of a batch's records, −1 at least, and the offset delta of the first record that has it,
    which is −1 when no record's timestamp is above −1."""

    max_timestamp: int
    offset_delta_of_max: int


def check_batch(
    buffer: Buffer, position: int, header: BatchHeader, *, require_key: bool, earliest_ms: int, latest_ms: int
) -> CheckedRecords:
    """Check the records of the batch at `position`, whose header is given. Timestamps other than −1 must lie within
    [earliest_ms, latest_ms].

    Raises InvalidRecordError or InvalidTimestampError for the first record that breaks a rule, CorruptMessageError when
    the batch is not whole in the buffer or cannot be decompressed, UnsupportedCompressionError for an unknown codec,
    MessageTooLargeError for one that holds too much. Where others of its records may break a rule too, the error has
    `record_rules`: `rejected.rejected_records` lists them.
    """
    attributes = header.attributes
    count = header.record_count
    start = position + HEADER_BYTES
    end = position + LOG_OVERHEAD + header.length
    same_timestamp = attributes & TIMESTAMP_TYPE_BIT != 0
    base_timestamp = header.max_timestamp if same_timestamp else header.base_timestamp
    if earliest_ms < INT64_MIN:
        earliest_ms = INT64_MIN
    if latest_ms > INT64_MAX:
        latest_ms = INT64_MAX
    codec = attributes & CODEC_MASK
    if codec == NONE:
        checked = check_all(
            buffer, start, end, count, base_timestamp, same_timestamp, require_key, earliest_ms, latest_ms
        )
        if checked is not None:
            return _new_tuple(CheckedRecords, checked)
    if position < 0 or end < start or end > len(buffer):
        raise CorruptMessageError(
            f"a batch of {header.size} bytes at position {position} is not whole in {len(buffer)} bytes"
        )
    check = RecordCheck(count, base_timestamp, same_timestamp, require_key, earliest_ms, latest_ms)
    left_bytes = MAX_DECOMPRESSED_BYTES
    for block in blocks(codec, memoryview(buffer)[start:end]):
        left_bytes -= len(block)
        if left_bytes < 0:
            raise too_large(header)
        check.feed(block)
    return check.finish()


def too_large(header: BatchHeader) -> MessageTooLargeError:
    return MessageTooLargeError(
        f"a batch of {header.size} bytes is more than {MAX_DECOMPRESSED_BYTES} when it is decompressed"
    )


class RecordCheck:
    """The check of one batch whose records come in pieces, cut anywhere. Raises at the first fault."""

    def __init__(
        self, count: int, base_timestamp: int, same_timestamp: bool, require_key: bool, earliest_ms: int, latest_ms: int
    ) -> None:
        """With `same_timestamp` every record has the base timestamp, whatever its delta says."""
        self._rules = (count, base_timestamp, same_timestamp, require_key, earliest_ms, latest_ms)
        self._bytewise = kernels.BytewiseCheck(*self._rules)

    def feed(self, piece: Buffer) -> None:
        bytewise = self._bytewise
        position, end = 0, len(piece)
        while position < end:
            if bytewise.between_records:
                position, *taken = check_whole(piece, position, end, bytewise.record, *self._rules)
                bytewise.took(*taken)
            position = bytewise.read_record(piece, position, end)
            if bytewise.status:
                raise self._fault()

    def finish(self) -> CheckedRecords:
        if self._bytewise.finish():
            raise self._fault()
        return CheckedRecords(self._bytewise.max_timestamp, self._bytewise.record_of_max)

    def _fault(self) -> InvalidRecordError | InvalidTimestampError:
        error = fault_of(self._bytewise)
        if self._bytewise.status in (kernels.NO_KEY_FAULT, kernels.TIMESTAMP_FAULT):
            _, _, _, require_key, earliest_ms, latest_ms = self._rules
            error.record_rules = RecordRules(require_key, earliest_ms, latest_ms)
        return error


def fault_of(bytewise: kernels.BytewiseCheck) -> InvalidRecordError | InvalidTimestampError:
    """The error for a check that has come to a fault."""
    reason = kernels.FAULTS[bytewise.status].format(found=bytewise.found, record=bytewise.record)
    error = InvalidTimestampError if bytewise.status == kernels.TIMESTAMP_FAULT else InvalidRecordError
    return error(f"record {bytewise.record} of the batch: {reason}", record_index=bytewise.record)
