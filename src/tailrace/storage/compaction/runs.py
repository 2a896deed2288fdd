"""Plain batches that stand one behind the other, taken by one call of a kernel.

A log of small batches would otherwise cost a few calls for each, all of them holding the GIL. What is plain, and what
the kernel proves of each batch, `kernels.plain_run` tells; at any other batch a run ends.
"""

from __future__ import annotations

from array import array
from typing import Final

from tailrace.model.errors import InvalidRecordError
from tailrace.model.offsets import GREATEST_OFFSET
from tailrace.record.kernels import STOP_BAD_RECORDS, STOP_OUT_FULL, STOP_TABLE_FULL, PlainRun
from tailrace.record.walk import new_rows, walk_batches
from tailrace.storage.compaction.chunks import SegmentReader
from tailrace.storage.compaction.kept import Kept
from tailrace.storage.compaction.offset_map import OffsetMap
from tailrace.storage.compaction.rows import ROWS
from tailrace.storage.compaction.transactions import SeenTransactions
from tailrace.storage.compaction.verdict import CleanRules

_PRODUCERS: Final = 1024  # whose transactional batches a run can have; one more ends it


class PlainRuns:
    """Room for the kernel, used for one run after the other. One thread at a time."""

    def __init__(self, transactions: SeenTransactions) -> None:
        self._transactions = transactions
        self._rows = new_rows(ROWS)
        self._seen = array("q", bytes(8 * _PRODUCERS))
        self._kernel = PlainRun(self._rows, bytearray(ROWS), self._seen)
        self.records_read = 0
        self.records_kept = 0
        self.invalid_records = 0

    def map(self, reader: SegmentReader, offset_map: OffsetMap, from_offset: int) -> bool:
        """Enter the keys of a run, which may be empty, from `from_offset` on; False when the map got full."""
        kernel = self._placed(reader, framed_from=GREATEST_OFFSET)
        reason = offset_map.put_run(kernel, reader.data, reader.taken, from_offset)
        self._take(reader, reason)
        return reason != STOP_TABLE_FULL

    def sift(self, reader: SegmentReader, offset_map: OffsetMap, rules: CleanRules, kept: Kept) -> bool:
        """Write what stays of a run, which may be empty, behind what is in `kept`; False when there is no more room."""
        kernel = self._placed(reader, framed_from=rules.framed_from(reader.next_offset))
        reason = offset_map.sift_run(
            kernel,
            reader.data,
            reader.taken,
            rules.now_ms,
            rules.new_horizon_ms,
            kept.data,
            kept.written,
            kept.run.rows,
            kept.run.count,
        )
        kept.written, kept.run.count = kernel.written, kernel.made_count
        self.records_read += kernel.records_read
        self.records_kept += kernel.records_kept
        self.invalid_records += kernel.keyless
        self._take(reader, reason)
        return reason != STOP_OUT_FULL

    def _placed(self, reader: SegmentReader, framed_from: int) -> PlainRun:
        kernel = self._kernel
        kernel.next_offset = reader.next_offset
        kernel.end_offset = reader.end_offset
        kernel.aborted_from = self._transactions.aborted_from
        kernel.framed_from = framed_from
        return kernel

    def _take(self, reader: SegmentReader, reason: int) -> None:
        kernel = self._kernel
        if kernel.seen_count:
            self._transactions.saw(self._seen[: kernel.seen_count])
        reader.take_to(kernel.position, kernel.next_offset)
        if reason == STOP_BAD_RECORDS:
            walk_batches(reader.data, kernel.position, len(reader.data), self._rows)  # raises what is wrong
            raise InvalidRecordError(f"the records of the batch at position {kernel.position} are not as it states")
