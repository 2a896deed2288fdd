"""How fast records go by: over the last seconds for a live line, over all of it for the sum at the end."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from tailrace.cli.sizes import counted, shown_size

WINDOW_S: Final = 3.0


class Throughput:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_s = clock()
        self._marks: deque[tuple[float, int, int]] = deque([(self._began_s, 0, 0)])
        self.records = 0
        self.bytes = 0

    def add(self, records: int, size_bytes: int) -> None:
        self.records += records
        self.bytes += size_bytes

    @property
    def seconds(self) -> float:
        return self._clock() - self._began_s

    def now(self) -> tuple[float, float]:
        """Records and bytes per second over the last few seconds; call it some times a second."""
        at_s = self._clock()
        self._marks.append((at_s, self.records, self.bytes))
        while len(self._marks) > 2 and at_s - self._marks[1][0] >= WINDOW_S:
            self._marks.popleft()
        first_s, records, size_bytes = self._marks[0]
        span_s = max(at_s - first_s, 1e-3)
        return (self.records - records) / span_s, (self.bytes - size_bytes) / span_s

    def overall(self) -> tuple[float, float]:
        seconds = max(self.seconds, 1e-3)
        return self.records / seconds, self.bytes / seconds


def shown_rate(records_per_s: float, bytes_per_s: float) -> str:
    return f"{records_per_s:,.0f} records/s, {shown_size(round(bytes_per_s))}/s"


def shown_amount(records: int, size_bytes: int) -> str:
    return f"{counted(records, 'record')}, {shown_size(size_bytes)}"
