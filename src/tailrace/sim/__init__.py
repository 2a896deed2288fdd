"""A world to test in: seeded, in memory, and as hostile as a real one is allowed to be."""

from __future__ import annotations

from tailrace.sim.clock import SimClock
from tailrace.sim.disk import SimDisk
from tailrace.sim.faults import CrashPoint, Faults, MappedFault, Op, SimulatedCrash, Survival
from tailrace.sim.handle import SimFile, SimLock, SimMapping
from tailrace.sim.jobs import SimJobs
from tailrace.sim.world import World, sim_env

__all__ = [
    "CrashPoint",
    "Faults",
    "MappedFault",
    "Op",
    "SimClock",
    "SimDisk",
    "SimFile",
    "SimJobs",
    "SimLock",
    "SimMapping",
    "SimulatedCrash",
    "Survival",
    "World",
    "sim_env",
]
