"""SIGTERM and SIGINT as requests to stop.

Supervisors, `timeout` and Ctrl-C in a shell often signal a process twice: once by its id and once by its group. Signals
within a second of the first one therefore repeat it. Later ones ask again, which ends a shutdown that hangs.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Final

SAME_REQUEST_S: Final = 1.0
_NUMBERS: Final = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """`stop` is called in the signal handler, once for each request."""

    def __init__(self, stop: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._stop = stop
        self._clock = clock
        self._first_s: float | None = None

    def watch(self) -> None:
        for number in _NUMBERS:
            signal.signal(number, lambda *_: self.received())

    def ignore(self) -> None:
        """The process has stopped and only exits. Python restores the default actions when it exits, so that a
        repeated signal would kill it; it leaves ignored signals alone."""
        for number in _NUMBERS:
            signal.signal(number, signal.SIG_IGN)

    def received(self) -> None:
        now_s = self._clock()
        if self._first_s is None:
            self._first_s = now_s
        elif now_s - self._first_s < SAME_REQUEST_S:
            return
        self._stop()
