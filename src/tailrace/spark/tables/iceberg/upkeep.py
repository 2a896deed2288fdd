"""Snapshots that are too old, and files that nothing needs any more.

A snapshot is too old when the one after it is older than what is retained: until then it was the table. What stays in
any case: heads of branches, tags, and the line from the current snapshot to the one that has our offsets.

pyiceberg takes snapshots out of the metadata, and no more. Files are found by walking through data/ and metadata/
first, and loading the table after that, so that a commit between the two is seen. Then goes

    what only snapshots needed that were just taken out
    what nothing names, if it is old enough: a job that runs may be about to name it
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, RemoveSnapshotsUpdate

from tailrace.spark.errors import TableError
from tailrace.spark.tables.iceberg.data_files import local_path
from tailrace.spark.tables.iceberg.lineage import line, line_to_offsets
from tailrace.spark.tables.store import Removed

_TRIES: Final = 5
_FOLDERS: Final = ("data", "metadata")
_KEPT_NAMES: Final = frozenset({"version-hint.text"})


@dataclass(frozen=True)
class _Found:
    size_bytes: int
    changed_ms: int


def retain(load: Callable[[], Table], since_ms: int, abandoned_before_ms: int, *, dry_run: bool) -> Removed:
    location = local_path(load().metadata.location)
    try:
        there = _walk(location)
    except OSError as error:
        raise TableError(f"cannot look through the files of the table at {location}: {error}") from error
    table, gone = _expire(load, since_ms, dry_run=dry_run)
    left = [each for each in table.metadata.snapshots if each.snapshot_id not in {old.snapshot_id for old in gone}]
    try:
        named = set(_names_of_table(table)) | set(_names_of_snapshots(left, table.io))
        once_named = set(_names_of_snapshots(gone, table.io)) - named
    except (OSError, ValueError) as error:
        raise TableError(f"cannot read what the table at {table.location()} names: {error}") from error
    files = size_bytes = 0
    for path, found in there.items():
        if path in named or (path not in once_named and found.changed_ms >= abandoned_before_ms):
            continue
        if dry_run or _remove(path):
            files += 1
            size_bytes += found.size_bytes
    return Removed(files, size_bytes, len(gone))


def _expire(load: Callable[[], Table], since_ms: int, *, dry_run: bool) -> tuple[Table, list[Snapshot]]:
    """The table without snapshots that are too old, and those. Of a dry run, the table as it is."""
    for _ in range(_TRIES):
        table = load()
        metadata = table.metadata
        old = _too_old(metadata, since_ms)
        if dry_run or not old:
            return table, old
        updates = (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [each.snapshot_id for each in old]}),)
        # A table that is rolled back to one of them meanwhile would lose its branch.
        requirements: tuple[Any, ...] = (
            AssertTableUUID(uuid=metadata.table_uuid),
            *(
                AssertRefSnapshotId.model_validate({"ref": ref, "snapshot-id": each.snapshot_id})
                for ref, each in metadata.refs.items()
            ),
        )
        try:
            table.catalog.commit_table(table, requirements, updates)
        except CommitFailedException:
            continue
        except Exception as error:  # of a catalog, of whatever kind
            if not {each.snapshot_id for each in old} <= {each.snapshot_id for each in load().metadata.snapshots}:
                continue  # somebody else has expired some of them meanwhile
            raise TableError(
                f"cannot expire snapshots of the table at {table.location()}: {type(error).__name__}: {error}"
            ) from error
        return load(), old
    return load(), []


def _too_old(metadata: TableMetadata, since_ms: int) -> list[Snapshot]:
    current = metadata.current_snapshot()
    kept = {each.snapshot_id for each in metadata.refs.values()}
    kept.update(each.snapshot_id for each in line_to_offsets(metadata, current))
    replaced_ms: dict[int, int] = {}
    after: Snapshot | None = None
    for each in line(metadata, current):
        if after is not None:
            replaced_ms[each.snapshot_id] = after.timestamp_ms
        after = each
    return [
        each
        for each in metadata.snapshots
        if each.snapshot_id not in kept and replaced_ms.get(each.snapshot_id, each.timestamp_ms) < since_ms
    ]


def _names_of_table(table: Table) -> Iterator[str]:
    metadata = table.metadata
    yield local_path(table.metadata_location)
    yield from (local_path(each.metadata_file) for each in metadata.metadata_log)
    yield from (local_path(each.statistics_path) for each in metadata.statistics)
    yield from (local_path(each.statistics_path) for each in metadata.partition_statistics)


def _names_of_snapshots(snapshots: Iterable[Snapshot], file_io: FileIO) -> Iterator[str]:
    seen: set[str] = set()
    for snapshot in snapshots:
        yield local_path(snapshot.manifest_list)
        for manifest in snapshot.manifests(file_io):
            if manifest.manifest_path in seen:
                continue
            seen.add(manifest.manifest_path)
            yield local_path(manifest.manifest_path)
            for entry in manifest.fetch_manifest_entry(file_io, discard_deleted=True):
                yield local_path(entry.data_file.file_path)


def _walk(location: str) -> dict[str, _Found]:
    found: dict[str, _Found] = {}
    for top in _FOLDERS:
        for folder, _, names in os.walk(os.path.join(location, top)):
            for name in names:
                path = os.path.join(folder, name)
                try:
                    state = os.stat(path, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if name not in _KEPT_NAMES:
                    found[path] = _Found(state.st_size, state.st_mtime_ns // 1_000_000)
    return found


def _remove(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False  # gone already, or not ours to remove: the next time tells
    return True
