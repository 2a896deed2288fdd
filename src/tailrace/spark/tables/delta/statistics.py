"""What a commit tells about a file: how many rows, and for columns the least and greatest value and how many are null.

Readers leave files out by it, so each bound must hold for every row. And a file has the bounds of all its columns, or
none: deltalake takes a column without bounds, in a file that has others, for one without any value. So a file goes
without where a bound cannot be told: numbers that are not finite (Parquet leaves NaN out of its bounds, and for Delta's
readers it is the greatest), decimals of more digits than every reader of JSON keeps, days beyond the calendar. Long
texts have bounds of their beginnings. Only the first columns are told of, as Delta does it unless configured: by a
count of those that have one value in a row, for readers differ in how they count lists, and none must expect bounds
of a column that is left out here. Nested columns without any bound are there as empty objects: where one is missing,
all of the struct is taken for null.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import islice
from math import isfinite
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

MOST_COLUMNS: Final = 32
NUM_INDEXED_COLUMNS: Final = "delta.dataSkippingNumIndexedCols"
STATS_COLUMNS: Final = "delta.dataSkippingStatsColumns"
MOST_CHARACTERS: Final = 64
MOST_DIGITS: Final = 15
"""That a double keeps, which is what some readers make of a decimal."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY: Final = date(1970, 1, 1)
_BEFORE_SURROGATES: Final = 0xD7FF
_BEHIND_SURROGATES: Final = 0xE000
_LAST_CHARACTER: Final = 0x10FFFF
_MICROS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}

Bounds = tuple[Any, Any]


class _UnboundedError(Exception):
    """There is a value that no bound can be told for."""


def statistics_of(
    rows: int, footer: pq.FileMetaData | None, *, has_nan: bool = False, most_columns: int | None = MOST_COLUMNS
) -> str:
    """As JSON, in the form of Delta's `stats`. `has_nan`: whether any number of the file may be NaN."""
    told: dict[str, Any] = {"numRecords": rows}
    if footer is not None and not has_nan:
        with suppress(_UnboundedError):
            told |= _of_columns(footer, most_columns)
    return json.dumps(told, separators=(",", ":"), allow_nan=False)


def most_columns_of(configuration: Mapping[str, str]) -> int | None:
    """Of which readers of a table with these properties may expect bounds. None: of any."""
    if STATS_COLUMNS in configuration:
        return None
    try:
        most = int(configuration.get(NUM_INDEXED_COLUMNS, MOST_COLUMNS))
    except (ValueError, TypeError):
        return None
    return max(most, MOST_COLUMNS) if most >= 0 else None


def _of_columns(footer: pq.FileMetaData, most_columns: int | None) -> dict[str, Any]:
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for number, path, kind in islice(_columns(footer.schema.to_arrow_schema()), most_columns):
        count, bounds = _of_column(footer, number, kind)
        _inside(nulls, path)[path[-1]] = count
        low, high = _inside(least, path), _inside(greatest, path)
        if bounds is not None:
            low[path[-1]], high[path[-1]] = bounds
    return {"minValues": least, "maxValues": greatest, "nullCount": nulls}


def _columns(schema: pa.Schema) -> Iterator[tuple[int, tuple[str, ...], pa.DataType]]:
    """Those that have one value in a row: the column's number in the file, its path, its type."""
    for number, (path, kind, is_single) in enumerate(_leaves(schema, (), True)):
        if is_single:
            yield number, path, kind


def _leaves(fields: Any, above: tuple[str, ...], is_single: bool) -> Iterator[tuple[tuple[str, ...], Any, bool]]:
    """In the order in which Parquet has them."""
    for each in fields:
        yield from _leaves_of(each.type, (*above, each.name), is_single)


def _leaves_of(
    kind: pa.DataType, path: tuple[str, ...], is_single: bool
) -> Iterator[tuple[tuple[str, ...], Any, bool]]:
    if pa.types.is_struct(kind):
        yield from _leaves(kind, path, is_single)
    elif pa.types.is_map(kind):
        yield from _leaves_of(kind.key_type, path, False)
        yield from _leaves_of(kind.item_type, path, False)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _leaves_of(kind.value_type, path, False)
    else:
        yield path, kind, is_single


def _of_column(footer: pq.FileMetaData, number: int, kind: pa.DataType) -> tuple[int, Bounds | None]:
    """How many are null, and the bounds of the others; without these where there are none, and for bytes."""
    nulls = 0
    found: list[Bounds] = []
    for group in range(footer.num_row_groups):
        column = footer.row_group(group).column(number)
        statistics = column.statistics
        if statistics is None or not statistics.has_null_count:
            raise _UnboundedError
        nulls += statistics.null_count
        if statistics.null_count == column.num_values or _has_no_order(kind):
            continue
        if not statistics.has_min_max:
            raise _UnboundedError
        found.append((_value(statistics.min_raw, kind), _value(statistics.max_raw, kind)))
    if not found:
        return nulls, None
    try:
        return nulls, _told(min(low for low, _ in found), max(high for _, high in found), kind)
    except OverflowError:  # years beyond 9999
        raise _UnboundedError from None


def _has_no_order(kind: pa.DataType) -> bool:
    """For Delta's readers: they look for no bounds."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _value(raw: Any, kind: pa.DataType) -> Any:
    """What is stored, as something that has the order of the column."""
    if pa.types.is_decimal(kind):
        unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw)
        return Decimal(unscaled).scaleb(-kind.scale)
    try:
        return raw.decode() if isinstance(raw, bytes) else raw
    except UnicodeDecodeError:
        raise _UnboundedError from None


def _told(low: Any, high: Any, kind: pa.DataType) -> Bounds:
    if pa.types.is_integer(kind) and not pa.types.is_unsigned_integer(kind):
        return int(low), int(high)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return low[:MOST_CHARACTERS], _not_below(high)
    if pa.types.is_boolean(kind):
        return bool(low), bool(high)
    if pa.types.is_floating(kind) and isfinite(low) and isfinite(high):
        return float(low), float(high)
    if pa.types.is_decimal(kind) and max(len(each.as_tuple().digits) for each in (low, high)) <= MOST_DIGITS:
        return float(low), float(high)
    if pa.types.is_date32(kind):
        return _day(low), _day(high)
    if pa.types.is_timestamp(kind) and kind.unit in _MICROS:
        return _moment(low, kind), _moment(high, kind)
    raise _UnboundedError


def _not_below(text: str) -> str:
    """The text, or a short one that is greater, in the order of characters, which is that of their UTF-8."""
    if len(text) <= MOST_CHARACTERS:
        return text
    for place in range(MOST_CHARACTERS - 1, -1, -1):
        character = ord(text[place])
        if character < _LAST_CHARACTER:
            following = _BEHIND_SURROGATES if character == _BEFORE_SURROGATES else character + 1
            return text[:place] + chr(following)
    raise _UnboundedError


def _day(days: int) -> str:
    return (_FIRST_DAY + timedelta(days=days)).isoformat()


def _moment(count: int, kind: pa.TimestampType) -> str:
    moment = _EPOCH + timedelta(microseconds=count * _MICROS[kind.unit])
    text = moment.replace(tzinfo=None).isoformat(timespec="microseconds")
    return f"{text}Z" if kind.tz else text


def _inside(told: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """The object that a column is in, made where it is not there."""
    for name in path[:-1]:
        told = told.setdefault(name, {})
    return told
