"""What all tasks of a batch have in common, and what jobs tell while they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from tailrace.spark.options.source import SourceOptions
from tailrace.spark.tables.store import FileTarget, Offsets
from tailrace.spark.tables.values.plan import ValuePlan

KeyForm = Literal["bytes", "string"]

READ: Final = "read"
MERGE: Final = "merge"
COMPACT: Final = "compact"

CODEC: Final = "snappy"
TARGET_BYTES: Final = 128 << 20


@dataclass(frozen=True)
class Reading:
    """How records of a batch become rows. Goes to executors."""

    options: SourceOptions
    plan: ValuePlan
    key: KeyForm
    dead: FileTarget
    """Of the table of dead letters."""
    dead_from: Offsets
    """What that table has already: letters with offsets before these are there, and not written again. Partitions that
    are not named begin at 0."""
    codec: str = CODEC
    """Of Parquet files: snappy, zstd, gzip, lz4 or none."""
    target_bytes: int = TARGET_BYTES
    """About how large files get before the next one is begun."""


@dataclass(frozen=True)
class Tally:
    """How far a job is."""

    step: str
    tasks_done: int
    tasks: int
    offsets: int
    """How many of the batch are read: an estimate, until all are. 0 where no topic is read."""


Told = Callable[[Tally], None]
