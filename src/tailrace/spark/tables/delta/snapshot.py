"""A Delta table as one commit left it, and the next commit.

The next commit is the file of the next number in `_delta_log`, which only one can make. deltalake would move a refused
commit to the number behind by itself; it is told not to. The file is on disk before the commit counts as made, as the
data files are: what a later commit to another table relies on survives a power cut.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.spark.errors import ChangedMeanwhileError, ForeignTableError, PipelineError, TableError
from tailrace.spark.tables.delta.lake import (
    AddAction,
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    RemoveAction,
    loaded,
    reason,
)
from tailrace.spark.tables.delta.log import COMMIT, FACTS, OFFSETS, OPERATION, Log, path_of
from tailrace.spark.tables.delta.offsets import offsets_at, transactions
from tailrace.spark.tables.delta.statistics import most_columns_of, statistics_of
from tailrace.spark.tables.delta.types import delta_columns, new_fields, to_arrow, to_delta
from tailrace.spark.tables.durable import sync
from tailrace.spark.tables.store import About, Change, DataFile, FileTarget, Offsets

ABOUT: Final = "tailrace.about"
COLUMN_MAPPING: Final = "delta.columnMapping.mode"
COMPACT: Final = "compact"
SCHEMA: Final = "schema"
STRANGE_FEATURES: Final = frozenset(("columnMapping", "deletionVectors"))
"""Files of such a table do not say by themselves which rows and columns it has."""


class DeltaSnapshot:
    """Holds the table's state as it was loaded, and never another one."""

    def __init__(self, log: Log, version: int | None = None) -> None:
        """The newest, or this one. TableError where it is not retained."""
        self._log = log
        self._table = loaded(log.root, version)
        self.about: About = _about_of(self._table, log.root)
        _check_features(self._table, log.root)
        self.version: int = self._table.version()
        entry = log.entry(self.version)
        self.made_ms: int = entry.made_ms if entry is not None else int(self._table.metadata().created_time or 0)
        self.offsets: Offsets = offsets_at(log, self.version)
        self.schema: pa.Schema = to_arrow(self._table.schema())
        self._files: list[DataFile] | None = None

    def files(self) -> list[DataFile]:
        if self._files is None:
            self._files = _files_of(self._table, self._log.root, self.about.partition_by)
        return list(self._files)

    def target(self) -> FileTarget:
        """Partition columns are in the log only, as Delta has it."""
        inside = pa.schema([each for each in self.schema if each.name not in self.about.partition_by])
        return FileTarget(str(self._log.root), inside, self.about.partition_by, holds_partition_columns=False)

    def commit(self, change: Change) -> DeltaSnapshot:
        """New columns are a commit of their own, before the one with the files: the table may stay at it."""
        _check_adds(self._log.root, change.adds)
        if change.schema is None:
            return self._commit_files(change)
        wider = self._grown(change.schema, change)
        if not change.adds and not change.removes:
            return wider
        return wider._commit_files(change)

    def _grown(self, schema: pa.Schema, change: Change) -> DeltaSnapshot:
        name = str(self._log.root)
        fields = new_fields(self.schema, delta_columns(schema, name), name)
        if not fields:
            has_more = change.adds or change.removes or change.offsets == self.offsets
            return self if has_more else self._commit_files(change)
        table = loaded(self._log.root, self.version)  # deltalake changes the handle with which it adds columns
        # The offsets come with the files, where there are some: until then the table is as far as it was.
        offsets = self.offsets if change.adds or change.removes else change.offsets
        properties = commit_properties(SCHEMA, offsets, change)

        def make() -> None:
            table.alter.add_columns(
                to_delta(fields).fields, commit_properties=properties[1], post_commithook_properties=AFTERWARDS
            )

        return self._made(properties[0], make)

    def _commit_files(self, change: Change) -> DeltaSnapshot:
        now_ms = time.time_ns() // 1_000_000
        is_change = change.operation != COMPACT
        partitions = {each.path: each for each in self.files()} if change.removes or change.adds else {}
        for each in change.removes:
            if each.path not in partitions:
                raise TableError(f"{each.path} cannot be removed: it is not in the Delta table at {self._log.root}")
        for each in change.adds:
            if each.path in partitions:
                raise TableError(f"{each.path} is in the Delta table at {self._log.root} already")
        most_columns = most_columns_of(self._table.metadata().configuration)
        actions: list[AddAction | RemoveAction] = [
            _added(each, now_ms, is_change, most_columns) for each in change.adds
        ]
        actions += [
            RemoveAction(each.path, is_change, now_ms, each.size_bytes, dict(each.partition)) for each in change.removes
        ]
        commit_id, properties = commit_properties(change.operation, change.offsets, change)

        def make() -> None:
            self._table.create_write_transaction(
                actions,
                "append",
                self._table.schema(),
                partition_by=list(self.about.partition_by),
                commit_properties=properties,
                post_commithook_properties=AFTERWARDS,
            )

        return self._made(commit_id, make)

    def _made(self, commit_id: str, make: Callable[[], None]) -> DeltaSnapshot:
        """By what is in the log: a commit may have been made although something after it failed."""
        log, version = self._log, self.version + 1
        try:
            make()
        except PipelineError:
            raise
        except Exception as error:
            entry = log.entry(version)
            if entry is None and log.newest() <= self.version:
                raise TableError(f"cannot commit to the Delta table at {log.root}: {reason(error)}") from error
            if entry is None or entry.info.get(COMMIT) != commit_id:
                raise ChangedMeanwhileError(
                    f"the Delta table at {log.root} has versions behind {self.version} meanwhile, of somebody else"
                ) from error
        make_last(log, version)
        try:
            return DeltaSnapshot(log, version)
        except TableError as error:
            if log.newest() <= version:
                raise
            # It is made, and others went on from it and retain nothing of it: nothing more can be planned on it.
            raise ChangedMeanwhileError(f"the Delta table at {log.root} went on from version {version}") from error


