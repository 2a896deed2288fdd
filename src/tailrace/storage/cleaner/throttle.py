"""Several workers together move no more than so many bytes a second.

Who has moved bytes is told how long to wait, so that what all have moved, over the time since the first of them, stays
below the rate. Time that nobody used is not saved up: after a rest nobody may go faster.
"""

from __future__ import annotations

from typing import Final

from tailrace.env import Clock

LONGEST_WAIT_MS: Final = 3_600_000


class Throttle:
    """Who may call: the owner's thread."""

    def __init__(self, clock: Clock, bytes_per_second: float) -> None:
        self._clock = clock
        self.bytes_per_second = bytes_per_second
        self._free_at_ms = float(clock.monotonic_ms())

    def wait_ms(self, moved_bytes: int) -> int:
        """For how long whoever moved these bytes must move no more."""
        now_ms = self._clock.monotonic_ms()
        self._free_at_ms = max(self._free_at_ms, now_ms) + 1000 * moved_bytes / self.bytes_per_second
        return int(min(self._free_at_ms - now_ms, LONGEST_WAIT_MS))
