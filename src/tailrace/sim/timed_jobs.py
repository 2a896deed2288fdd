"""Jobs of a process in a universe: they take time, drawn from the seed, on a limited number of threads.

`work` takes effect at a random moment while the job runs: an fsync may cover what was written after it began, or not.
`done` and `failed` follow when the job's time is over. Delayed actions fire when the machine's own clock reads their
time. What belongs to a process that has ended never runs.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from tailrace.sim.jobs import run_work

if TYPE_CHECKING:
    from tailrace.sim.process import Process

T = TypeVar("T")

JOB_THREADS: Final = 8


class Span(NamedTuple):
    shortest_us: int
    longest_us: int


SYNCING: Final = Span(300, 12_000)
DEFAULT_SPANS: Final = {
    "flush": SYNCING,
    "write": SYNCING,
    "create-log": SYNCING,
    "close": Span(500, 20_000),
    "load": Span(1_000, 50_000),
    "recover": Span(1_000, 100_000),
    "delete": Span(50, 5_000),
}
_OTHERS: Final = Span(20, 1_000)


@dataclass
class JobTimes:
    """How long jobs take, by the beginning of their name. Short times are more frequent than long ones."""

    spans: Mapping[str, Span] = field(default_factory=lambda: DEFAULT_SPANS)
    slowness: float = 1.0
    """The factor by which a slow disk lengthens every job."""

    def __post_init__(self) -> None:
        self._known: dict[str, Span] = {}

    def draw_us(self, name: str, rng: random.Random) -> int:
        kind = name.partition(" ")[0]  # what follows is a path
        span = self._known.get(kind)
        if span is None:
            found = [span for start, span in self.spans.items() if kind.startswith(start)]
            span = self._known[kind] = found[0] if found else _OTHERS
        ratio = span.longest_us / span.shortest_us
        return int(span.shortest_us * ratio ** rng.random() * self.slowness)


class _Job(NamedTuple):
    name: str
    step: Callable[[], Callable[[], None] | None]


class TimedJobs:
    """Implements `env.Jobs`."""

    def __init__(self, process: Process, times: JobTimes, rng: random.Random) -> None:
        self._process = process
        self._times = times
        self._random = rng
        self._running = 0
        self._urgent: deque[_Job] = deque()
        self._patient: deque[_Job] = deque()

    def run(
        self,
        name: str,
        work: Callable[[], T],
        done: Callable[[T], None] | None = None,
        failed: Callable[[Exception], None] | None = None,
        *,
        can_wait: bool = False,
    ) -> None:
        job = _Job(name, lambda: run_work(work, done, failed)[1])
        if self._running < JOB_THREADS:
            self._begin(job)
        else:
            (self._patient if can_wait else self._urgent).append(job)

    def _begin(self, job: _Job) -> None:
        self._running += 1
        takes_us = self._times.draw_us(job.name, self._random)
        effect_us = int(takes_us * self._random.random())
        self._process.after(effect_us, partial(self._work, job, takes_us - effect_us))

    def _work(self, job: _Job, left_us: int) -> None:
        self._process.after(left_us, partial(self._end, job.step()))

    def _end(self, completion: Callable[[], None] | None) -> None:
        self._running -= 1
        if self._urgent:
            self._begin(self._urgent.popleft())
        elif self._patient:
            self._begin(self._patient.popleft())
        if completion is not None:
            completion()

    def later(self, name: str, delay_ms: int, action: Callable[[], None]) -> None:
        clock = self._process.machine.clock
        self._process.at_ms(clock.monotonic_ms() + delay_ms, action)

    def forget(self) -> None:
        """The process has ended."""
        self._urgent.clear()
        self._patient.clear()
