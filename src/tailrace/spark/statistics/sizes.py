"""How large things are: a histogram whose bins get wider with what is in them, so that it has few for any size.

    0 … 15     a bin for each
    16 …       eight bins for each power of two: 16, 18, 20 … 30, 32, 36 …

Histograms of pieces add up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.spark.statistics.topic_stats import Histogram

Numbers = npt.NDArray[np.int64]

BINS: Final = 16 + 8 * 44
"""Up to 2⁴⁸; what is larger counts in the last one."""
_EXACT: Final = 16
_EXACT_POWER: Final = 4
_QUANTILES: Final = {"p50": (1, 2), "p90": (9, 10), "p99": (99, 100), "p999": (999, 1000)}


@dataclass
class Sizes:
    counts: Numbers = field(default_factory=lambda: np.zeros(BINS, np.int64))
    total: int = 0
    least: int | None = None
    greatest: int = 0

    def add(self, sizes: Numbers) -> None:
        """None is below 0."""
        if not len(sizes):
            return
        self.counts += np.bincount(_bins_of(sizes), minlength=BINS)
        self.total += int(sizes.sum())
        self._widen(int(sizes.min()), int(sizes.max()))

    def take(self, other: Sizes) -> None:
        self.counts = self.counts + other.counts
        self.total += other.total
        if other.least is not None:
            self._widen(other.least, other.greatest)

    def _widen(self, least: int, greatest: int) -> None:
        self.least = least if self.least is None else min(self.least, least)
        self.greatest = max(self.greatest, greatest)

    def histogram(self) -> Histogram:
        count = int(self.counts.sum())
        filled = np.flatnonzero(self.counts).tolist()
        return Histogram(
            count=count,
            total=self.total,
            least=self.least or 0,
            greatest=self.greatest,
            bins=tuple((_lowest_of(each), _lowest_of(each + 1), int(self.counts[each])) for each in filled),
            quantiles=self._quantiles(count),
        )

    def _quantiles(self, count: int) -> Mapping[str, int]:
        """The greatest size of the bin that has the quantile, as far as there is one so large."""
        if not count:
            return dict.fromkeys(_QUANTILES, 0)
        sums = np.cumsum(self.counts)
        found = {}
        for name, (parts, whole) in _QUANTILES.items():
            rank = -(-count * parts // whole)
            place = int(np.searchsorted(sums, rank))
            found[name] = min(_lowest_of(place + 1) - 1, self.greatest)
        return found


def _bins_of(sizes: Numbers) -> Numbers:
    large = np.maximum(sizes, _EXACT)
    powers = np.frexp(large.astype(np.float64))[1].astype(np.int64) - 1
    eighths = (large >> (powers - 3)) - 8
    bins = _EXACT + 8 * (powers - _EXACT_POWER) + eighths
    return np.minimum(np.where(sizes < _EXACT, sizes, bins), BINS - 1)


def _lowest_of(place: int) -> int:
    if place <= _EXACT:
        return place
    powers, eighths = divmod(place - _EXACT, 8)
    return (8 + eighths) << (powers + _EXACT_POWER - 3)


def lengths(values: pa.Array, *, of_null: int) -> Numbers:
    """Of each value in bytes."""
    found: Numbers = pc.fill_null(pc.binary_length(values), of_null).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def add_numbers(mine: object, theirs: object) -> None:
    """Those that are fields of a dataclass."""
    for each in fields(mine):  # type: ignore[arg-type]
        value = getattr(mine, each.name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            setattr(mine, each.name, value + getattr(theirs, each.name))
