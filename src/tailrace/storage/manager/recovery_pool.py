"""So many jobs of one data directory at a time: loading logs at start, closing them at shutdown.

A pool has `width` places, numbered from 0. A job that ends frees its place for the next one that waits. Where jobs run
on threads, the places run in parallel; in the simulator their steps are interleaved.

Who may call. The owner's thread; only `work` and what it reports of segments run elsewhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from tailrace.env import Jobs

T = TypeVar("T")


class _Task(NamedTuple, Generic[T]):
    work: Callable[[int], T]
    done: Callable[[T], None]
    failed: Callable[[Exception], None]


class RecoveryPool:
    """Jobs are named `<name>-<place>`, as Kafka names its threads."""

    def __init__(self, jobs: Jobs, name: str, width: int) -> None:
        self._jobs = jobs
        self._name = name
        self._free = list(range(width - 1, -1, -1))
        self._waiting: deque[_Task[object]] = deque()
        self._finished: Callable[[], None] | None = None
        self.remaining = 0
        """Jobs that wait or run."""
        self.segments_remaining = [0] * width
        """By place; set by the job that is there."""

    def submit(self, work: Callable[[int], T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        """`work` is given the number of its place."""
        self.remaining += 1
        self._waiting.append(_Task(work, done, failed))  # type: ignore[arg-type]
        self._start()

    def when_finished(self, finished: Callable[[], None]) -> None:
        """Call `finished` as soon as nothing waits or runs; no job may be submitted after this."""
        self._finished = finished
        self._check_finished()

    @property
    def waiting(self) -> int:
        """Jobs that have not begun."""
        return len(self._waiting)

    def cancel_waiting(self) -> None:
        """Drop the jobs that have not begun."""
        self.remaining -= len(self._waiting)
        self._waiting.clear()
        self._check_finished()

    def _start(self) -> None:
        while self._free and self._waiting:
            place = self._free.pop()
            task = self._waiting.popleft()
            self._jobs.run(
                f"{self._name}-{place}",
                partial(task.work, place),
                partial(self._end, place, task.done),
                partial(self._end, place, task.failed),
            )

    def _end(self, place: int, then: Callable[[T], None], outcome: T) -> None:
        self._free.append(place)
        self.segments_remaining[place] = 0
        try:
            then(outcome)
        finally:
            self.remaining -= 1
            self._start()
        self._check_finished()

    def _check_finished(self) -> None:
        finished = self._finished
        if finished is not None and not self.remaining:
            self._finished = None
            finished()
