"""A queue of events in the order of their times. Events of the same time leave in the order in which they came."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

T = TypeVar("T")


class EventQueue(Generic[T]):
    """Times are integers in whichever unit the owner counts.

    Nothing is compared but times and sequence numbers, so the order depends neither on hashes nor on addresses.
    """

    __slots__ = ("_entries", "_sequence")

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, T]] = []
        self._sequence = 0

    def push(self, due: int, event: T) -> None:
        self._sequence += 1
        heapq.heappush(self._entries, (due, self._sequence, event))

    def pop(self) -> tuple[int, T]:
        """The next event and its time. The queue must not be empty."""
        due, _, event = heapq.heappop(self._entries)
        return due, event

    @property
    def due(self) -> int | None:
        """The time of the next event."""
        return self._entries[0][0] if self._entries else None

    def in_order(self) -> list[tuple[int, T]]:
        """All events with their times, next first."""
        return [(due, event) for due, _, event in sorted(self._entries, key=lambda entry: entry[:2])]

    def clear(self) -> None:
        self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)
