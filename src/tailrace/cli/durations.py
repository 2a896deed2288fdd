"""Spans of time, as they are written (`90m`, `1h30m`, `2d`, or ISO 8601's `PT1H30M`) and as they are shown."""

from __future__ import annotations

import argparse
import re
from typing import Final

_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)(ms|s|m|h|d|w)")
_ISO: Final = re.compile(r"P(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?", re.IGNORECASE)
_LONGEST_MS: Final = 1 << 62


def duration_ms(text: str) -> int:
    """For argparse: milliseconds, of one or more numbers with a unit behind each."""
    found = _iso_ms(text) if text[:1] in ("P", "p") else _parts_ms(text.lower())
    if found is None or not found <= _LONGEST_MS:
        raise argparse.ArgumentTypeError(f"{text!r} is no span of time; write 90s, 15m, 1h30m, 2d or PT1H30M")
    return found


def _parts_ms(text: str) -> int | None:
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return round(sum(float(number) * _UNITS_MS[unit] for number, unit in parts))


def _iso_ms(text: str) -> int | None:
    found = _ISO.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


def shown_duration(seconds: float) -> str:
    """Two units at most: `850 ms`, `42 s`, `3 min 20 s`, `5 h 1 min`, `12 d`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return _two(whole // 60, "min", whole % 60, "s")
    if whole < 86_400:
        return _two(whole // 3600, "h", whole % 3600 // 60, "min")
    return _two(whole // 86_400, "d", whole % 86_400 // 3600, "h")


def _two(great: int, great_unit: str, small: int, small_unit: str) -> str:
    return f"{great:,} {great_unit}" + (f" {small} {small_unit}" if small and great < 100 else "")
