"""Sums over time, in buckets that are the wider the older they are: how much is so young is known for any age alike.

One time that is far from all others makes the buckets of a `TimeLine` wide everywhere. Here only its own are.

Times are kept as they are until there are more than MOST_BUCKETS of them. Then each goes to a bucket whose width is at
most a PARTS-th of its age, counted from the newest one. Widths divide each other, and only grow with age: so lines add
up, and never take more memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tailrace.spark.statistics.timeline import END_MS, WIDTHS_MS, Numbers, summed

MOST_BUCKETS: Final = 4096
PARTS: Final = 48
"""Not more: then there may be more than MOST_BUCKETS buckets from today to the year 10000."""

_WIDTHS: Final = np.array(WIDTHS_MS, np.int64)


class AgeLine:
    """So many sums for each bucket. `starts` ascend; `sums` has a row for each."""

    def __init__(self, sums: int) -> None:
        self.starts: Numbers = np.zeros(0, np.int64)
        self.sums: Numbers = np.zeros((0, sums), np.int64)
        self.undated: Numbers = np.zeros(sums, np.int64)
        """Sums of what has no time."""
        self._widened_at: int | None = None
        """The newest time when buckets were last widened; None: all of them are of a millisecond."""

    def add(self, times_ms: Numbers, values: Sequence[Numbers]) -> None:
        """A column of values for each sum."""
        rows = np.stack(values, axis=1) if len(times_ms) else self.sums[:0]
        is_dated = (times_ms >= 0) & (times_ms < END_MS)
        if not is_dated.all():
            self.undated = self.undated + rows[~is_dated].sum(axis=0)
            times_ms, rows = times_ms[is_dated], rows[is_dated]
        self._put(times_ms, rows)

    def take(self, other: AgeLine) -> None:
        self.undated = self.undated + other.undated
        points = [each._widened_at for each in (self, other) if each._widened_at is not None]
        self._widened_at = max(points, default=None)
        self._put(other.starts, other.sums)

    @property
    def lasts(self) -> Numbers:
        """The last millisecond that may be in each bucket."""
        if self._widened_at is None:
            return self.starts
        return self.starts + _widths(self._widened_at - self.starts) - 1

    def _put(self, starts: Numbers, rows: Numbers) -> None:
        if not len(starts):
            return
        added = summed(starts, rows)
        self.starts, self.sums = summed(np.concatenate((self.starts, added[0])), np.concatenate((self.sums, added[1])))
        if len(self.starts) > MOST_BUCKETS:
            newest = self._widened_at = int(self.starts[-1])
            self.starts, self.sums = summed(self.starts - self.starts % _widths(newest - self.starts), self.sums)


def _widths(ages_ms: Numbers) -> Numbers:
    widths: Numbers = _WIDTHS[np.maximum(np.searchsorted(_WIDTHS * PARTS, ages_ms, side="right") - 1, 0)]
    return widths
