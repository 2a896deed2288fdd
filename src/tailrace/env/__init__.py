"""The one interface to the outside: clock, files, jobs, network, randomness. All other code receives these."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tailrace.env.clock import Clock
from tailrace.env.files import Buffer, Entry, File, Files, Lock, Mapping, Mode, Space, write_fully
from tailrace.env.jobs import InlineJobs, Jobs
from tailrace.env.network import CloseReason, Network, NoNetwork, Stream, StreamListener

__all__ = [
    "Buffer",
    "Clock",
    "CloseReason",
    "Entry",
    "Env",
    "File",
    "Files",
    "InlineJobs",
    "Jobs",
    "Lock",
    "Mapping",
    "Mode",
    "Network",
    "NoNetwork",
    "Space",
    "Stream",
    "StreamListener",
    "write_fully",
]


@dataclass(frozen=True, slots=True)
class Env:
    """What a node needs of the outside. `env.real.real_env()` and `sim` create one."""

    files: Files
    clock: Clock
    jobs: Jobs
    random: random.Random
    network: Network = field(default_factory=NoNetwork)
