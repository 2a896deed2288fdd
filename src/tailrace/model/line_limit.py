"""When a line that repeats is logged: at once, then after 10 s, 20 s and so on, at most every ten minutes.

A line that did not occur for longer than the interval it has reached begins again. Lines are told apart by a key, of
which there must be few. Time is given, so that the caller needs no other clock.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

FIRST_INTERVAL_MS: Final = 10_000
MAX_INTERVAL_MS: Final = 600_000


class LineLimit:
    def __init__(self) -> None:
        self._intervals: dict[Hashable, tuple[int, int]] = {}
        """By key: when the line is due again, and the interval that ends then."""

    def is_due(self, key: Hashable, now_ms: int) -> bool:
        """Whether to log the line now."""
        due_ms, interval_ms = self._intervals.get(key, (now_ms, 0))
        if now_ms < due_ms:
            return False
        is_old = not interval_ms or now_ms > due_ms + interval_ms
        interval_ms = FIRST_INTERVAL_MS if is_old else min(2 * interval_ms, MAX_INTERVAL_MS)
        self._intervals[key] = (now_ms + interval_ms, interval_ms)
        return True

    def reset(self) -> None:
        """What was wrong has ended: the next line of each key is logged."""
        self._intervals.clear()
