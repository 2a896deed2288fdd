"""What a job did, in numbers, and what it is doing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tailrace.spark.tables.store import Offsets, Removed

READING: Final = "reading"
COMMITTING: Final = "committing"
COMPACTING: Final = "compacting"
RETAINING: Final = "retaining"
WAITING: Final = "waiting"


@dataclass(frozen=True)
class TableReport:
    """Up to now, of one run. Rates are of the time in which there was something to do."""

    topic: str
    table: str
    """Its place."""
    format: str
    mode: str
    created: bool = False
    """Whether this run made the table."""
    version: int | None = None
    """Of the newest commit; None where there is no table yet."""
    batches: int = 0
    rows: int = 0
    """Appended, or inserted and replaced by key."""
    deleted: int = 0
    """Keys that a tombstone took away."""
    dead_letters: int = 0
    files: int = 0
    """Written by batches, of all tables."""
    size_bytes: int = 0
    """Of these files."""
    read_bytes: int = 0
    start: Offsets = field(default_factory=dict)
    offsets: Offsets = field(default_factory=dict)
    """Up to which the table has the topic."""
    replans: int = 0
    """How often somebody else had committed meanwhile."""
    compacted: int = 0
    """Small files that became fewer."""
    removed: Removed = field(default_factory=Removed)
    seconds: float = 0.0
    busy_seconds: float = 0.0

    @property
    def records(self) -> int:
        """Offsets that were gone through: also those of tombstones, markers and compacted records."""
        return sum(end - self.start.get(each, end) for each, end in self.offsets.items())

    @property
    def records_per_second(self) -> float:
        return self.records / self.busy_seconds if self.busy_seconds else 0.0

    @property
    def bytes_per_second(self) -> float:
        return self.size_bytes / self.busy_seconds if self.busy_seconds else 0.0

    def __str__(self) -> str:
        """A line for people."""
        more = "".join(
            f", {count:,} {what}"
            for count, what in ((self.deleted, "deleted"), (self.dead_letters, "dead letters"))
            if count
        )
        where = f"{self.format} table, version {self.version}"
        return f"{self.rows:,} rows of {self.topic}{more} in {self.seconds:.1f} s: {where}"

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return {
            **{name: value for name, value in vars(self).items() if name != "removed"},
            "start": _texts(self.start),
            "offsets": _texts(self.offsets),
            "removed": vars(self.removed),
            "records": self.records,
            "records_per_second": round(self.records_per_second, 1),
        }


@dataclass(frozen=True)
class Progress:
    """Told while a job is at work, from its thread. Those who show it must not raise."""

    doing: str
    """reading, committing, compacting, retaining or waiting."""
    batch: int
    """The number of the batch in this run, from 1."""
    records_done: int
    """Of this batch, as far as tasks have told."""
    records_total: int
    left: int
    """Records of the topic that the table has not yet, with those of this batch."""
    report: TableReport
    """As of the last commit."""


Told = Callable[[Progress], None]


def added(one: Removed, other: Removed) -> Removed:
    return Removed(one.files + other.files, one.size_bytes + other.size_bytes, one.versions + other.versions)


def _texts(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}
