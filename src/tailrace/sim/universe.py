"""Any number of simulated machines and the network between them: one seed, one true time, one queue of events.

    universe = Universe(seed=7)
    machine = universe.add_machine("broker-1", boot)
    machine.start()
    universe.run_for(10_000)
    print(universe.log.hash)

The same seed and the same calls give the same events, bit for bit, in any process: every random choice comes from
generators that are named and derived from the seed, every order from the queue, and nothing looks at real time, hashes
or addresses of objects. A generator belongs to one user, so that a new machine does not change the others.

A step runs one event, then the checkers of what it has logged. One thread uses a universe.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from tailrace.model.invariant import invariant
from tailrace.sim.clock import TrueTime
from tailrace.sim.event_log import DEFAULT_KEPT_EVENTS, Checker, EventLog, Violation
from tailrace.sim.event_queue import EventQueue
from tailrace.sim.faults import Faults
from tailrace.sim.link import LinkRules
from tailrace.sim.machine import Boot, Machine
from tailrace.sim.network import SimNetwork
from tailrace.sim.process import Action, Process

MAX_STEPS_AT_ONCE: Final = 100_000


class Universe:
    def __init__(
        self,
        seed: int,
        links: LinkRules | None = None,
        *,
        until_event: int | None = None,
        kept: int = DEFAULT_KEPT_EVENTS,
    ) -> None:
        """`until_event` cuts every run after the step that logs the event of this number."""
        self.seed = seed
        self.time = TrueTime()
        self.log = EventLog(self.time, kept)
        self.network = SimNetwork(self, links or LinkRules())
        self.machines: dict[str, Machine] = {}
        self.checkers: list[Checker] = []
        self.performing: Process | None = None
        """The process whose event runs, or ran last."""
        self._until_event = until_event
        self._steps_at_once = 0
        self._queue: EventQueue[tuple[Process | None, Action]] = EventQueue()

    def random_for(self, name: str) -> random.Random:
        """A new generator from the seed, always the same one for a name."""
        return random.Random(f"{self.seed}/{name}")

    def add_machine(
        self,
        name: str,
        boot: Boot,
        *,
        directories: Sequence[str] = (),
        skew_ms: int = 0,
        faults: Faults | None = None,
        holds_jobs: bool = False,
    ) -> Machine:
        """`holds_jobs`: jobs take no time, and their steps wait until a test runs them (`HeldJobs`)."""
        invariant(name not in self.machines, f"there is already a machine {name}")
        machine = Machine(
            self, name, boot, directories=directories, skew_ms=skew_ms, faults=faults, holds_jobs=holds_jobs
        )
        self.machines[name] = machine
        return machine

    def add_checker(self, checker: Checker) -> None:
        self.checkers.append(checker)
        self.log.watch(checker)

    # Events

    def push(self, delay_us: int, process: Process | None, action: Action) -> None:
        """Have the action run as an event of a process, or of the universe."""
        self._queue.push(self.time.now_us + delay_us, (process, action))

    @property
    def is_cut(self) -> bool:
        """The last event of the run has happened."""
        return self._until_event is not None and self.log.count >= self._until_event

    def step(self) -> bool:
        """Run one event. Returns False if the queue is empty or the run is cut here."""
        if not self._queue or self.is_cut:
            return False
        due_us, (process, action) = self._queue.pop()
        if due_us > self.time.now_us:
            self.time.now_us = due_us
            self._steps_at_once = 0
        self._steps_at_once += 1
        log = self.log
        log.steps += 1
        try:
            if self._steps_at_once > MAX_STEPS_AT_ONCE:
                raise Violation(f"{MAX_STEPS_AT_ONCE} steps in which no time has passed: something loops")
            if process is None:
                action()
            else:
                process.perform(action)
            log.check()
        except Exception as error:
            self._annotate(error)
            raise
        return True

    def _annotate(self, error: Exception) -> None:
        shown = "\n".join(map(str, self.log.last(30)))
        error.add_note(f"{shown}\nseed {self.seed}, after event {self.log.count}, step {self.log.steps}")

    def run_until(self, time_us: int) -> None:
        """Run every event up to this true time, which it is then."""
        while (due_us := self._queue.due) is not None and due_us <= time_us:
            if not self.step():
                return
        if not self.is_cut:
            self.time.now_us = max(self.time.now_us, time_us)

    def run_for(self, ms: int) -> None:
        self.run_until(self.time.now_us + ms * 1000)

    def run_until_reached(self, goal: Callable[[], bool], within_ms: int, name: str) -> bool:
        """Run until the goal is reached. `Violation` if it takes longer: this is how liveness is checked.

        Returns False if the run is cut before.
        """
        end_us = self.time.now_us + within_ms * 1000
        while not goal():
            due_us = self._queue.due
            if due_us is None or due_us > end_us:
                violation = Violation(f"not reached within {within_ms} ms: {name}")
                self._annotate(violation)
                raise violation
            if not self.step():
                return False
        return True

    # Phases

    def healed(self) -> None:
        """Tell the checkers that all faults are over."""
        self.log.add("", "healed", "all faults are over")
        for checker in self.checkers:
            checker.on_healed()

    def end(self) -> None:
        for checker in self.checkers:
            checker.on_end()
