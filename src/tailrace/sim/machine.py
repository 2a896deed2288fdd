"""A simulated machine: disk, clock, and the process of one program, which is killed, paused and started again.

    start ─▶ running ◀─ pause, resume
               │ kill, or the program exits    the operating system closes its connections; the disk keeps everything
               │ lose_power                    silence; the disk keeps what was synced and any part of the rest
               ▼
             down ── start, power_up ─▶ a new process of the same program on the same disk

All of it is called between events, or from within one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tailrace.model.errors import TailraceError
from tailrace.model.invariant import invariant
from tailrace.sim.clock import MachineClock
from tailrace.sim.disk import SimDisk
from tailrace.sim.faults import Faults, Survival
from tailrace.sim.process import Process, Program
from tailrace.sim.timed_jobs import JobTimes

if TYPE_CHECKING:
    from tailrace.sim.universe import Universe

MAX_FIRST_MONOTONIC_MS = 1_000_000_000  # machines have been up for different times

Boot = Callable[[Process], Program]
"""Creates the program of a process. TailraceError and OSError end the process."""


class Machine:
    def __init__(
        self,
        universe: Universe,
        name: str,
        boot: Boot,
        *,
        directories: Sequence[str] = (),
        skew_ms: int = 0,
        faults: Faults | None = None,
        holds_jobs: bool = False,
    ) -> None:
        """Machines are created by `Universe.add_machine`. The name is the host name on the network as well."""
        self.universe = universe
        self.name = name
        self.boot = boot
        self.network = universe.network
        self.random = universe.random_for(name)
        self.clock = MachineClock(universe.time, self.random.randrange(MAX_FIRST_MONOTONIC_MS), skew_ms)
        self.job_times = JobTimes()
        self.holds_jobs = holds_jobs
        self.process: Process | None = None
        self.others: list[Process] = []
        """Programs that are not ours, which hold ports. They do not come back after a loss of power."""
        self.is_on = True
        self.outages = 0
        """How often it has lost power: what its kernel knew before an outage is gone."""
        self.restart_delay_ms: int | None = None
        """Set by a supervisor: how soon a process that has exited is started again."""
        self._directories = tuple(directories)
        self._lives = 0
        self.disk = self._new_disk(faults)

    def _new_disk(self, faults: Faults | None) -> SimDisk:
        disk = SimDisk(self.random.getrandbits(64), self.clock, faults)
        for path in self._directories:
            disk.make_dir(path)
        disk.sync_all()
        return disk

    @property
    def is_running(self) -> bool:
        """A process is alive here, perhaps paused."""
        return self.process is not None

    def note(self, kind: str, text: str) -> None:
        self.universe.log.add(self.name, kind, text)

    # The process

    def start(self) -> None:
        """Start a process of the program; nothing happens if one is running or the machine is off."""
        if self.process is not None or not self.is_on:
            return
        self._lives += 1
        process = self.process = Process(self, self._lives)
        self.note("start", f"process {self._lives}")

        def boot() -> None:
            try:
                process.program = self.boot(process)
            except (TailraceError, OSError) as error:
                process.exit(f"cannot start: {error}")

        process.perform(boot)

    def kill(self) -> None:
        """SIGKILL: what was written stays, what waited is gone, connections are closed."""
        if self.process is not None:
            self._end("killed", is_power_lost=False)

    def end_process(self, reason: str) -> None:
        """The process has exited."""
        if self.process is None:
            return
        self._end(f"exited: {reason}", is_power_lost=False)
        if self.restart_delay_ms is not None:
            self.universe.push(self.restart_delay_ms * 1000, None, partial(self._restart, self._lives))

    def _restart(self, ended: int) -> None:
        """Unless another process has been started since this one ended."""
        if self._lives == ended:
            self.start()

    def _end(self, reason: str, *, is_power_lost: bool) -> None:
        process, self.process = self.process, None
        assert process is not None
        self.note("end", f"process {process.number} {reason}")
        if not is_power_lost:
            self.disk.kill()
        process.end(is_power_lost=is_power_lost)

    def pause(self) -> None:
        """SIGSTOP: the operating system still accepts connections and bytes, up to its limits."""
        if self.process is not None and not self.process.is_paused:
            self.note("pause", f"process {self.process.number}")
            self.process.pause()

    def resume(self) -> None:
        if self.process is not None and self.process.is_paused:
            self.note("resume", f"process {self.process.number}")
            self.process.resume()

    # The machine

    def lose_power(self, reason: str = "power is lost") -> None:
        """The other machines see silence, and get resets when this one is on again."""
        if not self.is_on:
            return
        self.is_on = False
        self.outages += 1
        self.note("power-off", reason)
        self.disk.crash()
        if self.process is not None:
            self._end("lost power", is_power_lost=True)
        others, self.others = self.others, []
        for process in others:
            process.end(is_power_lost=True)

    def power_on(self, survival: Survival = Survival.ANY) -> None:
        """Power is back. The disk keeps what `survival` says of what was not synced. No process runs yet."""
        if not self.is_on:
            self.is_on = True
            self.note("power-on", f"unsynced: {survival.value}")
            self.disk.restart(survival)

    def power_up(self, survival: Survival = Survival.ANY) -> None:
        """Power is back, and the program starts, if it does not run."""
        self.power_on(survival)
        self.start()

    def replace_disk(self) -> None:
        """Swap the disk for an empty one. No process may be running."""
        invariant(self.process is None, f"{self.name} has a running process: its disk cannot be replaced")
        self.note("disk-new", "the disk is replaced by an empty one")
        faults = self.disk.faults
        faults.heal()
        self.disk = self._new_disk(faults)
        if not self.is_on:
            self.disk.crash()
