"""What a commit tells about a file: how many rows, and for columns the least and greatest value and how many are null.

Readers leave files out by it, so each bound must hold for every row; where that is not sure there is none. Floating
point numbers have none: Parquet leaves NaN out of them, and for Delta's readers it is the greatest. Long texts have the
beginning of the least one, and no greatest. Only the first columns are told of, as Delta does it unless configured.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

MOST_COLUMNS: Final = 32
MOST_CHARACTERS: Final = 64

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY: Final = date(1970, 1, 1)
_MICROS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}

Bounds = tuple[Any, Any]
"""Either may be None: not known."""


def statistics_of(rows: int, footer: pq.FileMetaData | None) -> str:
    """As JSON, in the form of Delta's `stats`."""
    told: dict[str, Any] = {"numRecords": rows}
    if footer is not None:
        least: dict[str, Any] = {}
        greatest: dict[str, Any] = {}
        nulls: dict[str, Any] = {}
        for number, path, kind in _columns(footer.schema.to_arrow_schema()):
            found = _of_column(footer, number)
            if found is None:
                continue
            count, low, high = found
            _put(nulls, path, count)
            low, high = _told(low, high, kind)
            _put(least, path, low)
            _put(greatest, path, high)
        told |= {"minValues": least, "maxValues": greatest, "nullCount": nulls}
    return json.dumps(told, separators=(",", ":"), allow_nan=False)


def _columns(schema: pa.Schema) -> Iterator[tuple[int, tuple[str, ...], pa.DataType]]:
    """Those that have one value in a row: the column's number in the file, its path, its type."""
    for number, (path, kind, is_single) in enumerate(_leaves(schema, (), True)):
        if is_single and number < MOST_COLUMNS:
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


def _of_column(footer: pq.FileMetaData, number: int) -> tuple[int, Any, Any] | None:
    """How many are null, least and greatest, as they are stored. None where a row group does not tell."""
    nulls = 0
    bounds: list[tuple[Any, Any]] = []
    is_bounded = True
    for group in range(footer.num_row_groups):
        column = footer.row_group(group).column(number)
        found = column.statistics
        if found is None or not found.has_null_count:
            return None
        nulls += found.null_count
        if found.null_count == column.num_values:
            continue
        if found.has_min_max:
            bounds.append((found.min_raw, found.max_raw))
        else:
            is_bounded = False
    if not bounds or not is_bounded:
        return nulls, None, None
    return nulls, min(low for low, _ in bounds), max(high for _, high in bounds)


def _told(low: Any, high: Any, kind: pa.DataType) -> Bounds:
    if low is None:
        return None, None
    try:
        if pa.types.is_integer(kind) and not pa.types.is_unsigned_integer(kind):
            return int(low), int(high)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return _texts(low, high)
        if pa.types.is_date32(kind):
            return _day(low), _day(high)
        if pa.types.is_timestamp(kind) and kind.unit in _MICROS:
            return _moment(low, kind), _moment(high, kind)
    except (OverflowError, UnicodeDecodeError):  # years beyond 9999, half a character
        pass
    return None, None


def _texts(low: bytes, high: bytes) -> Bounds:
    """In the order of their UTF-8, which is that of their characters."""
    least, greatest = low.decode(), high.decode()
    return least[:MOST_CHARACTERS], greatest if len(greatest) <= MOST_CHARACTERS else None


def _day(days: int) -> str:
    return (_FIRST_DAY + timedelta(days=days)).isoformat()


def _moment(count: int, kind: pa.TimestampType) -> str:
    moment = _EPOCH + timedelta(microseconds=count * _MICROS[kind.unit])
    text = moment.replace(tzinfo=None).isoformat(timespec="microseconds")
    return f"{text}Z" if kind.tz else text


def _put(into: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    if value is None:
        return
    for name in path[:-1]:
        into = into.setdefault(name, {})
    into[path[-1]] = value
