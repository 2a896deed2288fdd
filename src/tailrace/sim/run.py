"""A simulated run: its seed and parameters, its phases, and a report.

    build     machines, clients, checkers
    faults    the schedule is injected, for a given time
    healing   all faults end
    goals     each must be reached in time, one after the other: the run is live again, and everything is there
    end       checkers look at what they have kept

A run is repeated by its seed and its parameters, which are values. `Run` is the frame; a subclass says which machines
there are and what the goals are.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tailrace.sim.event_log import DEFAULT_KEPT_EVENTS
from tailrace.sim.fault_injector import FaultInjector, Undo
from tailrace.sim.fault_schedule import Fault, FaultKind, FaultRules, FaultSchedule
from tailrace.sim.kafka_frames import describe_chunk
from tailrace.sim.logged_defects import logged_defects
from tailrace.sim.universe import Universe

PROGRESS_MS: Final = 1_000
RECOVERY_MS: Final = 300_000  # a connection that was stalled for long is tried again after up to two minutes

SURVIVABLE: Final[Mapping[FaultKind, int]] = {
    FaultKind.KILL: 10,
    FaultKind.POWER: 6,
    FaultKind.POWER_IN_WRITE: 10,
    FaultKind.POWER_OF_ALL: 2,
    FaultKind.PAUSE: 6,
    FaultKind.CLOCK_JUMP: 4,
    FaultKind.CLOCK_DRIFT: 4,
    FaultKind.DISK_FULL: 3,
    FaultKind.DISK_SLOW: 6,
    FaultKind.DISK_FAILS: 3,
    FaultKind.CUT: 6,
    FaultKind.CUT_ONE_WAY: 6,
    FaultKind.ISOLATE: 3,
    FaultKind.LOSSY: 6,
    FaultKind.SLOW_LINK: 6,
    FaultKind.RESETS: 6,
    FaultKind.FIREWALL: 3,
    FaultKind.PORT_TAKEN: 4,
}
"""Weights of all faults but those that lose synced data: a single replica survives them."""


@dataclass(frozen=True, slots=True)
class RunParameters:
    faulty_ms: int = 60_000
    faults: FaultRules = field(default_factory=lambda: FaultRules(SURVIVABLE, mean_gap_ms=3_000, max_lasts_ms=10_000))
    schedule: FaultSchedule | None = None
    """Instead of one that is drawn."""
    until_event: int | None = None
    """Cut the run after the step that logs this event."""
    kept_events: int = DEFAULT_KEPT_EVENTS


@dataclass(frozen=True, slots=True)
class RunReport:
    seed: int
    hash: str
    events: int
    steps: int
    faults: int
    simulated_s: float
    cpu_s: float
    counts: Mapping[str, int]
    """What the run has counted, by what it is."""

    def __str__(self) -> str:
        counts = "".join(f", {count:,} {name}" for name, count in self.counts.items())
        cpu_s = max(self.cpu_s, 0.001)
        return (
            f"seed {self.seed}: {self.events:,} events, {self.steps:,} steps, {self.faults} faults{counts}\n"
            f"{self.simulated_s:.1f} s simulated in {cpu_s:.2f} s of CPU time: {self.simulated_s / cpu_s:.0f} x real "
            f"time, {self.steps / cpu_s:,.0f} steps/s\nhash {self.hash}"
        )


def noop() -> None: ...


class Goal(NamedTuple):
    name: str
    is_reached: Callable[[], bool]
    within_ms: int = RECOVERY_MS


class Run(ABC):
    def __init__(self, seed: int, parameters: RunParameters, port: int) -> None:
        """`port` is the one that faults take. Machines are built here, and started by `run`."""
        self.universe = Universe(seed, until_event=parameters.until_event, kept=parameters.kept_events)
        self.universe.network.describe = describe_chunk
        self._faulty_ms = parameters.faulty_ms
        self._began_s = time.process_time()
        self.build()
        if parameters.schedule is not None:
            schedule = parameters.schedule
        else:
            schedule = self.draw(self.universe, parameters.faults, parameters.faulty_ms)
        self.injector = FaultInjector(
            self.universe, schedule, port, self.allows, operate=self.operate, may_damage=self.may_damage
        )

    @abstractmethod
    def build(self) -> None:
        """Add machines and checkers to the universe."""

    @abstractmethod
    def draw(self, universe: Universe, rules: FaultRules, length_ms: int) -> FaultSchedule: ...

    @abstractmethod
    def goals(self) -> Iterator[Goal]:
        """What must be reached after healing. Code between two goals runs when the first one is reached."""

    @abstractmethod
    def counts(self) -> Mapping[str, int]:
        """For the report."""

    @abstractmethod
    def in_columns(self) -> list[str]:
        """The names of the machines in the order of a diagram."""

    def allows(self, fault: Fault) -> bool:
        """Whether the machines can survive the fault in their present state."""
        return True

    def operate(self, fault: Fault) -> Undo | None:
        """Do what an operator does; returns what ends it."""
        return None

    def may_damage(self, fault: Fault, path: str) -> bool:
        """Whether a fault that changes a file may change this one."""
        return True

    def run(self, on_progress: Callable[[], object] = noop) -> RunReport:
        """Raises what went wrong: a `Violation`, or any error of the code under test.

        `on_progress` is called between events, at least once in a simulated second. It must not change the universe,
        and may raise `KeyboardInterrupt` to end the run.
        """
        self._began_s = time.process_time()
        with logged_defects(self.universe):
            self._run(on_progress)
        return self.report()

    def report(self) -> RunReport:
        """What the run has done up to now."""
        universe = self.universe
        return RunReport(
            universe.seed,
            universe.log.hash,
            universe.log.count,
            universe.log.steps,
            self.injector.injected,
            universe.time.now_us / 1_000_000,
            time.process_time() - self._began_s,
            self.counts(),
        )

    def _run(self, on_progress: Callable[[], object]) -> None:
        universe = self.universe
        for machine in universe.machines.values():
            machine.start()
        self.injector.arm()
        for elapsed_ms in range(0, self._faulty_ms, PROGRESS_MS):
            universe.run_for(min(PROGRESS_MS, self._faulty_ms - elapsed_ms))
            if universe.is_cut:
                return
            on_progress()
        self.injector.heal()
        for goal in self.goals():

            def is_reached(goal: Goal = goal) -> bool:
                on_progress()
                return goal.is_reached()

            if not universe.run_until_reached(is_reached, goal.within_ms, goal.name):
                return
        universe.end()
