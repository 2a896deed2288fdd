"""How long orders were under way, as percentiles: of all of them, and of those of the last seconds.

Counted in buckets that are 3.5 % wide, so that it costs the same for ten orders and for ten million.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Final

RECENT_S: Final = 10
BUCKETS_PER_DOUBLING: Final = 20
LEAST_S: Final = 1e-6


class Latencies:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._all: Counter[int] = Counter()
        self._recent: deque[tuple[int, Counter[int]]] = deque()

    def add(self, latencies_s: Iterable[float]) -> None:
        counts = Counter(_bucket(each) for each in latencies_s)
        self._all.update(counts)
        second = int(self._clock())
        if not self._recent or self._recent[-1][0] != second:
            self._recent.append((second, Counter()))
        self._recent[-1][1].update(counts)

    def recent_s(self, share: float) -> float | None:
        """So long at most were `share` of the last seconds' orders under way; None when there were none."""
        oldest = int(self._clock()) - RECENT_S
        while self._recent and self._recent[0][0] <= oldest:
            self._recent.popleft()
        together: Counter[int] = Counter()
        for _, counts in self._recent:
            together.update(counts)
        return _percentile(together, share)

    def overall_s(self, share: float) -> float | None:
        return _percentile(self._all, share)


def _bucket(latency_s: float) -> int:
    return math.ceil(math.log2(max(latency_s, LEAST_S) / LEAST_S) * BUCKETS_PER_DOUBLING)


def _percentile(counts: Counter[int], share: float) -> float | None:
    wanted = math.ceil(counts.total() * share)
    for bucket in sorted(counts):
        wanted -= counts[bucket]
        if wanted <= 0:
            return float(LEAST_S * 2 ** (bucket / BUCKETS_PER_DOUBLING))
    return None
