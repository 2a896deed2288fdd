"""Columns of an Arrow batch as the kernel `rows` takes them: memory as it is, offsets widened to 64 bits."""

from __future__ import annotations

from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.record.builder import decode_header_key
from tailrace.spark.errors import PipelineError

NO_BYTES: Final = memoryview(b"")
NO_INTS: Final = NO_BYTES.cast("i")
NO_LONGS: Final = NO_BYTES.cast("q")

BytesColumn = tuple[memoryview, memoryview, memoryview, int]
"""Offsets, data, validity and its first bit."""
NumberColumn = tuple[memoryview, memoryview, int]
"""Values, validity and its first bit."""

NO_COLUMN: Final[BytesColumn] = (NO_LONGS, NO_BYTES, NO_BYTES, 0)
NO_PARTITIONS: Final[NumberColumn] = (NO_INTS, NO_BYTES, 0)
NO_TIMES: Final[NumberColumn] = (NO_LONGS, NO_BYTES, 0)

_MICROS_PER_SECOND: Final = 1_000_000.0


def bytes_column(column: pa.Array) -> BytesColumn:
    """Of strings or binaries, large or not."""
    wide = column.cast(pa.large_binary())
    _, offsets, data = wide.buffers()
    return (
        _numbers(offsets, "q", wide.offset, len(wide) + 1),
        NO_BYTES if data is None else memoryview(data).cast("B"),
        *_validity(wide),
    )


def partition_column(column: pa.Array) -> NumberColumn:
    return _numbers(column.buffers()[1], "i", column.offset, len(column)), *_validity(column)


def time_column(column: pa.Array) -> NumberColumn:
    """Of timestamps, or of seconds in doubles; in microseconds."""
    if pa.types.is_floating(column.type):
        try:
            column = pc.trunc(pc.multiply(column, _MICROS_PER_SECOND)).cast(pa.int64())
        except pa.ArrowInvalid as cause:
            raise PipelineError(f"timestamp attribute holds numbers that are no time in seconds: {cause}") from cause
    else:
        column = column.cast(pa.timestamp("us", column.type.tz)).view(pa.int64())
    return _numbers(column.buffers()[1], "q", column.offset, len(column)), *_validity(column)


def header_columns(column: pa.Array) -> tuple[NumberColumn, tuple[memoryview, int], BytesColumn, BytesColumn]:
    """Of lists of (key, value): the lists, which of their entries are valid, the keys, the values."""
    wide = column.cast(pa.large_list(column.type.value_field))
    lists = (_numbers(wide.buffers()[1], "q", wide.offset, len(wide) + 1), *_validity(wide))
    pairs = wide.values
    return lists, _validity(pairs), bytes_column(pairs.field(0)), bytes_column(pairs.field(1))


def bytes_at(column: BytesColumn, place: int) -> bytes | None:
    offsets, data, bitmap, first = column
    return bytes(data[offsets[place] : offsets[place + 1]]) if _is_valid(bitmap, first + place) else None


def headers_at(column: pa.Array, place: int) -> list[tuple[str, bytes | None]]:
    (offsets, bitmap, first), _, names, contents = header_columns(column)
    if not _is_valid(bitmap, first + place):
        return []
    return [
        (decode_header_key(bytes_at(names, each) or b""), bytes_at(contents, each))
        for each in range(offsets[place], offsets[place + 1])
    ]


def time_at(column: pa.Array, place: int) -> int | None:
    """In microseconds."""
    times, bitmap, first = time_column(column)
    return int(times[place]) if _is_valid(bitmap, first + place) else None


def topic_names(column: pa.Array) -> tuple[list[str], pa.Array]:
    """The distinct names, and the place among them of each row's; null where it has none."""
    coded = column.dictionary_encode()
    names = [name.decode("utf-8", "replace") for name in coded.dictionary.cast(pa.binary()).to_pylist()]
    return names, coded.indices


def index_column(places: pa.Array, numbers: list[int]) -> memoryview:
    """`numbers` by the places of rows among them; −1 for null."""
    column = pc.fill_null(pa.array(numbers, pa.int32()).take(places), -1)
    return _numbers(column.buffers()[1], "i", column.offset, len(column))


def _numbers(buffer: pa.Buffer | None, kind: Literal["i", "q"], first: int, count: int) -> memoryview:
    if buffer is None or not count:
        return NO_BYTES.cast(kind)
    size = 4 if kind == "i" else 8
    return memoryview(buffer).cast("B")[first * size : (first + count) * size].cast(kind)


def _validity(column: pa.Array) -> tuple[memoryview, int]:
    bitmap = column.buffers()[0]
    if bitmap is None or not column.null_count:
        return NO_BYTES, 0
    return memoryview(bitmap).cast("B"), column.offset


def _is_valid(bitmap: memoryview, bit: int) -> bool:
    return not bitmap or bool(bitmap[bit >> 3] >> (bit & 7) & 1)
