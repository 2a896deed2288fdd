"""How long something may still take, and how long to wait before trying it again. Both are given their clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from tailrace.client.errors import NoAnswerError

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 1.0


class Deadline:
    """`seconds` from now on."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._at = clock() + seconds

    @property
    def left_s(self) -> float:
        """Never negative."""
        return max(self._at - self._clock(), 0.0)

    @property
    def is_over(self) -> bool:
        return self._clock() >= self._at

    def __str__(self) -> str:
        """The whole time, for messages: `5 s`."""
        return f"{round(self.seconds, 2):g} s"

    def check(self, doing: str) -> float:
        """What is left; NoAnswerError when nothing is."""
        left_s = self._at - self._clock()
        if left_s <= 0:
            raise NoAnswerError(f"{doing} took longer than {self}")
        return left_s


class Backoff:
    """Each pause twice as long as the one before, up to a second."""

    def __init__(self, pause: Callable[[float], None] = time.sleep) -> None:
        self._pause = pause
        self._next_s = FIRST_PAUSE_S

    def wait(self, deadline: Deadline) -> None:
        """At most until `deadline`."""
        seconds, self._next_s = self._next_s, min(2 * self._next_s, LONGEST_PAUSE_S)
        self._pause(min(seconds, deadline.left_s))
