"""One life of a program on a simulated machine: its environment, its events, and its end.

A machine creates a process for each start. Everything that the program does later is an event of this process, and
is dropped when the process has ended: nothing of a dead process ever runs. While the process is paused, as by
SIGSTOP, its events wait, and run late and in their order when it goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from tailrace.env import Env
from tailrace.sim.faults import SimulatedCrash
from tailrace.sim.jobs import HeldJobs
from tailrace.sim.timed_jobs import TimedJobs

if TYPE_CHECKING:
    from tailrace.sim.machine import Machine
    from tailrace.sim.network import Acceptor, SimListener
    from tailrace.sim.stream import SimStream

Action = Callable[[], object]


class Program(Protocol):
    """What runs in a process: a shell, with the deadlines that it keeps."""

    def due_ms(self) -> int | None:
        """The monotonic time at which `run_due` has something to do. Asked for after every event of the process."""

    def run_due(self, now_ms: int) -> None: ...

    def ends_with(self, error: Exception) -> bool:
        """Whether an error that nothing has handled ends the process, as the program means it. Others end the run."""


class Process:
    def __init__(self, machine: Machine, number: int) -> None:
        self.machine = machine
        self.number = number
        """Which life of the machine's program it is, from 1."""
        self.is_alive = True
        self.is_paused = False
        self.ended_us: int | None = None
        self.program: Program | None = None
        self.streams: dict[SimStream, None] = {}
        """Open ones, in the order in which they were opened."""
        self.listeners: list[SimListener] = []
        self._universe = machine.universe
        self._held: deque[Action] = deque()
        self._wakes_ms: int | None = None
        self._exit: str | None = None
        name = f"{machine.name}/{number}"
        self.jobs: TimedJobs | HeldJobs
        if machine.holds_jobs:
            self.jobs = HeldJobs(self)
        else:
            self.jobs = TimedJobs(self, machine.job_times, self._universe.random_for(f"{name}/jobs"))
        self.env = Env(
            files=machine.disk,
            clock=machine.clock,
            jobs=self.jobs,
            random=self._universe.random_for(f"{name}/program"),
            network=machine.network.of(self),
        )

    # Events

    def after(self, delay_us: int, action: Action) -> None:
        """Run the action as an event of this process."""
        if self.is_alive:
            self._universe.push(delay_us, self, action)

    def at_ms(self, monotonic_ms: int, action: Action) -> None:
        """Run the action as soon as the machine's clock reads this time, also if its speed changes until then."""
        clock = self.machine.clock

        def due() -> None:
            if clock.monotonic_ms() < monotonic_ms:
                self.at_ms(monotonic_ms, action)
            else:
                action()

        self.after(clock.true_us(monotonic_ms) - self._universe.time.now_us, due)

    def perform(self, action: Action) -> None:
        """Run the action now, if the process is alive and goes on."""
        if self.is_paused:
            if self.is_alive:
                self._held.append(action)
            return
        if not self.is_alive:
            return
        self._universe.performing = self
        try:
            action()
            self._keep_deadlines()
        except SimulatedCrash:
            self.machine.lose_power("struck at an operation of the disk")
        except Exception as error:
            if self.program is None or not self.program.ends_with(error):
                raise
            self._exit = str(error)
        if self._exit is not None:
            self.machine.end_process(self._exit)

    def _keep_deadlines(self) -> None:
        program = self.program
        due_ms = program.due_ms() if program is not None else None
        if due_ms is not None and (self._wakes_ms is None or due_ms < self._wakes_ms):
            self._wakes_ms = due_ms
            self.at_ms(due_ms, partial(self._wake, due_ms))

    def _wake(self, due_ms: int) -> None:
        if self._wakes_ms == due_ms:
            self._wakes_ms = None
        if self.program is not None:
            self.program.run_due(self.machine.clock.monotonic_ms())

    # What the program asks of the operating system

    def listen(self, port: int, accept: Acceptor) -> SimListener:
        """Bind a port. Connections wait until `SimListener.open` is called. OSError when it is taken."""
        return self.machine.network.listen(self, port, accept)

    def exit(self, reason: str) -> None:
        """End the process when the present event is over."""
        self._exit = reason

    # What the machine does to it

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        """Events that were due while the process was paused run now, in their order."""
        self.is_paused = False
        while self._held and self.is_alive and not self.is_paused:
            self.perform(self._held.popleft())

    def end(self, *, is_power_lost: bool) -> None:
        """Nothing of it runs any longer. The operating system closes its connections, unless power was lost."""
        self.is_alive = False
        self.ended_us = self._universe.time.now_us
        self._held.clear()
        self.jobs.forget()
        for listener in self.listeners:
            listener.close()
        streams, self.streams = self.streams, {}
        for stream in streams:
            if is_power_lost:
                stream.vanish()
            else:
                stream.close()
