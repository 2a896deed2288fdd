"""One simulated machine: disk, clock, jobs and dice, all from one seed."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tailrace.env import Env
from tailrace.sim.clock import SimClock
from tailrace.sim.disk import SimDisk
from tailrace.sim.faults import Faults, Survival
from tailrace.sim.jobs import SimJobs


class World:
    """`env` is what the program under test gets; the parts are what a test pulls the strings with."""

    def __init__(self, seed: int = 0, directories: Sequence[str] = ("/data",), faults: Faults | None = None) -> None:
        """`directories` exist, durably, from the beginning."""
        self.random = random.Random(seed)
        self.clock = SimClock()
        self.disk = SimDisk(self.random.getrandbits(64), self.clock, faults)
        self.jobs = SimJobs(self.clock)
        self.env = Env(
            files=self.disk, clock=self.clock, jobs=self.jobs, random=random.Random(self.random.getrandbits(64))
        )
        for path in directories:
            self.disk.make_dir(path)
        self.disk.sync_all()

    def restart(self, survival: Survival = Survival.ANY) -> None:
        """Power was lost and is back: unsynced things may be gone, jobs are."""
        self.jobs.forget()
        self.disk.restart(survival)

    def kill(self) -> None:
        """The process died; the operating system kept what was written. Jobs are gone."""
        self.jobs.forget()
        self.disk.kill()


def sim_env(seed: int = 0) -> Env:
    """The environment of a fresh world, for code that needs no strings to pull."""
    return World(seed).env
