"""A bound on how many lazily opened things are open at once.

Ten thousand logs have more indexes and old segments than a process has file descriptors. Each opens its file or its
mapping when it is first used, says so here with `touch`, and is told to `cool` (let go of what it opened; the next
use opens it again) when more than `capacity` others were used since.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Protocol

from tailrace.model.invariant import invariant


class Coolable(Protocol):
    """Something that can close what it has open and open it again when next used. Hashed by identity."""

    def cool(self) -> None:
        """Close what is open; nothing happens when nothing is. Called on any thread, never with a lock held here."""


class WarmSet:
    """The resources used last, at most `capacity` of them; the one unused for longest is cooled first.

    Call `touch` after opening, on any thread, holding no lock that the `cool` of any resource takes: it may cool
    another one on the spot.
    """

    __slots__ = ("_by_last_use", "_capacity", "_latest", "_lock")

    def __init__(self, capacity: int) -> None:
        invariant(capacity >= 1, f"a warm set must have room for one resource, not {capacity}")
        self._capacity = capacity
        self._by_last_use: OrderedDict[Coolable, None] = OrderedDict()  # coldest first
        self._latest: Coolable | None = None  # the last of _by_last_use
        self._lock = threading.Lock()

    @property
    def capacity(self) -> int:
        return self._capacity

    def __len__(self) -> int:
        return len(self._by_last_use)

    def touch(self, resource: Coolable) -> None:
        """`resource` is open and was used just now."""
        if resource is self._latest:
            return
        with self._lock:
            self._latest = resource
            self._by_last_use[resource] = None
            self._by_last_use.move_to_end(resource)
            if len(self._by_last_use) <= self._capacity:
                return
            coldest, _ = self._by_last_use.popitem(last=False)
        coldest.cool()

    def forget(self, resource: Coolable) -> None:
        """`resource` has closed for good; nothing happens when it is not here."""
        with self._lock:
            self._by_last_use.pop(resource, None)
            if resource is self._latest:
                self._latest = None
