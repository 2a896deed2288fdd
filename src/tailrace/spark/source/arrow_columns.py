"""Room for the columns of Arrow record batches, one after the other, that a kernel fills and nobody copies.

Buffers of fixed size are made for as many rows as a record batch may have; those of bytes are as large as the last
record batch needed, and grow: never by what a length claims, only for records that are there. None gets beyond
`MOST_BYTES` except for a single row, so that Arrow's offsets of 32 bits always do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import pyarrow as pa

from tailrace.model.ids import TopicPartition
from tailrace.record.kernels import (
    HEADERS_FULL,
    KEYS_FULL,
    VALUES_FULL,
    BytesColumn,
    ColumnSet,
    new_bytes_column,
    new_column_set,
)
from tailrace.spark.source.columns import (
    HEADER_TYPE,
    HEADERS,
    KEY,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    TOPIC,
    VALUE,
    Columns,
)

MOST_BYTES: Final = 64 << 20
MOST_ROWS: Final = 1 << 24

_LEAST_BYTES: Final = 4096
_FIRST_BYTES_A_ROW: Final = {KEY: 16, VALUE: 128}


def _words(buffer: pa.Buffer, format_: Literal["B", "i", "q"]) -> memoryview:
    return memoryview(buffer).cast("B").cast(format_)


def _set_bits(count: int) -> pa.Buffer:
    size = (count + 7) // 8
    bits = pa.allocate_buffer(size)
    memoryview(bits).cast("B")[:] = b"\xff" * size
    return bits


class _BytesRoom:
    """The buffers of a column of bytes."""

    def __init__(self, rows: int, data_bytes: int) -> None:
        self._rows = rows
        self._data_bytes = data_bytes

    def begin(self) -> BytesColumn:
        """An empty column."""
        self._ends = pa.allocate_buffer(4 * (self._rows + 1))
        self._bits = _set_bits(self._rows)
        self._data = pa.allocate_buffer(self._data_bytes)
        self.column = new_bytes_column(*self._views())
        return self.column

    def _views(self) -> tuple[memoryview, memoryview, memoryview]:
        return _words(self._ends, "i"), _words(self._bits, "B"), _words(self._data, "B")

    def grow(self, *, may_exceed: bool, more_rows: int = 0) -> bool:
        """Room for the row that did not fit; False when that would be too much."""
        column = self.column
        needed_bytes = column.used_bytes + column.needed_bytes
        needed_rows = column.rows + more_rows
        if max(needed_bytes, 4 * needed_rows) > MOST_BYTES and not may_exceed:
            return False
        if needed_bytes > self._data_bytes:
            self._data_bytes = max(needed_bytes, min(2 * self._data_bytes, MOST_BYTES))
        if needed_rows > self._rows:
            self._rows = max(needed_rows, 2 * self._rows)
        old = self._views()
        self._ends = pa.allocate_buffer(4 * (self._rows + 1))
        self._bits = _set_bits(self._rows)
        self._data = pa.allocate_buffer(self._data_bytes)
        new = self._views()
        for to, source, filled in zip(
            new, old, (column.rows + 1, (column.rows + 7) // 8, column.used_bytes), strict=True
        ):
            to[:filled] = source[:filled]
        column.grow(*new)
        return True

    def array(self, type_: pa.DataType) -> pa.Array:
        """What is filled, as it lies there."""
        column = self.column
        buffers = [
            self._bits if column.nulls else None,
            self._ends.slice(0, 4 * (column.rows + 1)),
            self._data.slice(0, column.used_bytes),
        ]
        # The next batch is likely to be like this one.
        likely = max(column.used_bytes * 5 // 4, self._data_bytes // 2, _LEAST_BYTES)
        self._data_bytes = min(likely, MOST_BYTES)
        return pa.Array.from_buffers(type_, column.rows, buffers, column.nulls)


class ArrowColumns:
    """The columns of one record batch at a time. One thread."""

    def __init__(self, columns: Columns, partition: TopicPartition, rows: int) -> None:
        self._schema = columns.arrow_schema()
        self._rows = rows
        self._bytes = {
            name: _BytesRoom(rows, max(_FIRST_BYTES_A_ROW[name] * rows, _LEAST_BYTES))
            for name in (KEY, VALUE)
            if name in columns
        }
        self._headers = _HeaderRoom(rows) if HEADERS in columns else None
        self._constants = _constants(columns, partition, rows)

    def begin(self) -> ColumnSet:
        """Empty columns, for a kernel to fill."""
        names = self._schema.names
        self._numbers = {
            OFFSET: pa.allocate_buffer(8 * self._rows),
            TIMESTAMP: pa.allocate_buffer(8 * self._rows if TIMESTAMP in names else 0),
            TIMESTAMP_TYPE: pa.allocate_buffer(4 * self._rows if TIMESTAMP_TYPE in names else 0),
        }
        self._set = new_column_set(
            _words(self._numbers[OFFSET], "q"),
            _words(self._numbers[TIMESTAMP], "q"),
            _words(self._numbers[TIMESTAMP_TYPE], "i"),
            self._bytes[KEY].begin() if KEY in self._bytes else None,
            self._bytes[VALUE].begin() if VALUE in self._bytes else None,
        )
        if self._headers is not None:
            self._headers.begin(self._set)
        return self._set

    @property
    def rows(self) -> int:
        filled: int = self._set.rows
        return filled

    def make_room(self, full: int) -> bool:
        """For the next row, where the kernel found `full`; False when the record batch must be given out before."""
        alone = self._set.rows == 0
        if full in (KEYS_FULL, VALUES_FULL):
            return self._bytes[KEY if full == KEYS_FULL else VALUE].grow(may_exceed=alone)
        if full == HEADERS_FULL:
            assert self._headers is not None
            return self._headers.grow(self._set.needed_headers, may_exceed=alone)
        return False

    def finish(self) -> pa.RecordBatch:
        """What is filled. `begin` again then."""
        rows = self._set.rows
        arrays = [self._array(field, rows) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, field: pa.Field, rows: int) -> pa.Array:
        name = field.name
        if name in self._constants:
            return self._constants[name].slice(0, rows)
        if name in self._bytes:
            return self._bytes[name].array(field.type)
        if name == HEADERS:
            assert self._headers is not None
            return self._headers.array(field.type, rows, self._set.rows_without_headers)
        data = self._numbers[name].slice(0, rows * field.type.bit_width // 8)
        return pa.Array.from_buffers(field.type, rows, [None, data], 0)


def _constants(columns: Columns, partition: TopicPartition, rows: int) -> Mapping[str, pa.Array]:
    """The columns that are the same in every row, as long as they may have to be."""
    arrays = {
        TOPIC: pa.repeat(pa.scalar(partition.topic, pa.string()), rows),
        PARTITION: pa.repeat(pa.scalar(partition.partition, pa.int32()), rows),
    }
    return {name: array for name, array in arrays.items() if name in columns}


class _HeaderRoom:
    """The buffers of the column of headers: a list of structs a row."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._keys = _BytesRoom(rows, _LEAST_BYTES)
        self._values = _BytesRoom(rows, _LEAST_BYTES)

    def begin(self, columns: ColumnSet) -> None:
        self._ends = pa.allocate_buffer(4 * (self._rows + 1))
        self._bits = _set_bits(self._rows)
        columns.add_headers(_words(self._ends, "i"), _words(self._bits, "B"), self._keys.begin(), self._values.begin())

    def grow(self, more: int, *, may_exceed: bool) -> bool:
        return all(room.grow(may_exceed=may_exceed, more_rows=more) for room in (self._keys, self._values))

    def array(self, type_: pa.DataType, rows: int, without: int) -> pa.Array:
        keys = _as_text(self._keys.array(pa.binary()))
        structs = pa.StructArray.from_arrays([keys, self._values.array(pa.binary())], fields=list(HEADER_TYPE))
        buffers = [self._bits if without else None, self._ends.slice(0, 4 * (rows + 1))]
        return pa.Array.from_buffers(type_, rows, buffers, without, children=[structs])


def _as_text(keys: pa.Array) -> pa.Array:
    """Keys of headers are UTF-8. Bytes in them that are not become U+FFFD, as in every Java client."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())
