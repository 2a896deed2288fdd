"""Decoding: batches of a partition, from a file or a broker, become Arrow record batches.

Runs of plain batches are a kernel's work from the first byte to the last. A batch that is compressed, older than
format v2, or may be of an aborted transaction is opened here and its records, in the form of v2, go to the same kernel.

Whatever the bytes are, decoding ends: in rows, or in CorruptMessageError.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final

import pyarrow as pa

from tailrace.client.fetcher import AbortedTransaction
from tailrace.env.files import Buffer
from tailrace.model.errors import CorruptMessageError, TailraceError
from tailrace.record.batch import HEADER_BYTES, LOG_APPEND_TIME
from tailrace.record.compression import decompress
from tailrace.record.kernels import (
    COLUMNS_BAD_CRC,
    COLUMNS_BAD_RECORDS,
    COLUMNS_FULL,
    COLUMNS_ODD,
    GAPS_FULL,
    HEADERS_FULL,
    KEYS_FULL,
    VALUES_FULL,
    ColumnRun,
)
from tailrace.record.reader import MAX_DECOMPRESSED_BYTES
from tailrace.record.shallow import ShallowBatch, check_integrity, next_batch
from tailrace.spark.source.aborted import AbortedTransactions, EndedTransaction
from tailrace.spark.source.arrow_columns import MOST_ROWS, ArrowColumns
from tailrace.spark.source.columns import Columns
from tailrace.spark.source.damage import UnframedError, extent_of, next_sound_batch
from tailrace.spark.source.ranges import ALL_TIMES, OffsetRange, TimeRange
from tailrace.spark.source.reframing import Records, records_of_legacy

ROWS_PER_BATCH: Final = 16384

_FULL: Final = frozenset((COLUMNS_FULL, KEYS_FULL, VALUES_FULL, HEADERS_FULL))
_WALKED_TOGETHER: Final = 512  # what is walked of them, and the records themselves, stay in a cache
_GAPS_TOGETHER: Final = 256


class Decoder:
    """Of one piece, by one task. Buffers come in the order of their offsets.

    After the iterator of `decode` has ended: `taken_bytes` of the buffer were taken, up to the first batch that is not
    whole, or with which the piece ends. `next_offset` is behind the last batch seen; it is `piece.end` or more when the
    piece is done. `gaps` has the stretches [start, end) of the piece between batches where offsets are missing; the
    reader judges and clears them. A reader that knows of missing offsets already moves `next_offset` over them.
    """

    def __init__(
        self,
        columns: Columns,
        piece: OffsetRange,
        *,
        times: TimeRange = ALL_TIMES,
        rows_per_batch: int = ROWS_PER_BATCH,
        skips_corrupt: bool = False,
        on_corrupt: Callable[[int, int, str], None] | None = None,
    ) -> None:
        """`on_corrupt` is told of offsets [start, end) that are skipped, and why."""
        self.times = times
        self.taken_bytes = 0
        self.gaps: list[tuple[int, int]] = []
        self.damaged_to = -1
        """Behind the last offset that was told as damaged: a gap that begins here is part of the damage."""
        self._piece = piece
        self._skips_corrupt = skips_corrupt
        self._on_corrupt = on_corrupt
        self._aborted = AbortedTransactions()
        rows = max(1, min(rows_per_batch, piece.size, MOST_ROWS))
        self._columns = ArrowColumns(columns, piece.partition, rows)
        self._gaps = array("q", bytes(16 * _GAPS_TOGETHER))
        self._run = ColumnRun(
            max(piece.start, 0),
            piece.end,
            times.first_ms,
            times.last_ms,
            array("q", bytes(64 * _WALKED_TOGETHER)),
            self._gaps,
            self._columns.begin(),
        )

    @property
    def next_offset(self) -> int:
        offset: int = self._run.next_offset
        return offset

    @next_offset.setter
    def next_offset(self, offset: int) -> None:
        self._run.next_offset = offset

    def decode(
        self, buffer: Buffer, aborted: Sequence[AbortedTransaction | EndedTransaction] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Rows of the whole batches in `buffer`, which begins at a batch, as record batches get full.

        Control batches and aborted transactions give none, known from this or an earlier call's `aborted`; rows outside
        the piece or the times are left out. Raises CorruptMessageError for damage, or skips it and tells; UnframedError
        where it cannot be skipped because no sound batch follows in the buffer.
        """
        self._aborted.add(aborted)
        run = self._run
        run.aborted_from = self._aborted.first_offset
        run.begin_batches(len(buffer), 0)
        reason = yield from self._take(buffer)
        while reason in (COLUMNS_ODD, COLUMNS_BAD_CRC):
            position = run.position
            behind = yield from self._odd_batch(buffer, position)
            run.aborted_from = self._aborted.first_offset
            run.begin_batches(len(buffer), behind)
            if behind == position:
                break
            reason = yield from self._take(buffer)
        self.taken_bytes = run.position

    def forget_aborted(self) -> None:
        """For who tells all with each buffer, as a broker does: what is not told again has ended, or is gone."""
        self._aborted.forget()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """What was decoded and not given out."""
        if self._columns.rows:
            yield self._finished()

    def _finished(self) -> pa.RecordBatch:
        batch = self._columns.finish()
        self._run.begin_columns(self._columns.begin())
        return batch

    def _take(self, buffer: Buffer) -> Generator[pa.RecordBatch, None, int]:
        """All that the kernel can take from the buffer that was begun; returns why it ended."""
        run = self._run
        while True:
            reason: int = run.take(buffer)
            self._note_gaps()
            if reason in _FULL:
                if not self._columns.make_room(reason):
                    yield self._finished()
            elif reason == COLUMNS_BAD_RECORDS:
                self.damaged(run.bad_from, run.next_offset, "its batch does not have the records that it states")
            elif reason != GAPS_FULL:
                return reason

    def _note_gaps(self) -> None:
        count = self._run.gap_count
        if count:
            numbers = self._gaps[: 2 * count]
            self.gaps += zip(numbers[::2], numbers[1::2], strict=True)
            self._run.clear_gaps()

    def _odd_batch(self, buffer: Buffer, position: int) -> Generator[pa.RecordBatch, None, int]:
        """The batch at `position`, which is not for the kernel; returns where it ends: there, if it is not whole."""
        try:
            batch = next_batch(buffer, position, len(buffer))
        except CorruptMessageError as fault:
            return self.pass_unframed(buffer, position, str(fault))
        if batch is None:
            return position
        try:
            check_integrity(buffer, batch)
            groups = self._opened(buffer, batch)
        except TailraceError as fault:
            first, end = extent_of(buffer, batch, self.next_offset)
            self.damaged(first, end, str(fault))
            self._run.pass_batch(first, end - 1)
            self._note_gaps()
            return batch.end
        for records in groups:
            self._run.begin_records(len(records.data), *records[1:])
            yield from self._take(records.data)
        return batch.end

    def _opened(self, buffer: Buffer, batch: ShallowBatch) -> list[Records]:
        """The records that the batch has, as v2 has them."""
        if not batch.is_v2:
            return records_of_legacy(buffer, batch)
        base, last = batch.base_offset, batch.last_offset
        if base < 0 or last < base:
            raise CorruptMessageError(f"a batch goes from offset {base} to {last}")
        is_unwanted = batch.is_control or last < self.next_offset or batch.max_timestamp < self.times.first_ms
        if self._aborted.has(buffer, batch) or is_unwanted:
            self._run.pass_batch(base, last)
            self._note_gaps()
            return []
        data: Buffer = memoryview(buffer)[batch.position + HEADER_BYTES : batch.end]
        if batch.codec:
            data = decompress(batch.codec, data, MAX_DECOMPRESSED_BYTES)
        is_append_time = batch.timestamp_type == LOG_APPEND_TIME
        timestamp = batch.max_timestamp if is_append_time else batch.base_timestamp
        return [Records(data, batch.record_count, base, last, timestamp, batch.timestamp_type)]

    def pass_unframed(self, buffer: Buffer, position: int, why: str) -> int:
        """Nobody knows where the batch at `position` ends. Returns where the next one that is sound begins.

        Raises UnframedError where none is, or damage is not to be skipped.
        """
        partition, next_offset = self._piece.partition, self.next_offset
        found = next_sound_batch(buffer, position + 1, next_offset, self._piece.end) if self._skips_corrupt else None
        if found is None:
            text = f"{partition}: nothing can be read from offset {next_offset} on: {why}"
            raise UnframedError(text, position)
        if found.base_offset > next_offset:
            self.damaged(next_offset, found.base_offset, why)
            self._run.pass_batch(next_offset, found.base_offset - 1)
        return found.position

    def goes_with_damage(self, start: int, end: int) -> bool:
        """Whether offsets [start, end), which no batch has, lie just behind damage; then they are told as such.

        A damaged batch does not always say where it ended.
        """
        if start != self.damaged_to:
            return False
        self.damaged(start, end, "the batch before is damaged and does not say where it ended")
        return True

    def damaged(self, first: int, end: int, why: str) -> None:
        """Raises, or tells, unless none of the offsets is wanted."""
        first, end = max(first, self._piece.start), min(end, self._piece.end)
        if first >= end:
            return
        self.damaged_to = end
        if not self._skips_corrupt:
            raise CorruptMessageError(f"{self._piece.partition}: offsets {first} to {end - 1} cannot be read: {why}")
        if self._on_corrupt is not None:
            self._on_corrupt(first, end, why)
