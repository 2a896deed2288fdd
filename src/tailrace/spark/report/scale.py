"""Round numbers for axes: of amounts, of bytes (in powers of two) and of time (in minutes, hours, days and months)."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

from tailrace.spark.report.page import Unit

_DECIMAL: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_BINARY: Final = tuple(float(1 << at) for at in range(11))
_LEAST: Final = 1e-9
"""An axis for less than that ends at 1: nothing would be seen on it."""
MINUTE: Final = 60
HOUR: Final = 3600
DAY: Final = 86_400
LAST_SECOND: Final = 253_402_300_799
"""Of the year 9999, in seconds since 1970: the last one that has a date."""
TIME_STEPS: Final = (
    *(1, 2, 5, 10, 15, 30),
    *(MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE),
    *(HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR),
    *(DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 90 * DAY, 180 * DAY, 365 * DAY),
)
"""Seconds. Months and years are not of one length: ticks of those stand at even distances all the same."""


def ticks(top: float, unit: Unit, most: int = 5) -> list[float]:
    """From 0 to the first round number that is not below `top`, evenly; at least two."""
    if not math.isfinite(top) or top < _LEAST:
        top = 1.0
    smallest = 1.0 if unit in ("count", "bytes") else 0.0
    step = _round_up(max(top / most, smallest), unit)
    return [step * at for at in range(max(math.ceil(top / step - 1e-9), 1) + 1)]


def _round_up(value: float, unit: Unit) -> float:
    if unit in ("bytes", "bytes/s"):
        base, choices = 1024.0, _BINARY
    else:
        base, choices = 10.0, _DECIMAL
    scale = base ** math.floor(math.log(value, base) + 1e-12)
    return scale * next((each for each in choices if each * scale >= value * (1 - 1e-9)), base)


def time_step(seconds: float, most: int) -> int:
    """The shortest round step that `most` of cover `seconds`; multiples of years behind the table."""
    for step in TIME_STEPS:
        if seconds <= step * most:
            return step
    years = math.ceil(seconds / (TIME_STEPS[-1] * most))
    return TIME_STEPS[-1] * years


def time_ticks(first: float, last: float, most: int = 6) -> list[tuple[float, str]]:
    """Moments within [first, last] with what stands below each, in UTC: no more of it than they need to differ."""
    last = min(last, LAST_SECOND)
    step = time_step(max(last - first, 1), most)
    at = math.ceil(first / step) * step
    found: list[tuple[float, str]] = []
    while at <= last:
        has_day = last - first > DAY and not found
        found.append((at, _moment(datetime.fromtimestamp(at, UTC), step, has_day)))
        at += step
    return found or [(first, _moment(datetime.fromtimestamp(min(first, last), UTC), 1, False))]


def _moment(when: datetime, step: int, has_day: bool) -> str:
    if step >= 30 * DAY:
        return f"{when:%b %Y}"
    if step >= DAY or has_day or when.hour == when.minute == when.second == 0:
        return f"{when.day} {when:%b}"
    return f"{when:%H:%M:%S}" if step < MINUTE else f"{when:%H:%M}"
