"""Dates and timestamps that tables hold: years 1 to 9999. Others have a number in a file, and no reader shows it."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.spark.tables.values.readers import BadValueError

DAYS: Final = (-719_162, 2_932_896)
"""0001-01-01 and 9999-12-31, from 1970-01-01."""
MICROS: Final = (DAYS[0] * 86_400_000_000, (DAYS[1] + 1) * 86_400_000_000 - 1)


def timestamps(micros: pa.Array, made: pa.TimestampType) -> pa.Array:
    """Of microseconds since 1970."""
    _refuse_outside(micros, MICROS, "a timestamp")
    return micros.cast(made)


def dates(days: pa.Array) -> pa.Array:
    """Of days since 1970."""
    _refuse_outside(days, DAYS, "a date")
    return days.cast(pa.date32())


def _refuse_outside(numbers: pa.Array, bounds: tuple[int, int], what: str) -> None:
    found = pc.min_max(numbers).as_py()
    for one in (found["min"], found["max"]):
        if one is not None and not bounds[0] <= one <= bounds[1]:
            raise BadValueError(f"{what} outside the years 1 to 9999 ({one})")
