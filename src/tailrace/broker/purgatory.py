"""Requests that wait: for data, for a high watermark, for a flush, or for their time to run out.

A waiting request is a value, an `Operation`; it is looked at again when a partition that it watches has moved, and
ends at the latest at its deadline. A partition without watchers costs nothing: the purgatory listens to it from its
first watcher to its last.

Runs on the node's thread.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final, Protocol

from tailrace.env.clock import Clock
from tailrace.metrics.gauge import Gauge
from tailrace.model.listeners import Listeners

LONGEST_WAIT_MS: Final = 2**31 - 1
_HEAP_SLACK: Final = 1024  # ended operations that may stay in the heap beyond as many as are waiting


class Watched(Protocol):
    """`on_moved` is notified with the object itself whenever it has moved."""

    @property
    def on_moved(self) -> Listeners[Any]: ...


class Operation(ABC):
    """`is_over` is set once, by the purgatory, before `complete` or `expire`'s effects can be seen twice."""

    kind: ClassVar[str]
    is_over = False
    keys: tuple[Watched, ...] = ()

    @abstractmethod
    def try_complete(self, moved: Watched | None) -> bool:
        """Answer the request if it can be answered now; `moved` is None for the first look."""

    @abstractmethod
    def expire(self) -> None:
        """Answer the request with what there is."""


class Purgatory:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watchers: dict[Watched, dict[Operation, None]] = {}
        self._deadlines: list[tuple[int, int, Operation]] = []
        self._sequence = 0  # orders operations of one deadline
        self._waiting = 0

    def wait(self, operation: Operation, keys: Iterable[Watched], timeout_ms: int) -> None:
        """Complete the operation now, or when a key has moved, or after `timeout_ms`."""
        if operation.try_complete(None):
            operation.is_over = True
            return
        operation.keys = tuple(dict.fromkeys(keys))
        for key in operation.keys:
            watchers = self._watchers.get(key)
            if watchers is None:
                watchers = self._watchers[key] = {}
                key.on_moved.add(self.moved)
            watchers[operation] = None
        self._sequence += 1
        self._waiting += 1
        deadline_ms = self._clock.monotonic_ms() + min(max(timeout_ms, 0), LONGEST_WAIT_MS)
        heapq.heappush(self._deadlines, (deadline_ms, self._sequence, operation))
        if len(self._deadlines) > 2 * self._waiting + _HEAP_SLACK:
            self._drop_ended()

    def moved(self, key: Watched) -> None:
        watchers = self._watchers.get(key)
        if watchers is None:
            return
        for operation in tuple(watchers):
            if not operation.is_over and operation.try_complete(key):
                self._end(operation)

    def abandon(self, operation: Operation) -> None:
        """Nobody waits for the answer any more. Again is fine, and so is an operation that never waited."""
        if not operation.is_over and operation.keys:
            self._end(operation)

    def _end(self, operation: Operation) -> None:
        operation.is_over = True
        self._waiting -= 1
        for key in operation.keys:
            watchers = self._watchers[key]
            del watchers[operation]
            if not watchers:
                del self._watchers[key]
                key.on_moved.remove(self.moved)
        operation.keys = ()

    def _drop_ended(self) -> None:
        self._deadlines = [entry for entry in self._deadlines if not entry[2].is_over]
        heapq.heapify(self._deadlines)

    @property
    def due_ms(self) -> int | None:
        """The monotonic time at which `expire_due` has something to do."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][2].is_over:
            heapq.heappop(deadlines)
        return deadlines[0][0] if deadlines else None

    def expire_due(self, now_ms: int) -> None:
        """`now_ms` is monotonic."""
        deadlines = self._deadlines
        while deadlines and (deadlines[0][2].is_over or deadlines[0][0] <= now_ms):
            operation = heapq.heappop(deadlines)[2]
            if not operation.is_over:
                self._end(operation)
                operation.expire()

    def __len__(self) -> int:
        return self._waiting

    def gauges(self) -> Iterator[Gauge]:
        counts: dict[str, int] = {"Fetch": 0, "Produce": 0}
        for _, _, operation in self._deadlines:
            if not operation.is_over:
                counts[operation.kind] = counts.get(operation.kind, 0) + 1
        for kind, count in counts.items():
            tags = (("delayedOperation", kind),)
            yield Gauge("server", "DelayedOperationPurgatory", "NumDelayedOperations", count, tags)
            yield Gauge("server", "DelayedOperationPurgatory", "PurgatorySize", count, tags)
