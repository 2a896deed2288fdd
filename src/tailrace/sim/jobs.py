"""Background jobs that run when the simulator says so, in an order it chooses.

A job takes two steps, as in a real node: `work` (elsewhere), then `done` or `failed` (on the owner's thread). Between
them anything may happen, and with a random generator the steps of different jobs come in any order. Delayed actions
fire when the clock passes their time. A crash forgets everything.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import TypeVar

from tailrace.model.invariant import invariant
from tailrace.sim.clock import SimClock

T = TypeVar("T")


class SimJobs:
    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self._steps: list[tuple[str, Callable[[], None]]] = []
        self._later: list[tuple[int, int, str, Callable[[], None]]] = []
        self._sequence = 0  # orders actions that are due at the same moment

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
            try:
                value = work()
            except Exception as error:
                self._steps.append((f"{name}: failed", _failure(error, failed)))
            else:
                if done is not None:
                    self._steps.append((f"{name}: done", lambda: done(value)))

        self._steps.append((name, step))

    def later(self, name: str, delay_ms: int, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._later, (self._clock.monotonic_ms() + delay_ms, self._sequence, name, action))

    @property
    def pending(self) -> list[str]:
        """The steps that could run now, oldest first."""
        return [name for name, _ in self._steps]

    @property
    def waiting(self) -> list[tuple[str, int]]:
        """Name and milliseconds left of each delayed action, soonest first."""
        now_ms = self._clock.monotonic_ms()
        return [(name, due_ms - now_ms) for due_ms, _, name, _ in sorted(self._later, key=lambda entry: entry[:2])]

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

    def tick(self, now_ms: int | None = None) -> None:
        """Let time pass until the wall clock says `now_ms`; each action that falls due runs at its own moment.

        Without `now_ms`, run what is due already.
        """
        left_ms = 0 if now_ms is None else now_ms - self._clock.now_ms()
        invariant(left_ms >= 0, f"time passes forwards, not by {left_ms} ms")
        end_ms = self._clock.monotonic_ms() + left_ms
        while self._later and self._later[0][0] <= end_ms:
            due_ms, _, _, action = heapq.heappop(self._later)
            self._clock.advance(max(0, due_ms - self._clock.monotonic_ms()))
            action()
        self._clock.advance(max(0, end_ms - self._clock.monotonic_ms()))

    def forget(self) -> None:
        """The process died: nothing that waited will run."""
        self._steps.clear()
        self._later.clear()


def _failure(error: Exception, failed: Callable[[Exception], None] | None) -> Callable[[], None]:
    def step() -> None:
        if failed is None:
            raise error
        failed(error)

    return step
