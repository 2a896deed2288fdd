"""Quantiles of the last one to two minutes, of histograms that only ever grow.

Kafka's histograms forget what is minutes old. Ours are cheaper to record: they never forget, and whoever reads them
takes away what was there a while ago. What `Distribution` is new has no past, so all of it counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import sub
from typing import Final

from tailrace.metrics.distribution import Distribution
from tailrace.metrics.histogram import quantile

SHARES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
PERIOD_MS: Final = 60_000

_Key = tuple[str, str, str, tuple[tuple[str, str], ...]]


class _Past:
    """Two earlier readings at least a period apart; the older is what is taken away."""

    __slots__ = ("newer", "newer_at_ms", "older")

    def __init__(self, counts: Sequence[int], now_ms: int) -> None:
        self.older: Sequence[int] | None = None
        self.newer = counts
        self.newer_at_ms = now_ms


class RecentQuantiles:
    """Who may call: one thread."""

    def __init__(self) -> None:
        self._pasts: dict[_Key, _Past] = {}

    def of(self, sample: Distribution, now_ms: int) -> list[float]:
        """One value a share of SHARES."""
        key = (sample.group, sample.type, sample.name, sample.tags)
        past = self._pasts.get(key)
        if past is None:
            past = self._pasts[key] = _Past(sample.counts, now_ms)
        elif now_ms - past.newer_at_ms >= PERIOD_MS:
            past.older, past.newer, past.newer_at_ms = past.newer, sample.counts, now_ms
        recent = sample.counts if past.older is None else tuple(map(sub, sample.counts, past.older))
        return [quantile(recent, share) for share in SHARES]
