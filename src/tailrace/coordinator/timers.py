"""Deadlines of one shard: sessions of members, rebalances, expiries.

A deadline has a key; setting it again moves it. Most are moved on by each heartbeat long before they are due, so moving
one later touches only a dictionary: its old place in the heap is looked at when it comes up. Places of which the
deadline has ended are dropped when there are more of them than of the others.

Who may call: the thread that owns the shard.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

from tailrace.coordinator.outcome import Outcome
from tailrace.env import Env
from tailrace.model.noop import noop

RETRY_MS: Final = 500
"""A command whose records could not be appended is tried again after so long."""
_HEAP_SLACK: Final = 1024  # places of ended deadlines that may stay in the heap beyond as many as there are deadlines

Command = Callable[[], Outcome | None]


class _Deadline(NamedTuple):
    at_ms: int
    command: Command


class Timers:
    def __init__(self, env: Env, run: Callable[[Hashable, Command], None]) -> None:
        """`run` is given each key and command when its time has come."""
        self._env = env
        self._run = run
        self._deadlines: dict[Hashable, _Deadline] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._queued: dict[Hashable, int] = {}
        """Of each key, the earliest time at which the heap comes upon it."""
        self._sequence = 0
        self._armed_ms: int | None = None
        """When the next look at the heap is booked."""
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._deadlines)

    def schedule(self, key: Hashable, delay_ms: int, command: Command) -> None:
        """Run `command` in `delay_ms`, in the place of what was scheduled under the key."""
        if self._is_closed:
            return
        at_ms = self._env.clock.monotonic_ms() + max(delay_ms, 0)
        self._deadlines[key] = _Deadline(at_ms, command)
        queued_ms = self._queued.get(key)
        if queued_ms is None or at_ms < queued_ms:
            self._push(key, at_ms)

    def cancel(self, key: Hashable) -> None:
        self._deadlines.pop(key, None)

    def is_scheduled(self, key: Hashable) -> bool:
        return key in self._deadlines

    def remaining_ms(self, key: Hashable) -> int | None:
        """How long until the key's command; None when nothing is scheduled."""
        found = self._deadlines.get(key)
        return None if found is None else found.at_ms - self._env.clock.monotonic_ms()

    def close(self) -> None:
        self._is_closed = True
        self._run = noop  # the next look is booked, and would keep the shard's state until then
        self._deadlines.clear()
        self._heap.clear()
        self._queued.clear()

    def _push(self, key: Hashable, at_ms: int) -> None:
        self._queued[key] = at_ms
        self._sequence += 1
        heapq.heappush(self._heap, (at_ms, self._sequence, key))
        if len(self._heap) > 2 * len(self._deadlines) + _HEAP_SLACK:
            self._drop_ended()
        self._arm()

    def _drop_ended(self) -> None:
        self._queued = {key: at_ms for key, at_ms in self._queued.items() if key in self._deadlines}
        self._heap = [place for place in self._heap if self._queued.get(place[2]) == place[0]]
        heapq.heapify(self._heap)

    def _arm(self) -> None:
        if not self._heap:
            return
        at_ms = self._heap[0][0]
        if self._armed_ms is None or at_ms < self._armed_ms:
            self._armed_ms = at_ms
            self._env.jobs.later("coordinator-timer", max(at_ms - self._env.clock.monotonic_ms(), 0), self._look)

    def _look(self) -> None:
        now_ms = self._env.clock.monotonic_ms()
        if self._armed_ms is not None and self._armed_ms <= now_ms:
            self._armed_ms = None
        due: list[tuple[Hashable, Command]] = []
        while self._heap and self._heap[0][0] <= now_ms:
            at_ms, _, key = heapq.heappop(self._heap)
            if self._queued.get(key) != at_ms:
                continue  # it has an earlier place, and was seen there
            del self._queued[key]
            deadline = self._deadlines.get(key)
            if deadline is None:
                continue
            if deadline.at_ms > now_ms:
                self._push(key, deadline.at_ms)
                continue
            due.append((key, deadline.command))
        for key, command in due:
            found = self._deadlines.get(key)
            if found is not None and found.command is command:  # an earlier one may have ended it, or moved it
                del self._deadlines[key]
                self._run(key, command)
        self._arm()
