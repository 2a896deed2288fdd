"""The world as it is: the operating system's files and clock."""

from __future__ import annotations

import random

from tailrace.env import Env
from tailrace.env.jobs import InlineJobs
from tailrace.env.real.clock import RealClock
from tailrace.env.real.files import RealFile, RealFiles, RealLock
from tailrace.env.real.jobs import ThreadJobs

__all__ = ["RealClock", "RealFile", "RealFiles", "RealLock", "ThreadJobs", "real_env"]


def real_env(seed: int | None = None) -> Env:
    """Real files and time, jobs run inline; `seed` makes the random numbers repeat."""
    return Env(files=RealFiles(), clock=RealClock(), jobs=InlineJobs(), random=random.Random(seed))
