"""Simulated clocks: one that stands still until a test sets the time, and those of machines that share true time."""

from __future__ import annotations

from typing import Final

from tailrace.model.invariant import invariant

START_MS = 1_700_000_000_000  # an ordinary day in 2023, so that nothing works only because time is near zero
MAX_DRIFT_PPM: Final = 100_000  # a clock that is off by a tenth; real ones are off by tens of ppm
_MILLION: Final = 1_000_000


class TrueTime:
    """Microseconds since a universe began. Only the universe sets it, and no program sees it."""

    __slots__ = ("now_us",)

    def __init__(self) -> None:
        self.now_us = 0


class MachineClock:
    """A machine's view of true time: it began elsewhere, it may run fast or slow, and its wall clock may jump.

    Implements `env.Clock`. Monotonic time never goes back and has no jumps: a drift changes its speed from now on.
    """

    __slots__ = ("_drift_ppm", "_local_us", "_since_us", "_time", "_wall_ms")

    def __init__(self, time: TrueTime, monotonic_ms: int = 0, skew_ms: int = 0) -> None:
        """`skew_ms` is by how much the wall clock is ahead of the others."""
        self._time = time
        self._since_us = time.now_us
        self._local_us = monotonic_ms * 1000
        self._drift_ppm = 0
        self._wall_ms = START_MS + skew_ms - monotonic_ms + time.now_us // 1000

    def now_ms(self) -> int:
        return self.monotonic_ms() + self._wall_ms

    def monotonic_ms(self) -> int:
        elapsed_us = self._time.now_us - self._since_us
        if self._drift_ppm:
            elapsed_us += elapsed_us * self._drift_ppm // _MILLION
        return (self._local_us + elapsed_us) // 1000

    def jump(self, ms: int) -> None:
        """An operator or NTP sets the wall clock `ms` forwards or backwards."""
        self._wall_ms += ms

    def correct(self) -> None:
        """The wall clock is right again, as those of all other machines that are right."""
        self._wall_ms = START_MS + self._time.now_us // 1000 - self.monotonic_ms()

    def drift(self, ppm: int) -> None:
        """From now on the clock gains `ppm` microseconds in a second."""
        invariant(abs(ppm) <= MAX_DRIFT_PPM, f"a drift of {ppm} ppm is more than {MAX_DRIFT_PPM}")
        elapsed_us = self._time.now_us - self._since_us
        self._local_us += elapsed_us + elapsed_us * self._drift_ppm // _MILLION
        self._since_us = self._time.now_us
        self._drift_ppm = ppm

    def true_us(self, monotonic_ms: int) -> int:
        """The first moment of true time, not before now, at which `monotonic_ms()` is at least this."""
        left_us = monotonic_ms * 1000 - self._local_us
        if self._drift_ppm:
            left_us = left_us * _MILLION // (_MILLION + self._drift_ppm)
            while left_us + left_us * self._drift_ppm // _MILLION < monotonic_ms * 1000 - self._local_us:
                left_us += 1
        return max(self._since_us + left_us, self._time.now_us)


class SimClock(MachineClock):
    """A clock that stands still until a test moves it.

    `advance` is time passing; `set` adjusts the wall clock, which monotonic time does not feel.
    """

    __slots__ = ()

    def __init__(self, now_ms: int = START_MS) -> None:
        super().__init__(TrueTime(), skew_ms=now_ms - START_MS)

    def advance(self, ms: int) -> None:
        invariant(ms >= 0, f"time passes forwards, not by {ms} ms")
        self._time.now_us += ms * 1000

    def set(self, now_ms: int) -> None:
        self.jump(now_ms - self.now_ms())
