"""Ctrl-C and SIGTERM as a question, for what wants to end well."""

from __future__ import annotations

import signal
from types import FrameType


class Interrupts:
    """Within the block Ctrl-C and SIGTERM ask for an end; asked a second time, it comes at once."""

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> Interrupts:
        self._before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