AFTERWARDS: Final = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
"""Checkpoints as often as the table is configured. Upkeep deletes old commits: it is told how long to retain them."""


def commit_properties(operation: str, offsets: Offsets, change: Change | None = None) -> tuple[str, CommitProperties]:
    """And the id by which the commit is known."""
    commit_id = uuid.uuid4().hex
    facts = {} if change is None else dict(change.facts)
    told = {
        COMMIT: commit_id,
        OPERATION: operation,
        OFFSETS: json.dumps({str(part): offset for part, offset in sorted(offsets.items())}, separators=(",", ":")),
        FACTS: json.dumps(facts, separators=(",", ":")),
    }
    return commit_id, CommitProperties(told, max_commit_retries=0, app_transactions=transactions(offsets))


def make_last(log: Log, version: int) -> None:
    try:
        for path in log.files_of(version):
            sync(path)
        sync(log.folder)
    except FileNotFoundError:  # somebody keeps the table tidy
        pass
    except OSError as error:
        raise TableError(f"cannot sync the log of the Delta table at {log.root}: {error}") from error


def _about_of(table: DeltaTable, root: Path) -> About:
    text = table.metadata().configuration.get(ABOUT)
    if text is None:
        raise ForeignTableError(f"the Delta table at {root} was not made of a topic here; nothing there was touched")
    try:
        return About.from_text(text)
    except (ValueError, TypeError, KeyError) as error:
        raise TableError(
            f"what the Delta table at {root} says about itself ({ABOUT}) cannot be read: {error}"
        ) from error


def _check_features(table: DeltaTable, root: Path) -> None:
    strange = set(STRANGE_FEATURES.intersection(table.protocol().reader_features or ()))
    if table.metadata().configuration.get(COLUMN_MAPPING, "none") != "none":  # older protocols have no features
        strange.add("columnMapping")
    if strange:
        raise TableError(
            f"somebody gave the Delta table at {root} the feature {', '.join(sorted(strange))}, with which its files "
            "do not tell by themselves which rows it has: that is not supported"
        )


def _files_of(table: DeltaTable, root: Path, partition_by: Sequence[str]) -> list[DataFile]:
    found = pa.table(table.get_add_actions(flatten=False))
    paths = [path_of(each) for each in found.column("path").to_pylist()]
    values: dict[str, list[str | None]] = {}
    if partition_by:
        partition = found.column("partition").combine_chunks()
        values = {name: partition.field(name).cast(pa.string()).to_pylist() for name in partition_by}
    rows = found.column("num_records").to_pylist()
    sizes = found.column("size_bytes").to_pylist()
    return [
        DataFile(
            path,
            {name: texts[number] for name, texts in values.items()},
            _rows_in(root / path) if rows[number] is None else rows[number],
            sizes[number],
        )
        for number, path in enumerate(paths)
    ]


def _rows_in(path: Path) -> int:
    """Of a file that somebody else committed without telling."""
    try:
        count: int = pq.read_metadata(path).num_rows
    except (OSError, pa.ArrowException) as error:
        raise TableError(f"cannot read {path}, which is in the table: {error}") from error
    return count


def _check_adds(root: Path, adds: Sequence[DataFile]) -> None:
    """The driver may see another file system than the executors."""
    for each in adds:
        try:
            size_bytes = (root / each.path).stat().st_size
        except OSError as error:
            raise TableError(f"{each.path}, which a task wrote, cannot be seen at {root}: {error}") from error
        if size_bytes != each.size_bytes:
            raise TableError(
                f"{root / each.path} has {size_bytes} bytes, and had {each.size_bytes} when it was written"
            )


def _added(file: DataFile, now_ms: int, is_change: bool, most_columns: int | None) -> AddAction:
    stats = statistics_of(file.rows, file.footer, has_nan=file.has_nan, most_columns=most_columns)
    return AddAction(file.path, file.size_bytes, dict(file.partition), now_ms, is_change, stats)
