"""An Iceberg table as one commit left it, and the next commit.

A commit asks the catalog for two things at once: that the branch `main` is still at this snapshot, and that it be at
the new one. pyiceberg would repeat a refused commit on the new state by itself; that is switched off, whatever the
table's properties say. Manifests are written before; those of a refused commit are deleted by pyiceberg, or by upkeep.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, ValidationError, ValidationException
from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import Table, TableProperties, Transaction
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.snapshots import Snapshot as IcebergState
from pyiceberg.table.update.snapshot import _MergeAppendFiles, _OverwriteFiles
from pyiceberg.transforms import IdentityTransform

from tailrace.spark.errors import ChangedMeanwhileError, SchemaMismatchError, TableError
from tailrace.spark.tables.iceberg.data_files import Entries, from_entry, local_path, make_last
from tailrace.spark.tables.iceberg.lineage import (
    CREATED,
    FACTS,
    OFFSETS,
    OPERATION,
    about_of,
    created_ms,
    offsets_at,
    offsets_text,
)
from tailrace.spark.tables.iceberg.types import to_arrow, to_iceberg
from tailrace.spark.tables.store import About, Change, DataFile, FileTarget, Offsets

if TYPE_CHECKING:
    import pyarrow as pa

DATA: Final = "data"
MAIN: Final = "main"


class IcebergSnapshot:
    """Holds the table's metadata as they were loaded, and never other ones."""

    def __init__(self, table: Table, name: str, version: int | None = None) -> None:
        """Of the current snapshot, or of `version`. TableError where that is not retained."""
        metadata = table.metadata
        self._table = table
        self._name = name
        self._state = _state(table, name, version)
        self.about: About = about_of(metadata, name)
        self.version: int = CREATED if self._state is None else self._state.snapshot_id
        self.made_ms: int = created_ms(metadata) if self._state is None else self._state.timestamp_ms
        self.offsets: Offsets = offsets_at(metadata, self._state, table.io, name)
        # The current snapshot has the current columns: they may be more than its commit knew.
        self._columns = metadata.schema() if version is None else _columns_at(table, self._state)
        self.schema: pa.Schema = to_arrow(self._columns)
        self._root = Path(local_path(metadata.location)) / DATA
        self._files: list[DataFile] | None = None

    def files(self) -> list[DataFile]:
        """In the order of the commits that added them. TableError where another engine deleted rows without writing
        their files anew: those rows are still in the files, and we would bring them back."""
        if self._files is None:
            specs = self._table.metadata.specs()
            found: list[tuple[int, DataFile]] = []
            for manifest, entry in self._live():
                if manifest.content == ManifestContent.DELETES:
                    raise TableError(
                        f"the table {self._name} has files that say which rows are deleted, by another engine. Have "
                        "that engine rewrite its data files first"
                    )
                file = from_entry(entry.data_file, self._root, specs[manifest.partition_spec_id], self._columns)
                found.append((entry.sequence_number or 0, file))
            self._files = [file for _, file in sorted(found, key=lambda each: (each[0], each[1].path))]
        return list(self._files)

    def target(self) -> FileTarget:
        self._check_partitioning()
        schema = to_arrow(self._columns, with_ids=True)
        return FileTarget(str(self._root), schema, self.about.partition_by, holds_partition_columns=True)

    def commit(self, change: Change) -> IcebergSnapshot:
        current = self._table.metadata.current_snapshot_id
        if (CREATED if current is None else current) != self.version:
            raise ChangedMeanwhileError(f"version {self.version} of the table {self._name} is not the newest")
        self._check_partitioning()
        make_last(self._root, change.adds)
        table = _for_one_commit(self._table)
        transaction = table.transaction()
        producer: Any = None
        try:
            if change.schema is not None:
                self._grow(transaction, change.schema)
            producer = self._producer(transaction, change)
            producer.commit()
            transaction.commit_transaction()
        except CommitFailedException as error:
            raise ChangedMeanwhileError(f"the table {self._name} was changed meanwhile: {error}") from error
        except SchemaMismatchError:
            raise
        except Exception as error:
            table = self._landed(producer, error)
        return IcebergSnapshot(table, self._name)

    def _producer(self, transaction: Transaction, change: Change) -> _Append | _Rewrite:
        metadata = transaction.table_metadata
        properties = {
            OFFSETS: offsets_text(change.offsets),
            OPERATION: change.operation,
            FACTS: json.dumps(dict(change.facts), separators=(",", ":")),
        }
        kind: type[_Append] | type[_Rewrite] = _Rewrite if change.removes else _Append
        producer = kind(
            operation=Operation.OVERWRITE if change.removes else Operation.APPEND,
            transaction=transaction,
            io=self._table.io,
            branch=MAIN,
            snapshot_properties=properties,
        )
        entries = Entries(self._root, metadata)
        for each in change.adds:
            producer.append_data_file(entries.new(each))
        for entry in self._entries_of(change.removes):
            producer.delete_data_file(entry)
        return producer

    def _entries_of(self, files: Sequence[DataFile]) -> list[Any]:
        wanted = {str(self._root / each.path) for each in files}
        if not wanted:
            return []
        found = {}
        for _, entry in self._live():
            path = local_path(entry.data_file.file_path)
            if path in wanted:
                found[path] = entry.data_file
        if missing := wanted - found.keys():
            raise TableError(f"{min(missing)} cannot be removed: it is not in the table {self._name}")
        return list(found.values())

    def _live(self) -> Iterator[tuple[ManifestFile, ManifestEntry]]:
        """All files, each with the manifest that names it. TableError where that is gone, as the version may be."""
        if self._state is None:
            return
        try:
            for manifest in self._state.manifests(self._table.io):
                for entry in manifest.fetch_manifest_entry(self._table.io, discard_deleted=True):
                    yield manifest, entry
        except (OSError, ValueError) as error:
            raise TableError(
                f"cannot read which files version {self.version} of the table {self._name} has: {error}. It may have "
                "been expired"
            ) from error

    def _grow(self, transaction: Transaction, schema: pa.Schema) -> None:
        """More columns, where they stand in `schema`; more fields in structs; types that hold all that was there."""
        before = set(self.schema.names)
        if missing := [name for name in self.schema.names if name not in schema.names]:
            raise TableError(f"columns of the table {self._name} cannot be taken away: {', '.join(missing)}")
        try:
            with transaction.update_schema() as update:
                update.union_by_name(to_iceberg(schema))
                for left, name in zip(schema.names, schema.names[1:], strict=False):
                    if name not in before:
                        update.move_after((name,), (left,))
        except (ValueError, ValidationError, ValidationException) as error:
            raise SchemaMismatchError(
                f"the columns of the table {self._name} cannot become what is wanted: {error}\n"
                f"the table:\n{self.schema}\nwanted:\n{schema}"
            ) from error

    def _check_partitioning(self) -> None:
        spec = self._table.metadata.spec()
        names = tuple(self._table.metadata.schema().find_column_name(each.source_id) for each in spec.fields)
        plain = all(isinstance(each.transform, IdentityTransform) for each in spec.fields)
        if not plain or names != self.about.partition_by:
            raise TableError(
                f"the table {self._name} is partitioned by {spec.fields or 'nothing'} now, and was made partitioned by "
                f"{', '.join(self.about.partition_by) or 'nothing'}: that cannot be changed"
            )

    def _landed(self, producer: Any, error: Exception) -> Table:
        """The newest table, if our commit is in it in spite of the error. Where somebody else was faster, what we
        planned on may be gone already: that is not what is wrong then."""
        try:
            table = self._table.catalog.load_table(self._table.name())
        except NoSuchTableError:
            raise TableError(f"the table {self._name} is gone: {error}") from error
        except Exception as second:
            raise TableError(
                f"whether the table {self._name} has the commit is not known: {error}; and then: {second}"
            ) from error
        if producer is not None and table.metadata.snapshot_by_id(producer.snapshot_id) is not None:
            return table
        if table.metadata.current_snapshot_id != self._table.metadata.current_snapshot_id:
            raise ChangedMeanwhileError(f"the table {self._name} was changed meanwhile: {error}") from error
        if isinstance(error, TableError):
            raise error
        raise TableError(f"cannot commit to the table {self._name}: {type(error).__name__}: {error}") from error


