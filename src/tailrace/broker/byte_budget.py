"""How many bytes of unfinished large requests all connections together may hold.

A request that does not fit the receive buffer gets a buffer of its own, as large as it says it is, and takes that from
the budget before its first byte is kept. So whoever has begun can finish; the others are not read from meanwhile.
Who does not finish while others wait is disconnected (`SocketServer`).
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable


class ByteBudget:
    def __init__(self, limit_bytes: int) -> None:
        """One request is let in whatever its size: a limit below it would never let it pass. 0 and less: no limit."""
        self._limit_bytes = limit_bytes if limit_bytes > 0 else sys.maxsize
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self.held_bytes = 0

    @property
    def left_bytes(self) -> int:
        return max(self._limit_bytes - self.held_bytes, 0)

    @property
    def is_contended(self) -> bool:
        """Somebody waits for it."""
        return bool(self._waiting)

    def take(self, size_bytes: int) -> bool:
        if self._waiting or (self.held_bytes and self.held_bytes + size_bytes > self._limit_bytes):
            return False
        self.held_bytes += size_bytes
        return True

    def wait(self, size_bytes: int, taken: Callable[[], None]) -> None:
        """`taken` is called when the bytes were taken for the caller, in the order of asking."""
        self._waiting.append((size_bytes, taken))

    def give_up(self, taken: Callable[[], None]) -> None:
        self._waiting = deque(entry for entry in self._waiting if entry[1] != taken)
        self._serve()

    def give_back(self, size_bytes: int) -> None:
        self.held_bytes -= size_bytes
        self._serve()

    def _serve(self) -> None:
        waiting = self._waiting
        while waiting and (not self.held_bytes or self.held_bytes + waiting[0][0] <= self._limit_bytes):
            size_bytes, taken = waiting.popleft()
            self.held_bytes += size_bytes
            taken()
