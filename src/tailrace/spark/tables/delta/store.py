"""A Delta table behind the interface of all tables.

store = DeltaStore("/data/orders")
snapshot = store.open() or store.create(about, schema, offsets)
snapshot = snapshot.commit(Change("append", offsets, adds=files))
"""

from __future__ import annotations

import os
from typing import Final

import pyarrow as pa

from tailrace.spark.errors import ChangedMeanwhileError, OccupiedTargetError, OptionError, TableError
from tailrace.spark.tables.delta.lake import DeltaTable, reason
from tailrace.spark.tables.delta.log import COMMIT, FOLDER, Log
from tailrace.spark.tables.delta.snapshot import ABOUT, AFTERWARDS, DeltaSnapshot, commit_properties, make_last
from tailrace.spark.tables.delta.types import delta_columns, to_delta
from tailrace.spark.tables.delta.upkeep import retain
from tailrace.spark.tables.durable import check_can_be_made, make_folder
from tailrace.spark.tables.location import local_folder
from tailrace.spark.tables.store import About, Commit, Offsets, Removed

CREATE: Final = "create"
CHECKPOINT_INTERVAL: Final = 20
"""Commits between two checkpoints. Who loads the table reads the newest checkpoint and all commits behind it."""
_SHOWN_NAMES: Final = 3


class DeltaStore:
    def __init__(self, place: str) -> None:
        """At a path or a `file:` URI. OptionError for other places. Nothing is read or made yet."""
        self.root = local_folder(place)
        self.name = str(self.root)
        if any(each in "%\\" or each < " " for each in self.name):
            raise OptionError(f"cannot keep a Delta table at {self.name!r}: a path with %, \\ or a control character")
        self._log = Log(self.root)

    def open(self) -> DeltaSnapshot | None:
        if self._log.is_there():
            return DeltaSnapshot(self._log)
        self._refuse_what_is_there()
        return None

    def create(self, about: About, schema: pa.Schema, offsets: Offsets) -> DeltaSnapshot:
        columns = delta_columns(schema, self.name)
        for name in about.partition_by:
            if name not in columns.names:
                raise TableError(
                    f"the table at {self.name} is to be partitioned by {name}, which is none of its columns"
                )
        if self.open() is not None:
            raise ChangedMeanwhileError(f"there is a Delta table at {self.name} meanwhile")
        commit_id, properties = commit_properties(CREATE, offsets)
        try:
            make_folder(self.root)
            make_folder(self.root / FOLDER)
            DeltaTable.create(
                self.name,
                to_delta(columns),
                partition_by=list(about.partition_by),
                configuration={
                    ABOUT: about.to_text(),
                    "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
                },
                commit_properties=properties,
                post_commithook_properties=AFTERWARDS,
                raise_if_key_not_exists=False,
            )
        except Exception as error:
            made = self._log.entry(0)
            if made is None:
                raise self._cannot_make(error) from error
            if made.info.get(COMMIT) != commit_id:
                raise ChangedMeanwhileError(f"there is a Delta table at {self.name} meanwhile") from error
        make_last(self._log, 0)
        return DeltaSnapshot(self._log, 0)

    def check_place(self) -> None:
        try:
            check_can_be_made(self.root)
        except OSError as error:
            raise self._cannot_make(error) from error

    def _cannot_make(self, error: Exception) -> TableError:
        return TableError(f"cannot make a Delta table at {self.name}: {reason(error)}")

    def at(self, version: int) -> DeltaSnapshot:
        if not 0 <= version <= self._log.newest():
            raise TableError(f"there is no version {version} of a Delta table at {self.name}")
        return DeltaSnapshot(self._log, version)

    def history(self, most: int | None = None) -> list[Commit]:
        if not self._log.is_there():
            raise TableError(f"there is no Delta table at {self.name}")
        return [each.commit() for each in self._log.entries(most)]

    def retain(self, since_ms: int, abandoned_before_ms: int, *, dry_run: bool = False) -> Removed:
        if not self._log.is_there():
            return Removed()
        return retain(self._log, since_ms, abandoned_before_ms, dry_run=dry_run)

    def beside(self, suffix: str) -> DeltaStore:
        return DeltaStore(self.name + suffix)

    def _refuse_what_is_there(self) -> None:
        """What one leaves who died while making the table is no obstacle: a log without a commit."""
        try:
            others = sorted(set(os.listdir(self.root)) - {FOLDER})
            has_log = (self.root / FOLDER).exists()
        except FileNotFoundError:
            return
        except NotADirectoryError:
            raise OccupiedTargetError(f"{self.name} is not a folder; nothing there was touched") from None
        except OSError as error:
            raise TableError(f"cannot look into {self.name}: {error}") from error
        if others:
            raise OccupiedTargetError(
                f"{self.name} holds {_kind(others, has_log)} and no Delta table; nothing there was touched"
            )


def _kind(names: list[str], has_log: bool) -> str:
    if "_tailrace" in names:
        return "a Parquet table"
    shown = ", ".join(names[:_SHOWN_NAMES]) + (", …" if len(names) > _SHOWN_NAMES else "")
    return f"other data ({shown}){', a Delta log without a commit' if has_log else ''}"
