"""Readers of one schema's values, and how what several of them read becomes the columns of one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa

from tailrace.spark.errors import PipelineError

_BLOCK_ROWS: Final = 2048


class BadValueError(PipelineError):
    """A value that does not fit its schema, or that no column holds. The text is a dead letter's reason."""


@dataclass(frozen=True)
class Read:
    columns: Sequence[pa.Array]
    """Null in rows without a value, and in bad ones."""
    bad: dict[int, str] = field(default_factory=dict)
    """Row → why."""


class ValueReader(Protocol):
    def read(self, payloads: Sequence[bytes | None]) -> Read:
        """Columns of the table, in its types. Never raises for what is in a value."""
        ...


def in_blocks(payloads: Sequence[bytes | None], read: Callable[[Sequence[bytes | None]], Read]) -> Read:
    """Some values at a time: few enough for the processor's caches, and for Python's collector of garbage."""
    if len(payloads) <= _BLOCK_ROWS:
        return read(payloads)
    starts = range(0, len(payloads), _BLOCK_ROWS)
    blocks = [read(payloads[start : start + _BLOCK_ROWS]) for start in starts]
    columns = [pa.concat_arrays(pieces) for pieces in zip(*(one.columns for one in blocks), strict=True)]
    bad = {start + row: why for start, one in zip(starts, blocks, strict=True) for row, why in one.bad.items()}
    return Read(columns, bad)


def parsed(payloads: Sequence[bytes | None], parse: Callable[[bytes], Any]) -> tuple[list[Any], dict[int, str]]:
    """What a library makes of each value; None, with the reason, where it raises. It may raise anything: they say
    nothing about it, and what it raises is about the one value."""
    rows: list[Any] = []
    bad: dict[int, str] = {}
    for at, payload in enumerate(payloads):
        if payload is None:
            rows.append(None)
            continue
        try:
            rows.append(parse(payload))
        except Exception as error:
            bad[at] = reason_of(error)
            rows.append(None)
    return rows, bad


def built(rows: Sequence[Any], build: Callable[[Sequence[Any]], list[pa.Array]], bad: dict[int, str]) -> list[pa.Array]:
    """The columns of parsed rows. Rows that cannot be held are found by halving, put among the bad ones, and null."""
    return _built(rows, build, bad, 0)


def _built(
    rows: Sequence[Any], build: Callable[[Sequence[Any]], list[pa.Array]], bad: dict[int, str], start: int
) -> list[pa.Array]:
    try:
        return build(rows)
    except Exception as error:
        if len(rows) == 1 and rows[0] is not None:
            bad[start] = reason_of(error)
            return build([None])
        if len(rows) <= 1:
            raise
    half = len(rows) // 2
    left = _built(rows[:half], build, bad, start)
    right = _built(rows[half:], build, bad, start + half)
    return [pa.concat_arrays(both) for both in zip(left, right, strict=True)]


def reason_of(error: Exception) -> str:
    if isinstance(error, BadValueError):
        return str(error)
    if isinstance(error, EOFError):
        return "the value ends too early"
    return f"{type(error).__name__}: {error}"[:500]


def merged(row_count: int, parts: Sequence[tuple[Sequence[int], Read]], fields: Sequence[pa.Field]) -> Read:
    """Of what was read of some rows each, the whole. Rows that nobody read are null."""
    if len(parts) == 1 and len(parts[0][0]) == row_count:
        return parts[0][1]
    bad: dict[int, str] = {}
    source = [-1] * row_count
    start = 0
    for rows, read in parts:
        for at, row in enumerate(rows):
            source[row] = start + at
        bad.update((rows[at], why) for at, why in read.bad.items())
        start += len(rows)
    order = pa.array([None if at < 0 else at for at in source], pa.int64())
    columns = []
    for place, one in enumerate(fields):
        pieces = [read.columns[place] for _, read in parts]
        columns.append(pa.concat_arrays(pieces).take(order) if pieces else pa.nulls(row_count, one.type))
    return Read(columns, bad)
