"""Jobs on threads: work anywhere, completions and delayed actions on the thread that calls `step`.

The owner's loop calls `step` when `wake` was called or `due_ms` has come; a program without a loop calls `run_until`.

The threads are our own and not an executor's: its futures cost the owner, and whoever waits for the GIL behind a
worker, several times what is done here.
"""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from queue import Empty, SimpleQueue
from typing import TypeVar

from tailrace.env.clock import Clock

T = TypeVar("T")

_LONGEST_WAIT_MS = 60_000


class ThreadJobs:
    """`run` and `later` may be called on any thread; everything else is the owner's."""

    def __init__(self, clock: Clock, workers: int, wake: Callable[[], None] | None = None) -> None:
        """`wake` is called on a worker's thread whenever there is something for `step`."""
        self._clock = clock
        self._workers = workers
        self._threads: list[threading.Thread] = []
        # A token for each step that waits, whichever of the two it is in; False ends the thread that gets it.
        self._tokens: SimpleQueue[bool] = SimpleQueue()
        self._pressing: deque[Callable[[], None]] = deque()
        self._patient: deque[Callable[[], None]] = deque()
        self._wake = wake
        self._changed = threading.Condition()
        self._finished: deque[Callable[[], None]] = deque()
        self._later: list[tuple[int, int, Callable[[], None]]] = []
        # Orders actions that are due at the same moment. A signal's handler may call `later` while its thread is in it.
        self._numbers = count()

    def run(
        self,
        name: str,
        work: Callable[[], T],
        done: Callable[[T], None] | None = None,
        failed: Callable[[Exception], None] | None = None,
        *,
        can_wait: bool = False,
    ) -> None:
        def step() -> None:
            threading.current_thread().name = name
            try:
                value = work()
            except Exception as error:
                self._finish(_failure(error, failed))
            else:
                if done is not None:
                    self._finish(lambda: done(value))

        (self._patient if can_wait else self._pressing).append(step)
        self._tokens.put(True)
        if len(self._threads) < self._workers:
            self._begin_thread()

    def _begin_thread(self) -> None:
        with self._changed:
            if len(self._threads) < self._workers:
                thread = threading.Thread(target=self._work, name="job", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _work(self) -> None:
        while self._tokens.get():
            try:
                step = self._pressing.popleft()
            except IndexError:
                step = self._patient.popleft()
            step()

    def later(self, name: str, delay_ms: int, action: Callable[[], None]) -> None:
        with self._changed:
            heapq.heappush(self._later, (self._clock.monotonic_ms() + delay_ms, next(self._numbers), action))
            self._changed.notify()
        if self._wake is not None:
            self._wake()

    def _finish(self, completion: Callable[[], None]) -> None:
        with self._changed:
            self._finished.append(completion)
            self._changed.notify()
        if self._wake is not None:
            self._wake()

    @property
    def due_ms(self) -> int | None:
        """The monotonic time of the next delayed action."""
        # No lock: only the owner takes from the heap, and who looks a moment too early is woken by `later`.
        later = self._later
        return later[0][0] if later else None

    def step(self) -> None:
        """Run the completions that are there and the actions that are due. What one raises, passes through."""
        for _ in range(len(self._finished)):
            self._finished.popleft()()
        if not self._later:
            return
        now_ms = self._clock.monotonic_ms()
        if self._later[0][0] <= now_ms:
            while (action := self._take_due(now_ms)) is not None:
                action()

    def _take_due(self, now_ms: int) -> Callable[[], None] | None:
        with self._changed:
            if self._later and self._later[0][0] <= now_ms:
                return heapq.heappop(self._later)[2]
        return None

    def run_until(self, is_reached: Callable[[], bool]) -> None:
        """Step, and wait between steps, until `is_reached` says so."""
        while not is_reached():
            self.step()
            if is_reached():
                return
            with self._changed:
                if not self._finished:
                    self._changed.wait(self._wait_ms() / 1000)

    def _wait_ms(self) -> int:
        if not self._later:
            return _LONGEST_WAIT_MS
        return min(max(self._later[0][0] - self._clock.monotonic_ms(), 0), _LONGEST_WAIT_MS)

    def close(self) -> None:
        """Wait for the work that was begun; completions and actions that are left are never run."""
        with suppress(Empty):
            while True:
                self._tokens.get_nowait()
        for _ in self._threads:
            self._tokens.put(False)
        for thread in self._threads:
            thread.join()
        with self._changed:
            self._finished.clear()
            self._later.clear()


def _failure(error: Exception, failed: Callable[[Exception], None] | None) -> Callable[[], None]:
    def step() -> None:
        if failed is None:
            raise error
        failed(error)

    return step
