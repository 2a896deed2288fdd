"""Lists the records for which a leader refuses a batch. Runs after the refusal, on the batch as the producer sent it.

A compressed batch is decompressed in blocks, as for the check, and not further than to the last record that is listed.
A record that lies in one block is read by kernels; only one that is cut by the end of a block costs work in Python.
"""

from __future__ import annotations

from array import array
from typing import Final

from tailrace.env.files import Buffer
from tailrace.model.record_rules import RecordRules, RejectedRecords
from tailrace.record.batch import HEADER_BYTES, LOG_APPEND_TIME, BatchHeader
from tailrace.record.check import INT64_MAX, INT64_MIN, fault_of, too_large
from tailrace.record.compression import blocks
from tailrace.record.kernels import REJECTED_ROW, ROW, BytewiseCheck, find_rejected, walk_some
from tailrace.record.reader import MAX_DECOMPRESSED_BYTES

_ROWS: Final = 1 << 12


def rejected_records(batch: Buffer, rules: RecordRules, limit: int) -> RejectedRecords:
    """The records of the v2 batch at the start of `batch` that break `rules`: the first `limit` of them, which is at
    least 1. Records after the last one that is returned are not checked.

    Raises what `check_batch` raises for a malformed record: it refuses the batch without a list.
    """
    header = BatchHeader.at(batch)
    listing = _Listing(header, rules, limit)
    left_bytes = MAX_DECOMPRESSED_BYTES
    for block in blocks(header.codec, memoryview(batch)[HEADER_BYTES : header.size]):
        left_bytes -= len(block)
        if left_bytes < 0:
            raise too_large(header)
        listing.feed(block)
        if listing.is_full():
            break
    return listing.finish()


class _Listing:
    """The records of one batch, in pieces that are cut anywhere."""

    def __init__(self, header: BatchHeader, rules: RecordRules, limit: int) -> None:
        self._given_rules = rules
        self._is_compressed = header.codec != 0
        self._count = header.record_count
        self._is_stamped = header.timestamp_type == LOG_APPEND_TIME
        self._base_timestamp = header.max_timestamp if self._is_stamped else header.base_timestamp
        self._rules = (rules.require_key, max(rules.earliest_ms, INT64_MIN), min(rules.latest_ms, INT64_MAX))
        self._bytewise = BytewiseCheck(self._count, self._base_timestamp, self._is_stamped, False, INT64_MIN, INT64_MAX)
        self._rows = array("q", bytes(8 * ROW * _ROWS))
        self._found = array("q", bytes(8 * REJECTED_ROW * max(min(limit, self._count + 1), 1)))
        self._filled = 0

    def is_full(self) -> bool:
        return self._filled == len(self._found) // REJECTED_ROW

    def feed(self, piece: Buffer) -> None:
        bytewise = self._bytewise
        position, end = 0, len(piece)
        while position < end and not self.is_full():
            if bytewise.between_records:
                position = self._take_whole(piece, position, end)
                if self.is_full():
                    return
            record = bytewise.record
            position = bytewise.read_record(piece, position, end)
            if bytewise.status:
                raise fault_of(bytewise)
            if bytewise.record > record:
                self._take_cut(record)

    def finish(self) -> RejectedRecords:
        if not self.is_full() and self._bytewise.finish():
            raise fault_of(self._bytewise)
        return RejectedRecords(
            self._given_rules, self._found[: REJECTED_ROW * self._filled], is_compressed=self._is_compressed
        )

    def _take_whole(self, piece: Buffer, position: int, end: int) -> int:
        """Take records until one is cut or malformed, or the list is full; returns where that one starts."""
        bytewise, rows = self._bytewise, self._rows
        while True:
            record = bytewise.record
            walked, _ = walk_some(
                piece, position, end, self._count - record, 0, self._base_timestamp, self._is_stamped, rows
            )
            taken, self._filled = find_rejected(
                rows, walked, record, *self._rules, self._is_stamped, self._found, self._filled
            )
            if taken:
                position = rows[ROW * taken - 1]
                bytewise.took(record + taken, -1, -1)
            if taken < _ROWS:
                return position

    def _take_cut(self, record: int) -> None:
        """The record that the bytewise check has just read to its end."""
        bytewise = self._bytewise
        row = array("q", (record, bytewise.timestamp, 0, bytewise.key_length, 0, bytewise.value_length, 0, 0))
        _, self._filled = find_rejected(row, 1, record, *self._rules, self._is_stamped, self._found, self._filled)
