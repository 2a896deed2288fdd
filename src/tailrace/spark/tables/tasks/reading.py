"""What all tasks of a batch have in common, and what jobs tell while they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import pyarrow as pa

from tailrace.spark.options.source import SourceOptions
from tailrace.spark.source.ranges import OffsetRange
from tailrace.spark.tables.store import FileTarget
from tailrace.spark.tables.values.plan import ValuePlan

KeyForm = Literal["bytes", "string"]

READ: Final = "read"
MERGE: Final = "merge"
COMPACT: Final = "compact"

RECORDS_FOR_A_TASK: Final = 50_000
"""Fewer are not worth a task of their own, nor a file."""
TASKS_A_CORE: Final = 4
"""Where there is more to do than that, a task does several things: one takes tens of milliseconds to begin with."""

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
    has_letter: Mapping[int, pa.Array] = field(default_factory=dict)
    """Partition → offsets of records that have a letter in that table already. They get no other, and are no rows."""
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


def tasks_for(pieces: Sequence[OffsetRange]) -> int:
    """How many tasks read them: small pieces share one."""
    worth = -(-sum(piece.size for piece in pieces) // RECORDS_FOR_A_TASK)
    return max(1, min(len(pieces), worth))
