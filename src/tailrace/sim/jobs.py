"""Background jobs that run when a test says so, in an order that it chooses.

A job takes two steps, as in a real node: `work` (elsewhere), then `done` or `failed` (on the owner's thread). Between
them anything may happen, and with a random generator the steps of different jobs come in any order. A crash forgets
everything. Delayed actions fire when the clock passes their time: for `SimJobs`, when the test lets it pass; for
`HeldJobs`, as events of a universe.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from tailrace.model.invariant import invariant
from tailrace.sim.clock import SimClock
from tailrace.sim.event_queue import EventQueue

if TYPE_CHECKING:
    from tailrace.sim.process import Process

T = TypeVar("T")


class _SteppedJobs:
    """The steps of jobs, until a test runs them."""

    def __init__(self) -> None:
        self._steps: list[tuple[str, Callable[[], None]]] = []

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
            outcome, completion = run_work(work, done, failed)
            if completion is not None:
                self._steps.append((f"{name}: {outcome}", completion))

        self._steps.append((name, step))

    @property
    def pending(self) -> list[str]:
        """The steps that could run now, oldest first."""
        return [name for name, _ in self._steps]

    def run_one(self, rng: random.Random | None = None) -> bool:
        """Run one step: the oldest, or any with `rng`. False when there is none."""
        if not self._steps:
            return False
        _, step = self._steps.pop(rng.randrange(len(self._steps)) if rng is not None else 0)
        step()
        return True

    def run_all(self, rng: random.Random | None = None) -> None:
        """Run steps, those they cause too, until none is left. Delayed actions stay."""
        while self.run_one(rng):
            pass


class SimJobs(_SteppedJobs):
    """Of a world: a test lets time pass with `tick`."""

    def __init__(self, clock: SimClock) -> None:
        super().__init__()
        self._clock = clock
        self._later: EventQueue[tuple[str, Callable[[], None]]] = EventQueue()

    def later(self, name: str, delay_ms: int, action: Callable[[], None]) -> None:
        self._later.push(self._clock.monotonic_ms() + delay_ms, (name, action))

    @property
    def waiting(self) -> list[tuple[str, int]]:
        """Name and milliseconds left of each delayed action, soonest first."""
        now_ms = self._clock.monotonic_ms()
        return [(name, due_ms - now_ms) for due_ms, (name, _) in self._later.in_order()]

    def tick(self, now_ms: int | None = None) -> None:
        """Let time pass until the wall clock says `now_ms`; each action that falls due runs at its own moment.

        Without `now_ms`, run what is due already.
        """
        left_ms = 0 if now_ms is None else now_ms - self._clock.now_ms()
        invariant(left_ms >= 0, f"time passes forwards, not by {left_ms} ms")
        end_ms = self._clock.monotonic_ms() + left_ms
        while (due_ms := self._later.due) is not None and due_ms <= end_ms:
            _, (_, action) = self._later.pop()
            self._clock.advance(max(0, due_ms - self._clock.monotonic_ms()))
            action()
        self._clock.advance(max(0, end_ms - self._clock.monotonic_ms()))

    def forget(self) -> None:
        """The process died: nothing that waited will run."""
        self._steps.clear()
        self._later.clear()


class HeldJobs(_SteppedJobs):
    """Of a process in a universe whose jobs take no time, and run when a test says so (`Universe.add_machine`)."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        self._process = process

    def later(self, name: str, delay_ms: int, action: Callable[[], None]) -> None:
        self._process.at_ms(self._process.machine.clock.monotonic_ms() + delay_ms, action)

    def forget(self) -> None:
        self._steps.clear()


def run_work(
    work: Callable[[], T], done: Callable[[T], None] | None, failed: Callable[[Exception], None] | None
) -> tuple[str, Callable[[], None] | None]:
    """The first step of a job. Returns the second one, if there is one, and which of the two it is.

    A SimulatedCrash passes through: it is not a failure of the job.
    """
    try:
        value = work()
    except Exception as error:
        return "failed", _failure(error, failed)
    return "done", None if done is None else lambda: done(value)


def _failure(error: Exception, failed: Callable[[Exception], None] | None) -> Callable[[], None]:
    def step() -> None:
        if failed is None:
            raise error
        failed(error)

    return step
