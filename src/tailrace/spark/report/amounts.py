"""Numbers, sizes and times as people read them. Whatever a file may state is shown: no number is too large or odd."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

from tailrace.spark.report.page import Unit
from tailrace.spark.report.scale import LAST_SECOND

_BYTES: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB")
_THOUSANDS: Final = ("", " k", " M", " G", " T", " P", " E")
NOTHING: Final = "–"


def shown(value: float, unit: Unit) -> str:
    if not math.isfinite(value):
        return NOTHING
    match unit:
        case "bytes":
            return size(value)
        case "bytes/s":
            return f"{size(value)}/s"
        case "count":
            return short(value)
        case "count/s":
            return f"{short(value)}/s"
        case "share":
            return share(value)
        case "ratio":
            return ratio(value)
        case "seconds":
            return span(value)
        case "time":
            return moment(value)


def size(value: float) -> str:
    """Three digits that count, in units of 1024."""
    return _stepped(value, 1024, _BYTES, " ")


def short(value: float) -> str:
    """Three digits that count: `917`, `1.25 M`. Whole numbers below ten thousand as they are."""
    if abs(value) < 10_000 and value == int(value):
        return f"{int(value):,}"
    return _stepped(value, 1000, _THOUSANDS, "")


def whole(value: int) -> str:
    return f"{value:,}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def digits(value: float) -> str:
    """Three digits that count, and no zeros behind the point."""
    kept = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    text = f"{value:,.{kept}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def ratio(value: float) -> str:
    return f"{value:,.2f}×"


def share(value: float) -> str:
    percent = value * 100
    if 0 < percent < 0.1:
        return "< 0.1 %"
    return f"{percent:.1f} %".replace(".0 %", " %")


def span(seconds: float) -> str:
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{digits(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days:,} d {hours} h" if hours and days < 100 else f"{days:,} d"


def moment(seconds: float) -> str:
    """In UTC, to the second; without the seconds at a whole minute."""
    if not 0 <= seconds <= LAST_SECOND:
        return NOTHING
    at = datetime.fromtimestamp(seconds, UTC)
    return at.strftime("%Y-%m-%d %H:%M:%S" if at.second else "%Y-%m-%d %H:%M")


def _stepped(value: float, step: int, units: tuple[str, ...], between: str) -> str:
    unit = 0
    kept = float(value)
    while abs(kept) >= 999.5 and unit < len(units) - 1:
        kept /= step
        unit += 1
    return f"{digits(kept)}{between}{units[unit]}"
