"""How long to wait before the next attempt to connect, as Kafka does it.

`reconnect.backoff.ms` after the first failure in a row, twice as long after each further one, up to
`reconnect.backoff.max.ms`; each wait 20 % longer or shorter at random, so that nodes that lost one peer together do not
come back together.
"""

from __future__ import annotations

import random
from typing import Final

JITTER: Final = 0.2
MAX_DOUBLINGS: Final = 30


class ReconnectBackoff:
    __slots__ = ("_base_ms", "_failures", "_max_ms", "_random")

    def __init__(self, base_ms: int, max_ms: int, rng: random.Random) -> None:
        self._base_ms = base_ms
        self._max_ms = max_ms
        self._random = rng
        self._failures = 0

    def next_ms(self) -> int:
        """The wait after one more failure."""
        wait_ms = min(self._base_ms << min(self._failures, MAX_DOUBLINGS), self._max_ms)
        self._failures += 1
        return min(round(wait_ms * self._random.uniform(1 - JITTER, 1 + JITTER)), self._max_ms)

    def reset(self) -> None:
        """The other node responds."""
        self._failures = 0
