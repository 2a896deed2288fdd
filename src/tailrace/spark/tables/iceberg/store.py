"""An Iceberg table behind the interface of all tables.

store = IcebergStore("lake/orders")
snapshot = store.open() or store.create(about, schema, offsets)
snapshot = snapshot.commit(Change("append", offsets, adds=files))
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, FloatType, PrimitiveType

from tailrace.spark.errors import (
    ChangedMeanwhileError,
    ForeignTableError,
    OccupiedTargetError,
    PipelineError,
    TableError,
)
from tailrace.spark.tables.durable import check_can_be_made
from tailrace.spark.tables.iceberg.catalog import check_folder, existing_catalog, made_catalog
from tailrace.spark.tables.iceberg.data_files import local_path
from tailrace.spark.tables.iceberg.lineage import ABOUT, CREATED_MS, OFFSETS, commits, offsets_text
from tailrace.spark.tables.iceberg.place import IcebergPlace, iceberg_place
from tailrace.spark.tables.iceberg.snapshot import IcebergSnapshot
from tailrace.spark.tables.iceberg.types import to_iceberg
from tailrace.spark.tables.iceberg.upkeep import retain
from tailrace.spark.tables.store import About, Commit, Offsets, Removed

if TYPE_CHECKING:
    import pyarrow as pa

_PROPERTIES: Final = {
    TableProperties.FORMAT_VERSION: "2",
    TableProperties.MANIFEST_MERGE_ENABLED: "true",
    # The metadata are a file anew with each commit: the newest hundred stay.
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: "100",
}
_FIRST_PARTITION_ID: Final = 1000
_NO_PARTITIONS: Final = (FloatType, DoubleType)
"""pyiceberg keeps partition values of these with fewer digits than the rows have."""
_FIRST_METADATA: Final = re.compile(r"00000-.*\.metadata\.json")
_SHOWN_NAMES: Final = 3


class IcebergStore:
    def __init__(self, place: str, catalog: Mapping[str, str] | None = None) -> None:
        """At a path or a `file:` URI, and in a catalog: see place.py. Nothing is read or made yet."""
        self._at(iceberg_place(place, catalog))

    def _at(self, place: IcebergPlace) -> None:
        self.place = place
        self.name = place.name

    def open(self) -> IcebergSnapshot | None:
        table = self._table()
        if table is not None:
            return IcebergSnapshot(table, self.name)
        self._refuse_what_is_there()
        return None

    def create(self, about: About, schema: pa.Schema, offsets: Offsets) -> IcebergSnapshot:
        columns = to_iceberg(schema)
        partitioning = self._partitioning(about, columns)
        if self.open() is not None:
            raise ChangedMeanwhileError(f"there is a table {self.name} meanwhile")
        properties = {
            **_PROPERTIES,
            ABOUT: about.to_text(),
            OFFSETS: offsets_text(offsets),
            CREATED_MS: str(time.time_ns() // 1_000_000),
        }
        try:
            table = made_catalog(self.place).create_table(
                self.place.identifier,
                columns,
                location=self.place.location,
                partition_spec=partitioning,
                properties=properties,
            )
        except TableAlreadyExistsError as error:
            raise ChangedMeanwhileError(f"there is a table {self.name} meanwhile") from error
        except PipelineError:
            raise
        except Exception as error:
            raise self._cannot_make(error) from error
        return IcebergSnapshot(table, self.name)

    def check_place(self) -> None:
        """In a catalog of somebody else, who makes the folder is for that to say."""
        if not self.place.has_own_catalog:
            return
        check_folder(self.place)
        try:
            check_can_be_made(self.place.folder)
        except OSError as error:
            raise self._cannot_make(error) from error

    def _cannot_make(self, error: Exception) -> TableError:
        return TableError(f"cannot make the table {self.name}: {type(error).__name__}: {error}")

    def at(self, version: int) -> IcebergSnapshot:
        return IcebergSnapshot(self._existing(), self.name, version)

    def history(self, most: int | None = None) -> list[Commit]:
        metadata = self._existing().metadata
        return commits(metadata, metadata.current_snapshot(), self.name)[:most]

    def retain(self, since_ms: int, abandoned_before_ms: int, *, dry_run: bool = False) -> Removed:
        if self.open() is None:
            return Removed()
        return retain(self._existing, since_ms, abandoned_before_ms, dry_run=dry_run)

    def beside(self, suffix: str) -> IcebergStore:
        made = IcebergStore.__new__(IcebergStore)
        made._at(self.place.beside(suffix))
        return made

    def _table(self) -> Table | None:
        try:
            catalog = existing_catalog(self.place)
            table = None if catalog is None else catalog.load_table(self.place.identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        except PipelineError:
            raise
        except FileNotFoundError as error:
            raise TableError(
                f"the catalog knows the table {self.name}, but its metadata are not where it says: {error}"
            ) from error
        except Exception as error:
            raise TableError(f"cannot load the table {self.name}: {type(error).__name__}: {error}") from error
        if table is not None and self.place.has_own_catalog and ABOUT in table.properties:
            self._check_is_here(local_path(table.location()))
        return table

    def _check_is_here(self, folder: str) -> None:
        """Iceberg names files by whole paths. The catalog of a copy would have us write into the folder of the
        original, and take away there what only the original's catalog names."""
        try:
            is_here = os.path.samefile(folder, self.place.folder)
        except OSError:
            is_here = False
        if not is_here:
            raise ForeignTableError(
                f"the table {self.name} has its files in {folder}, by what its catalog {self.place.catalog_file} says: "
                "it was moved or copied, which an Iceberg table does not survive. Make another one here; nothing was "
                "touched"
            )

    def _existing(self) -> Table:
        table = self._table()
        if table is None:
            raise TableError(f"there is no table {self.name}")
        return table

    def _partitioning(self, about: About, columns: Schema) -> PartitionSpec:
        fields = []
        for number, name in enumerate(about.partition_by, _FIRST_PARTITION_ID):
            found = next((each for each in columns.fields if each.name == name), None)
            if found is None:
                raise TableError(f"the table {self.name} is to be partitioned by {name}, which is none of its columns")
            if not isinstance(found.field_type, PrimitiveType) or isinstance(found.field_type, _NO_PARTITIONS):
                raise TableError(f"the table {self.name} cannot be partitioned by {name}: it is {found.field_type}")
            fields.append(PartitionField(found.field_id, number, IdentityTransform(), name))
        return PartitionSpec(*fields)

    def _refuse_what_is_there(self) -> None:
        """What one leaves who died while making the table is no obstacle: metadata that no catalog knows, of a table
        that never had a commit."""
        folder = self.place.folder
        try:
            names = sorted(os.listdir(folder))
            if names == ["metadata"]:
                names = [each for each in os.listdir(folder / "metadata") if not _FIRST_METADATA.fullmatch(each)]
        except FileNotFoundError:
            return
        except NotADirectoryError:
            raise OccupiedTargetError(f"{folder} is not a folder; nothing there was touched") from None
        except OSError as error:
            raise TableError(f"cannot look into {folder}: {error}") from error
        if names:
            shown = ", ".join(names[:_SHOWN_NAMES]) + (", …" if len(names) > _SHOWN_NAMES else "")
            raise OccupiedTargetError(
                f"{folder} holds other data ({shown}), and no table that its catalog knows; nothing there was touched"
            )
