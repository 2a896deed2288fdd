"""Sums over time, in buckets that get wider as there are more of them.

A time line begins with buckets of a millisecond. When it has more than MOST_BUCKETS it takes the next width of
WIDTHS_MS, each of which divides the next: so lines add up, whatever their widths are, and never take more memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

MOST_BUCKETS: Final = 2048
END_MS: Final = 253_402_300_800_000
"""The year 10000. Times from there on, and those before 1970, are none."""

_SECOND: Final = 1000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
WIDTHS_MS: Final = (
    *(1, 2, 10, 20, 100, 200),
    *(_SECOND, 2 * _SECOND, 10 * _SECOND, 30 * _SECOND),
    *(_MINUTE, 5 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE),
    *(_HOUR, 2 * _HOUR, 6 * _HOUR, 12 * _HOUR),
    *(_DAY, 7 * _DAY, 28 * _DAY, 364 * _DAY, 1820 * _DAY, 18200 * _DAY),
)


class TimeLine:
    """So many sums for each bucket. `starts` ascend; `sums` has a row for each."""

    def __init__(self, sums: int) -> None:
        self.width_ms = WIDTHS_MS[0]
        self.starts: Numbers = np.zeros(0, np.int64)
        self.sums: Numbers = np.zeros((0, sums), np.int64)
        self.undated: Numbers = np.zeros(sums, np.int64)
        """Sums of what has no time."""

    def add(self, times_ms: Numbers, values: Sequence[Numbers]) -> None:
        """A column of values for each sum."""
        rows = np.stack(values, axis=1) if len(times_ms) else self.sums[:0]
        is_dated = (times_ms >= 0) & (times_ms < END_MS)
        if not is_dated.all():
            self.undated = self.undated + rows[~is_dated].sum(axis=0)
            times_ms, rows = times_ms[is_dated], rows[is_dated]
        self._put(times_ms - times_ms % self.width_ms, rows)

    def take(self, other: TimeLine) -> None:
        self.undated = self.undated + other.undated
        self.widen(other.width_ms)
        self._put(other.starts - other.starts % self.width_ms, other.sums)

    def widen(self, width_ms: int) -> None:
        """To at least this width, which is one of WIDTHS_MS."""
        if width_ms > self.width_ms:
            self.width_ms = width_ms
            self.starts, self.sums = summed(self.starts - self.starts % width_ms, self.sums)

    def copy(self) -> TimeLine:
        made = TimeLine(self.sums.shape[1])
        made.take(self)
        return made

    @property
    def span(self) -> int:
        """How many buckets there are from the first to the last, also those in which nothing is."""
        return int(self.starts[-1] - self.starts[0]) // self.width_ms + 1 if len(self.starts) else 0

    def _put(self, starts: Numbers, rows: Numbers) -> None:
        if not len(starts):
            return
        # Columns are summed before they are put together: what is added is mostly of one short time.
        added = summed(starts, rows)
        self.starts, self.sums = summed(np.concatenate((self.starts, added[0])), np.concatenate((self.sums, added[1])))
        while len(self.starts) > MOST_BUCKETS:
            self.widen(WIDTHS_MS[WIDTHS_MS.index(self.width_ms) + 1])


def summed(starts: Numbers, rows: Numbers) -> tuple[Numbers, Numbers]:
    found, places = np.unique(starts, return_inverse=True)
    sums = np.zeros((len(found), rows.shape[1]), np.int64)
    np.add.at(sums, places, rows)
    return found, sums
