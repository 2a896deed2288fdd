"""Amounts by minute as bins of an even and round width.

Timestamps are the producers': some are zero, in another unit or of another century. Where a very small part of all
would stretch the axis to many times its length, that part is left out, and said to be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tailrace.spark.report.scale import LAST_SECOND, MINUTE, time_step

MOST_BINS: Final = 120
_LAST_MINUTE: Final = LAST_SECOND // MINUTE
_STRAY_SHARE: Final = 0.005
_STRAY_STRETCH: Final = 8


@dataclass(frozen=True)
class Timeline:
    """Bin i is [start + i × minutes, start + (i + 1) × minutes)."""

    start: int
    minutes: int
    count: int
    left_out: float = 0.0
    """The part of everything that lies outside."""

    @property
    def width_seconds(self) -> int:
        return self.minutes * MINUTE

    def starts(self) -> list[float]:
        """Of each bin, in seconds since 1970."""
        return [float((self.start + at * self.minutes) * MINUTE) for at in range(self.count)]

    def sums(self, amounts: Mapping[int, int]) -> list[int]:
        """By bin, of amounts by minute."""
        bins = [0] * self.count
        for minute, amount in amounts.items():
            at = (minute - self.start) // self.minutes
            if 0 <= at < self.count:
                bins[at] += amount
        return bins

    def rates(self, amounts: Mapping[int, int]) -> list[tuple[float, float]]:
        """(seconds, amount a second) of each bin."""
        return [
            (start, each / self.width_seconds) for start, each in zip(self.starts(), self.sums(amounts), strict=True)
        ]

    def growth(self, amounts: Mapping[int, int]) -> list[tuple[float, float]]:
        """(seconds, everything up to then): at the start, and at the end of each bin."""
        grown = sum(amount for minute, amount in amounts.items() if minute < self.start)
        points = [(float(self.start * MINUTE), float(grown))]
        for start, each in zip(self.starts(), self.sums(amounts), strict=True):
            grown += each
            points.append((start + self.width_seconds, float(grown)))
        return points


def timeline(amounts: Mapping[int, int], most: int = MOST_BINS) -> Timeline | None:
    """Over all minutes that have an amount; None where none has."""
    known = sorted(minute for minute, amount in amounts.items() if amount > 0 and 0 <= minute <= _LAST_MINUTE)
    if not known:
        return None
    total = sum(amount for amount in amounts.values() if amount > 0)
    first, last = _without_strays(known, amounts)
    step = max(time_step((last - first + 1) * MINUTE, most) // MINUTE, 1)
    start = first // step * step
    count = (last - start) // step + 1
    inside = sum(amounts[minute] for minute in known if start <= minute < start + count * step)
    return Timeline(start, step, count, 1 - inside / total if inside < total else 0.0)


def _without_strays(known: list[int], amounts: Mapping[int, int]) -> tuple[int, int]:
    spare = sum(amounts[minute] for minute in known) * _STRAY_SHARE
    low = _passed(known, amounts, spare)
    high = _passed(known[::-1], amounts, spare)
    whole = known[-1] - known[0] + 1
    kept = high - low + 1
    return (low, high) if 0 < kept * _STRAY_STRETCH < whole else (known[0], known[-1])


def _passed(minutes: list[int], amounts: Mapping[int, int], spare: float) -> int:
    """The first minute whose amount, with all before it, is more than `spare`."""
    for minute in minutes:
        spare -= amounts[minute]
        if spare < 0:
            return minute
    return minutes[-1]