class _Append(_MergeAppendFiles):
    """Adds files. Manifests are merged when they are many, if the table's properties say so."""


class _Rewrite(_OverwriteFiles):
    """Removes files, and adds those that take their place."""

    def _build_manifest_evaluator(self, spec_id: int) -> Any:
        """Which manifests may hold the files to remove. Of a table without partitions, all; pyiceberg says none."""
        if self.spec(spec_id).is_unpartitioned():
            return lambda manifest: True
        return super()._build_manifest_evaluator(spec_id)

    def _existing_manifests(self) -> list[ManifestFile]:
        """Without those that only tell what an earlier commit removed: pyiceberg keeps them for good."""
        return [each for each in super()._existing_manifests() if _has_live_files(each)]


def _has_live_files(manifest: ManifestFile) -> bool:
    return bool(manifest.has_added_files() or manifest.has_existing_files())


def _for_one_commit(table: Table) -> Table:
    """A handle of its own, without retries: pyiceberg changes a handle by what it commits.

    It has no snapshot but the current one. pyiceberg copies all of the metadata many times for a commit, and the
    catalog works on its own anyway.
    """
    metadata = table.metadata
    current = metadata.current_snapshot()
    slim = metadata.model_copy(
        update={
            "properties": {**metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0"},
            "snapshots": [] if current is None else [current],
            "snapshot_log": [],
            "statistics": [],
            "partition_statistics": [],
        }
    )
    return Table(table.name(), slim, table.metadata_location, table.io, table.catalog, table.config)


def _state(table: Table, name: str, version: int | None) -> IcebergState | None:
    if version is None:
        return table.metadata.current_snapshot()
    if version == CREATED:
        return None
    found = table.metadata.snapshot_by_id(version)
    if found is None:
        raise TableError(f"the table {name} has no version {version}, or does not keep it any more")
    return found


def _columns_at(table: Table, state: IcebergState | None) -> Any:
    number = 0 if state is None else state.schema_id
    return table.metadata.schema() if number is None else table.schemas()[number]
