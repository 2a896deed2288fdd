"""The one door to the outside: clock, files, randomness, jobs. Everything else is handed these."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tailrace.env.clock import Clock
from tailrace.env.files import Buffer, Entry, File, Files, Lock, Mapping, Mode, Space, write_fully
from tailrace.env.jobs import InlineJobs, Jobs

__all__ = [
    "Buffer",
    "Clock",
    "Entry",
    "Env",
    "File",
    "Files",
    "InlineJobs",
    "Jobs",
    "Lock",
    "Mapping",
    "Mode",
    "Space",
    "write_fully",
]


@dataclass(frozen=True, slots=True)
class Env:
    """What a log needs of the world. `env.real.real_env()` and `sim` make one."""

    files: Files
    clock: Clock
    jobs: Jobs
    random: random.Random
