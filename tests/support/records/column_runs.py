"""The kernel that makes columns, in either form, with rooms as small as a test wants; and logs to run it over."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from crc32c import crc32c

from tailrace.record.builder import BatchBuilder
from tailrace.record.kernels import (
    COLUMNS_BAD_RECORDS,
    COLUMNS_FULL,
    GAPS_FULL,
    HEADERS_FULL,
    KEYS_FULL,
    VALUES_FULL,
)
from tailrace.record.reader import Record

FAR = 1 << 60
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1

Row = tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]]


class BytesRoom:
    """A column of bytes whose buffers a test can look into."""

    def __init__(self, form: SimpleNamespace, rows: int, data_bytes: int) -> None:
        self.buffers = (array("i", bytes(4 * rows + 4)), bytearray(b"\xff" * ((rows + 7) // 8)), bytearray(data_bytes))
        self.column = form.columns.new_bytes_column(*self.buffers)

    def grow(self, more_rows: int) -> None:
        ends, bits, data = self.buffers
        rows = max(len(ends) - 1, self.column.rows + more_rows)
        self.buffers = (
            array("i", ends.tobytes() + bytes(4 * (rows + 1 - len(ends)))),
            bits + b"\xff" * ((rows + 7) // 8 - len(bits)),
            data + bytes(max(self.column.used_bytes + self.column.needed_bytes - len(data), 0)),
        )
        self.column.grow(*self.buffers)

    def rows(self) -> list[bytes | None]:
        ends, bits, data = self.buffers
        return [
            bytes(data[ends[row] : ends[row + 1]]) if bits[row // 8] >> row % 8 & 1 else None
            for row in range(self.column.rows)
        ]


class Columns:
    """All columns of a run."""

    def __init__(self, form: SimpleNamespace, rows: int, data_bytes: int) -> None:
        self.offsets, self.timestamps = array("q", bytes(8 * rows)), array("q", bytes(8 * rows))
        self.types = array("i", bytes(4 * rows))
        self.keys, self.values = BytesRoom(form, rows, data_bytes), BytesRoom(form, rows, data_bytes)
        self.header_keys, self.header_values = BytesRoom(form, rows, data_bytes), BytesRoom(form, rows, data_bytes)
        self.ends, self.bits = array("i", bytes(4 * rows + 4)), bytearray(b"\xff" * ((rows + 7) // 8))
        self.set = form.columns.new_column_set(
            self.offsets, self.timestamps, self.types, self.keys.column, self.values.column
        )
        self.set.add_headers(self.ends, self.bits, self.header_keys.column, self.header_values.column)

    def make_room(self, full: int) -> None:
        if full == KEYS_FULL:
            self.keys.grow(0)
        elif full == VALUES_FULL:
            self.values.grow(0)
        else:
            assert full == HEADERS_FULL
            for room in (self.header_keys, self.header_values):
                room.grow(self.set.needed_headers)

    def rows(self) -> list[Row]:
        header_keys = [key for key in self.header_keys.rows() if key is not None]
        headers = list(zip(header_keys, self.header_values.rows(), strict=True))
        keys, values = self.keys.rows(), self.values.rows()
        rows: list[Row] = []
        for row in range(self.set.rows):
            of_row = tuple(headers[self.ends[row] : self.ends[row + 1]])
            assert bool(of_row) == bool(self.bits[row // 8] >> row % 8 & 1)
            rows.append((self.offsets[row], self.timestamps[row], self.types[row], keys[row], values[row], of_row))
        assert self.set.rows_without_headers == sum(not row[5] for row in rows)
        assert self.keys.column.nulls == sum(row[3] is None for row in rows)
        return rows


class Bench:
    """A run with its rooms, which collects all that it gives."""

    def __init__(
        self,
        form: SimpleNamespace,
        *,
        start: int = 0,
        end: int = FAR,
        first_ms: int = INT64_MIN,
        last_ms: int = INT64_MAX,
        rows: int = 100,
        data_bytes: int = 10_000,
        walked: int = 100,
        gaps: int = 10,
    ) -> None:
        self._form, self._room = form, (rows, data_bytes)
        self._gaps = array("q", bytes(16 * gaps))
        self.columns = Columns(form, rows, data_bytes)
        self.rows: list[Row] = []
        self.gaps: list[tuple[int, int]] = []
        self.bad: list[tuple[int, int]] = []
        walked_room = array("q", bytes(64 * walked))
        self.run = form.columns.ColumnRun(start, end, first_ms, last_ms, walked_room, self._gaps, self.columns.set)

    def batches(self, data: bytes | bytearray, position: int = 0) -> int:
        """Take all that can be taken of these; returns why it ended."""
        self.run.begin_batches(len(data), position)
        return self.go_on(data)

    def go_on(self, data: bytes | bytearray) -> int:
        while True:
            reason: int = self.run.take(data)
            count = self.run.gap_count
            self.gaps += zip(self._gaps[: 2 * count : 2], self._gaps[1 : 2 * count : 2], strict=True)
            self.run.clear_gaps()
            if reason == COLUMNS_FULL:
                self.flush()
            elif reason in (KEYS_FULL, VALUES_FULL, HEADERS_FULL):
                self.columns.make_room(reason)
            elif reason == COLUMNS_BAD_RECORDS:
                self.bad.append((self.run.bad_from, self.run.next_offset))
            elif reason != GAPS_FULL:
                self.flush()
                return reason

    def flush(self) -> None:
        self.rows += self.columns.rows()
        self.columns = Columns(self._form, *self._room)
        self.run.begin_columns(self.columns.set)

    def outcome(self) -> tuple[Any, ...]:
        return self.rows, self.gaps, self.bad, self.run.position, self.run.next_offset, self.run.batch_start


def rows_of(records: Iterable[Record]) -> list[Row]:
    """What the columns should say of them."""
    return [
        (
            each.offset,
            min(max(each.timestamp * 1000, INT64_MIN), INT64_MAX),
            each.timestamp_type,
            each.key,
            each.value,
            tuple((key.encode("utf-8", "surrogateescape"), value) for key, value in each.headers),
        )
        for each in records
    ]


def batch(base: int, *records: tuple[Any, ...], **fields: Any) -> bytearray:
    """Of records (timestamp, key, value, headers)."""
    builder = BatchBuilder(base, **fields)
    for record in records:
        builder.append(*record)
    return builder.build()


def resealed(data: bytearray) -> bytearray:
    """With the CRCs of what now stands there, so that damage gets further than to them."""
    position = 0
    while len(data) - position >= 61:
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        end = min(position + max(size, 61), len(data))
        data[position + 17 : position + 21] = crc32c(data[position + 21 : end]).to_bytes(4, "big")
        position = end
    return data


def some_log(order: random.Random) -> bytearray:
    """A few batches that mostly follow each other, with bytes that are wrong, and CRCs that often are right again."""
    data, base = bytearray(), 0
    for _ in range(order.randrange(6)):
        base += order.choice((0, 0, 0, 1, 9))
        parts = (None, b"", b"a", b"bb" * 20)
        records = [
            (
                order.randrange(5000),
                order.choice(parts),
                order.choice(parts),
                [
                    (order.choice(("", "name", "n" * 70)), order.choice(parts))
                    for _ in range(order.choice((0, 0, 1, 3)))
                ],
            )
            for _ in range(order.randrange(1, 9))
        ]
        is_stamped = order.random() < 0.3
        codec = order.choice((0, 0, 0, 0, 0, 0, 4))
        data += batch(base, *records, codec=codec, timestamp_type=int(is_stamped), log_append_time_ms=77)
        base += len(records)
    for _ in range(order.choice((0, 1, 1, 2, 4)) if data else 0):
        data[order.randrange(len(data))] = order.choice((0, 1, 2, 0x7F, 0x80, 0xFF, order.randrange(256)))
    return resealed(data) if order.random() < 0.7 else data


def column_disagreements(forms: Iterable[SimpleNamespace], seed: int, examples: int) -> tuple[list[bytes], set[int]]:
    """Logs over which forms of the kernel do not agree, and all reasons for which runs have ended."""
    order = random.Random(seed)
    found, reasons = [], set()
    for _ in range(examples):
        data = some_log(order)
        room = {
            "start": order.choice((0, 3)),
            "end": order.choice((9, FAR)),
            "first_ms": order.choice((INT64_MIN, 77, 2000)),
            "rows": order.randrange(1, 12),
            "data_bytes": order.choice((0, 30, 2000)),
            "walked": order.randrange(1, 12),
            "gaps": order.randrange(1, 4),
        }
        outcomes = []
        for form in forms:
            bench = Bench(form, **room)
            reason = bench.batches(data)
            reasons.add(COLUMNS_BAD_RECORDS if bench.bad else reason)
            outcomes.append((reason, bench.outcome()))
        if any(each != outcomes[0] for each in outcomes):
            found.append(bytes(data))
    return found, reasons
