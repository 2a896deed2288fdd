"""Time, handed in, so that a test or the simulator decides what time it is."""

from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock milliseconds since 1970; may jump either way."""

    def monotonic_ms(self) -> int:
        """Milliseconds that only ever grow; for waiting and measuring."""
