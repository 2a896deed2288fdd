"""What a table is to those who fill it: a place that holds snapshots, and commits that make the next one.

A commit names files to add and to remove, and the offsets up to which the table then has its topic, in one step that
either happens or does not. It happens only on the snapshot it was planned on: `ChangedMeanwhileError` otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

APPEND: Final = "append"
UPSERT: Final = "upsert"

ROWS: Final = "rows"
DEAD_LETTERS: Final = "dead letters"
HIDDEN: Final = "hidden rows"

Offsets = Mapping[int, int]
"""Partition → the first offset that the table does not have. One topic."""


@dataclass(frozen=True)
class About:
    """What a table is of. Written when it is made, and never changed."""

    topic: str
    topic_id: str | None
    cluster_id: str | None
    role: str = ROWS
    mode: str = APPEND
    buckets: int | None = None
    """Of an upsert table: a key is in the bucket that its hash says, for good."""
    partition_by: tuple[str, ...] = ()
    """Columns of the table. An upsert table has `_bucket` here."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """How records become rows: with other settings, other rows would be in one table."""

    def to_text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> About:
        content: dict[str, Any] = json.loads(text)
        content["partition_by"] = tuple(content["partition_by"])
        return cls(**content)


@dataclass(frozen=True)
class DataFile:
    path: str
    """Below the table's root, with slashes."""
    partition: Mapping[str, str | None]
    """Column → its value in all rows, as text in the way of Hive; `_day` as 2026-11-16."""
    rows: int
    size_bytes: int
    footer: pq.FileMetaData | None = None
    """Of a new file: its statistics. None for one that is in the table already."""
    has_nan: bool = False
    """Whether a number in a new file is NaN, which its statistics leave out."""


@dataclass(frozen=True)
class Change:
    operation: str
    """append, upsert, compact, schema."""
    offsets: Offsets
    """After it. What does not read the topic (compact, schema) gives those of the snapshot."""
    adds: Sequence[DataFile] = ()
    removes: Sequence[DataFile] = ()
    schema: pa.Schema | None = None
    """The table's columns from now on, where they get more."""
    facts: Mapping[str, int | str] = field(default_factory=dict)
    """For people, in the history: rows, dead letters, bytes."""


@dataclass(frozen=True)
class Commit:
    """A line of a table's history."""

    version: int
    made_ms: int
    operation: str
    offsets: Offsets | None
    """None where somebody else committed."""
    facts: Mapping[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True)
class FileTarget:
    """All that a task needs to write files of a table. Goes to executors."""

    root: str
    """A directory that driver and executors see under this path."""
    schema: pa.Schema
    """Of the files: without partition columns where the format keeps them elsewhere, with Parquet's field ids where it
    wants them."""
    partition_by: tuple[str, ...]
    holds_partition_columns: bool
    staging: str | None = None
    """Below the root: where files are until they are whole. Then they are renamed to their place."""


@dataclass(frozen=True)
class Removed:
    """What upkeep took away."""

    files: int = 0
    size_bytes: int = 0
    versions: int = 0


class Snapshot(Protocol):
    """A table as one commit left it. It stays valid beside later ones for as long as that is retained."""

    about: About
    version: int
    """Delta's version, the number of a Parquet table's manifest, the id of an Iceberg snapshot."""
    made_ms: int
    offsets: Offsets
    schema: pa.Schema
    """All columns, those of the partitions too."""

    def files(self) -> list[DataFile]: ...

    def target(self) -> FileTarget: ...

    def commit(self, change: Change) -> Snapshot:
        """ChangedMeanwhileError where this is not the newest any more; TableError for everything else."""
        ...


class Store(Protocol):
    """The place of a table."""

    name: str
    """For messages: its path, or catalog and identifier."""

    def open(self) -> Snapshot | None:
        """The newest snapshot; None where nothing is. OccupiedTargetError where something else is, ForeignTableError
        for a table that we did not make."""
        ...

    def create(self, about: About, schema: pa.Schema, offsets: Offsets) -> Snapshot:
        """An empty table. ChangedMeanwhileError where one has come to be meanwhile."""
        ...

    def check_place(self) -> None:
        """TableError where no table can be made because nothing can be written there. Nothing is left behind."""
        ...

    def at(self, version: int) -> Snapshot:
        """TableError where it is not retained."""
        ...

    def history(self, most: int | None = None) -> list[Commit]:
        """The newest first, as far as it is retained: all of it, which may be long, or so many."""
        ...

    def retain(self, since_ms: int, abandoned_before_ms: int, *, dry_run: bool = False) -> Removed:
        """Take away what only versions older than `since_ms` need (the newest version is always kept, and so is the
        newest one that holds our offsets), and files that no version names and that are older than
        `abandoned_before_ms`: those of a job that runs are younger."""
        ...

    def beside(self, suffix: str) -> Store:
        """Of a table of the same kind whose name has this behind it: `orders` and `orders_dead_letters`."""
        ...
