"""A clock that stands still until it is told the time."""

from __future__ import annotations

from tailrace.model.invariant import invariant

START_MS = 1_700_000_000_000  # an ordinary day in 2023, so that nothing works only because time is near zero


class SimClock:
    """`advance` is time passing; `set` is somebody adjusting the wall clock, which monotonic time does not feel."""

    __slots__ = ("_monotonic_ms", "_now_ms")

    def __init__(self, now_ms: int = START_MS) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def advance(self, ms: int) -> None:
        invariant(ms >= 0, f"time passes forwards, not by {ms} ms")
        self._now_ms += ms
        self._monotonic_ms += ms

    def set(self, now_ms: int) -> None:
        self._now_ms = now_ms
