"""Every record of a block, decoded: plain batches many at a time, compressed ones as they are decompressed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, pairwise

import numpy as np

from tailrace.env.files import Buffer
from tailrace.model.errors import TailraceError
from tailrace.record import kernels, walk
from tailrace.record.batch import CODEC_MASK, HEADER_BYTES, TIMESTAMP_TYPE_BIT, BatchHeader
from tailrace.record.check import INT64_MAX, INT64_MIN, RecordCheck, fault_of
from tailrace.record.compression import BLOCK_BYTES
from tailrace.record.kernels import ROW, ROWS_FULL, BytewiseCheck
from tailrace.record.reader import MAX_DECOMPRESSED_BYTES
from tailrace.spark.auditing.rules import BAD_COMPRESSION, BAD_HEADER, BAD_RECORD
from tailrace.spark.auditing.task.block import Block, Numbers
from tailrace.spark.auditing.task.decompression import decompressed
from tailrace.spark.auditing.task.faults import Fault
from tailrace.spark.auditing.task.record_rows import MOST_ROWS, RecordRows


class RecordChecks:
    """For all blocks of a piece."""

    def __init__(self, rows: RecordRows) -> None:
        self._rows = rows
        self.plain_bytes: Numbers = np.zeros(0, np.int64)
        """Of each batch of the block that was checked last: its records without compression."""

    def check(self, view: memoryview, starts: Numbers, block: Block, of: Numbers) -> Iterator[Fault]:
        """The batches of `block` with the numbers in `of`: of magic 2, and no control batches.

        They stand in `view` at `starts`, which has a number for each batch of the block.
        """
        self.plain_bytes = block.size - HEADER_BYTES
        is_plain = block.attributes[of] & CODEC_MASK == 0
        follows = starts[of][1:] == (starts + block.size)[of][:-1]
        breaks = np.flatnonzero((is_plain[1:] != is_plain[:-1]) | ~follows) + 1
        edges = [0, *breaks.tolist(), len(of)]
        for first, behind in pairwise(edges):
            if first < behind:
                check = self._plain if is_plain[first] else self._compressed
                yield from check(view, starts, block, of[first:behind])
        yield from self._rows.check(block)

    def _plain(self, view: memoryview, starts: Numbers, block: Block, batches: Numbers) -> Iterator[Fault]:
        """Batches that stand one behind the other."""
        rows = self._rows
        places = starts[batches]
        end = int(places[-1] + block.size[batches[-1]])
        at = 0
        while at < len(batches):
            raw = rows.raw[ROW * rows.filled :]
            stopped, filled, reason = kernels.walk_batches(view, int(places[at]), end, raw)
            until = int(np.searchsorted(places, stopped))
            if until > at:
                rows.took_many(block, batches[at:until], filled, view)
            at = until
            if reason == ROWS_FULL and rows.filled:
                yield from rows.check(block)
            elif at < len(batches):
                row, start = int(batches[at]), int(places[at])
                records = view[start + HEADER_BYTES : start + int(block.size[row])]
                header = BatchHeader.at(view, start)
                if reason == ROWS_FULL:
                    yield from self.in_blocks(_cut(records), header, row)
                else:
                    yield _bad_records(records, header, row)
                at += 1

    def _compressed(self, view: memoryview, starts: Numbers, block: Block, batches: Numbers) -> Iterator[Fault]:
        rows, raw, plain_bytes = self._rows, self._rows.raw, self.plain_bytes
        walk_records = kernels.walk_records
        columns = (starts, starts + block.size, block.attributes, block.record_count, block.base_offset)
        times = (block.base_timestamp, block.max_timestamp)
        numbers = (column[batches].tolist() for column in (*columns, *times))
        is_sampled = rows.is_sampled(block.base_offset[batches]).tolist()
        for row, keeps, start, end, attributes, count, base_offset, base_time, max_time in zip(
            batches.tolist(), is_sampled, *numbers, strict=True
        ):
            try:
                data, rest = decompressed(attributes & CODEC_MASK, view[start + HEADER_BYTES : end])
                if rest is not None or count > MOST_ROWS:
                    pieces = _cut(memoryview(data)) if rest is None else chain(_cut(memoryview(data)), rest)
                    yield from self.in_blocks(pieces, BatchHeader.at(view, start), row)
                    continue
            except TailraceError as error:
                yield Fault(row, BAD_COMPRESSION, str(error), int(block.last_offset[row]) + 1)
                continue
            size = len(data)
            plain_bytes[row] = size
            if count > MOST_ROWS - rows.filled:
                yield from rows.check(block)
            first = ROW * rows.filled
            room = raw[first : first + ROW * count] if count > 0 else raw[:0]
            if attributes & TIMESTAMP_TYPE_BIT:
                is_right = walk_records(data, 0, size, count, base_offset, max_time, True, room)
            else:
                is_right = walk_records(data, 0, size, count, base_offset, base_time, False, room)
            if is_right and count >= 0:
                rows.took(row, count, data if keeps else None)
            else:
                yield _bad_records(memoryview(data), BatchHeader.at(view, start), row)

    def in_blocks(self, pieces: Iterable[Buffer], header: BatchHeader, row: int) -> Iterator[Fault]:
        """A batch of very many records, or of very large ones. Raises what the decompression of `pieces` raises."""
        total = 0
        check = _StreamedRecords(header)
        words = None
        for piece in pieces:
            total += len(piece)
            if total > MAX_DECOMPRESSED_BYTES:
                words = f"it is more than {MAX_DECOMPRESSED_BYTES} bytes when it is decompressed"
                yield Fault(row, BAD_COMPRESSION, words, header.next_offset)
                return
            if words is None:
                words = check.feed(piece)
        self.plain_bytes[row] = total
        words = words or check.finish()
        if words is not None:
            yield Fault(row, BAD_RECORD, words, header.next_offset)
        elif header.attributes & TIMESTAMP_TYPE_BIT == 0 and check.max_timestamp != header.max_timestamp:
            stated = f"states the greatest timestamp {header.max_timestamp}"
            yield Fault(row, BAD_HEADER, f"{stated}, but its records have {check.max_timestamp}", header.next_offset)


class _StreamedRecords:
    """Records in pieces that are cut anywhere; what is wrong comes as words."""

    def __init__(self, header: BatchHeader) -> None:
        same_time = header.attributes & TIMESTAMP_TYPE_BIT != 0
        base_time = header.max_timestamp if same_time else header.base_timestamp
        in_order = header.record_count == header.last_offset_delta + 1  # otherwise a cleaner took some
        rules = (header.record_count, base_time, same_time, False, INT64_MIN, INT64_MAX)
        self._ordered = RecordCheck(*rules) if in_order else None
        self._bytewise = BytewiseCheck(*rules, False)
        self.max_timestamp = -1

    def feed(self, piece: Buffer) -> str | None:
        try:
            if self._ordered is not None:
                self._ordered.feed(piece)
                return None
            position, bytewise = 0, self._bytewise
            while position < len(piece) and not bytewise.status:
                position = bytewise.read_record(piece, position, len(piece))
            if bytewise.status:
                raise fault_of(bytewise)
        except TailraceError as error:
            return str(error)
        return None

    def finish(self) -> str | None:
        try:
            if self._ordered is not None:
                self.max_timestamp = self._ordered.finish().max_timestamp
            elif self._bytewise.finish():
                raise fault_of(self._bytewise)
            else:
                self.max_timestamp = self._bytewise.max_timestamp
        except TailraceError as error:
            return str(error)
        return None


def _cut(data: memoryview) -> Iterator[Buffer]:
    return (data[at : at + BLOCK_BYTES] for at in range(0, len(data), BLOCK_BYTES))


def _bad_records(records: memoryview, header: BatchHeader, row: int) -> Fault:
    """For records that a kernel would not walk."""
    try:
        walk.walk_records(records, 0, len(records), header)
    except TailraceError as error:
        return Fault(row, BAD_RECORD, str(error), header.next_offset)
    return Fault(row, BAD_RECORD, f"its {header.record_count} records cannot be read", header.next_offset)
