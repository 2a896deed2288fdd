"""A simulated world to test in: seeded, in memory, and as hostile as a real one is allowed to be.

`World` is one machine whose time and jobs a test steps by hand. `Universe` is any number of machines and a network that
share one time, and runs by its own queue of events.
"""

from __future__ import annotations

from tailrace.sim.clock import SimClock
from tailrace.sim.disk import SimDisk
from tailrace.sim.event_log import Checker, Event, Violation
from tailrace.sim.faults import CrashPoint, Faults, MappedFault, Op, SimulatedCrash, Survival
from tailrace.sim.handle import SimFile, SimLock, SimMapping
from tailrace.sim.jobs import SimJobs
from tailrace.sim.link import LinkRules
from tailrace.sim.machine import Machine
from tailrace.sim.universe import Universe
from tailrace.sim.world import World, sim_env

__all__ = [
    "Checker",
    "CrashPoint",
    "Event",
    "Faults",
    "LinkRules",
    "Machine",
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
    "Universe",
    "Violation",
    "World",
    "sim_env",
]
