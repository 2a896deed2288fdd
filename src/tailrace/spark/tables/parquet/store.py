"""A Parquet table behind the interface of all tables.

store = ParquetStore("/data/orders")
snapshot = store.open() or store.create(about, schema, offsets)
snapshot = snapshot.commit(Change("append", offsets, adds=files))
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

import pyarrow as pa

from tailrace.spark.errors import ChangedMeanwhileError, OccupiedTargetError, OptionError, TableError
from tailrace.spark.tables.durable import check_can_be_made, make_folder, sync
from tailrace.spark.tables.location import local_folder
from tailrace.spark.tables.parquet.manifest import Head, Manifest
from tailrace.spark.tables.parquet.manifest_folder import FOLDER, ManifestFolder
from tailrace.spark.tables.parquet.retention import retain
from tailrace.spark.tables.store import UPSERT, About, Change, Commit, DataFile, FileTarget, Offsets, Removed

STAGING: Final = "_staging"
CREATE: Final = "create"
_SHOWN_NAMES: Final = 3


class ParquetSnapshot:
    """As one manifest says. Kept in memory whole."""

    def __init__(self, root: Path, manifest: Manifest) -> None:
        head = manifest.head
        self.about: About = head.about
        self.version: int = head.version
        self.made_ms: int = head.made_ms
        self.offsets: Offsets = head.offsets
        self.schema: pa.Schema = head.schema
        self._root = root
        self._manifest = manifest

    def files(self) -> list[DataFile]:
        return list(self._manifest.files)

    def target(self) -> FileTarget:
        """Partition columns are in the files too: whoever is handed a list of files has all columns."""
        return FileTarget(str(self._root), self.schema, self.about.partition_by, True, STAGING)

    def commit(self, change: Change) -> ParquetSnapshot:
        before = self._manifest.head
        head = Head(
            version=before.version + 1,
            id=uuid.uuid4().hex,
            parent=before.id,
            made_ms=max(_now_ms(), before.made_ms),
            operation=change.operation,
            offsets=dict(change.offsets),
            facts=dict(change.facts),
            about=before.about,
            schema=self._grown(change.schema),
        )
        manifest = Manifest(head, self._changed_files(change.adds, change.removes))
        _make_last(self._root, change.adds)
        ManifestFolder(self._root).add(manifest)
        return ParquetSnapshot(self._root, manifest)

    def _grown(self, schema: pa.Schema | None) -> pa.Schema:
        if schema is None:
            return self.schema
        for each in self.schema:
            if schema.get_field_index(each.name) < 0 or not _has_room_for(schema.field(each.name).type, each.type):
                raise TableError(f"column {each.name} of the table at {self._root} is {each.type}, and stays so")
        return schema

    def _changed_files(self, adds: Sequence[DataFile], removes: Sequence[DataFile]) -> list[DataFile]:
        files = {each.path: each for each in self._manifest.files}
        for each in removes:
            if files.pop(each.path, None) is None:
                raise TableError(f"{each.path} cannot be removed from the table at {self._root}: it is not in it")
        for each in adds:
            if each.path in files:
                raise TableError(f"{each.path} is in the table at {self._root} already")
            files[each.path] = DataFile(each.path, each.partition, each.rows, each.size_bytes)
        return list(files.values())


class ParquetStore:
    def __init__(self, place: str) -> None:
        """At a path or a `file:` URI. OptionError for other places. Nothing is read or made yet."""
        self.root = local_folder(place)
        self.name = str(self.root)

    def open(self) -> ParquetSnapshot | None:
        found = ManifestFolder(self.root).newest()
        if found is not None:
            return ParquetSnapshot(self.root, found)
        self._refuse_what_is_there()
        return None

    def create(self, about: About, schema: pa.Schema, offsets: Offsets) -> ParquetSnapshot:
        if about.mode == UPSERT:
            raise OptionError("a Parquet table has no upserts: take the format delta or iceberg, or the mode append")
        for name in about.partition_by:
            if schema.get_field_index(name) < 0:
                raise TableError(
                    f"the table at {self.name} is to be partitioned by {name}, which is none of its columns"
                )
        if self.open() is not None:
            raise ChangedMeanwhileError(f"there is a table at {self.name} meanwhile")
        head = Head(0, uuid.uuid4().hex, None, _now_ms(), CREATE, dict(offsets), {}, about, schema)
        manifest = Manifest(head, [])
        with self._making():
            make_folder(self.root)
        ManifestFolder(self.root).add(manifest)
        return ParquetSnapshot(self.root, manifest)

    def check_place(self) -> None:
        with self._making():
            check_can_be_made(self.root)

    @contextmanager
    def _making(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TableError(f"cannot make the folder {self.name}: {error}") from error

    def at(self, version: int) -> ParquetSnapshot:
        found = ManifestFolder(self.root).read(version) if version >= 0 else None
        if found is None:
            raise TableError(f"the table at {self.name} has no version {version}, or does not keep it any more")
        return ParquetSnapshot(self.root, found)

    def history(self, most: int | None = None) -> list[Commit]:
        return [each.commit() for each in islice(ManifestFolder(self.root).line(), most)]

    def retain(self, since_ms: int, abandoned_before_ms: int, *, dry_run: bool = False) -> Removed:
        return retain(self.root, STAGING, since_ms, abandoned_before_ms, dry_run=dry_run)

    def beside(self, suffix: str) -> ParquetStore:
        return ParquetStore(self.name + suffix)

    def _refuse_what_is_there(self) -> None:
        """What one leaves who died while making the table is no obstacle: its folders, without a manifest."""
        try:
            others = sorted(set(os.listdir(self.root)) - {FOLDER, STAGING})
        except FileNotFoundError:
            return
        except NotADirectoryError:
            raise OccupiedTargetError(f"{self.name} is not a folder; nothing there was touched") from None
        except OSError as error:
            raise TableError(f"cannot look into {self.name}: {error}") from error
        if others:
            raise OccupiedTargetError(
                f"{self.name} holds {_kind(others)} and no Parquet table of ours; nothing there was touched"
            )


def _kind(names: Sequence[str]) -> str:
    if "_delta_log" in names:
        return "a Delta table"
    shown = ", ".join(names[:_SHOWN_NAMES])
    return f"other data ({shown}{', …' if len(names) > _SHOWN_NAMES else ''})"


def _has_room_for(new: pa.DataType, old: pa.DataType) -> bool:
    """The same, or the same with more fields inside."""
    if new.equals(old):
        return True
    if pa.types.is_struct(new) and pa.types.is_struct(old):
        inner: Mapping[str, pa.DataType] = {each.name: each.type for each in new}
        return all(each.name in inner and _has_room_for(inner[each.name], each.type) for each in old)
    if pa.types.is_map(new) and pa.types.is_map(old):
        return new.key_type.equals(old.key_type) and _has_room_for(new.item_type, old.item_type)
    if pa.types.is_list(new) and pa.types.is_list(old):
        return _has_room_for(new.value_type, old.value_type)
    return False


def _make_last(root: Path, adds: Iterable[DataFile]) -> None:
    """Their names survive a crash before the manifest that names them does. What is in them was synced by the tasks."""
    folders = {root}
    for each in adds:
        path = root / each.path
        try:
            size_bytes = path.stat().st_size
        except OSError as error:
            raise TableError(f"{each.path}, which a task wrote, cannot be seen at {root}: {error}") from error
        if size_bytes != each.size_bytes:
            raise TableError(f"{path} has {size_bytes} bytes, and had {each.size_bytes} when it was written")
        folder = path.parent
        while folder not in folders:
            folders.add(folder)
            folder = folder.parent
    try:
        for folder in sorted(folders, reverse=True):
            sync(folder)
    except OSError as error:
        raise TableError(f"cannot sync the folders of {root}: {error}") from error


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
