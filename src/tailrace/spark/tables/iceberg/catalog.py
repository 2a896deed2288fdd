"""The catalog of a table: opened, looked into, and made where it is our own."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError
from pyiceberg.table import StagedTable, Table
from pyiceberg.table.update import RemoveSnapshotsUpdate, SetSnapshotRefUpdate, TableRequirement, TableUpdate
from pyiceberg.typedef import Identifier
from pyiceberg.utils.config import Config
from sqlalchemy import create_engine, inspect
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from tailrace.spark.errors import OccupiedTargetError, OptionError, TableError
from tailrace.spark.tables.durable import check_can_be_made, make_folder
from tailrace.spark.tables.iceberg.durable_io import DurableFileIO
from tailrace.spark.tables.iceberg.place import IcebergPlace

FILE_IO: Final = f"{DurableFileIO.__module__}.{DurableFileIO.__qualname__}"
_LOCK_WAIT_S: Final = 60
_TABLES: Final = "iceberg_tables"


class OwnCatalog(SqlCatalog):
    """Commits without copying what they do not touch.

    pyiceberg copies all of the metadata for each commit. A table that is written to every few seconds has tens of
    thousands of snapshots: they are left out of it, and put back in front of the new one.
    """

    def _update_and_stage_table(
        self,
        current_table: Table | None,
        table_identifier: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        if current_table is None or any(isinstance(each, RemoveSnapshotsUpdate) for each in updates):
            return super()._update_and_stage_table(current_table, table_identifier, requirements, updates)
        whole = current_table.metadata
        needed = {each.snapshot_id for each in whole.refs.values()}
        needed |= {each.snapshot_id for each in updates if isinstance(each, SetSnapshotRefUpdate)}
        few = [each for each in whole.snapshots if each.snapshot_id in needed]
        handle = Table(
            current_table.name(),
            whole.model_copy(update={"snapshots": few, "snapshot_log": []}),
            current_table.metadata_location,
            current_table.io,
            self,
            current_table.config,
        )
        staged = super()._update_and_stage_table(handle, table_identifier, requirements, updates)
        made = staged.metadata
        known = {each.snapshot_id for each in few}
        new = [each for each in made.snapshots if each.snapshot_id not in known]
        update = {
            "snapshots": [*whole.snapshots, *new],
            "snapshot_log": [*whole.snapshot_log, *made.snapshot_log],
        }
        return StagedTable(
            table_identifier, made.model_copy(update=update), staged.metadata_location, staged.io, staged.catalog
        )


def existing_catalog(place: IcebergPlace) -> Catalog | None:
    """None where it is our own, or another one in a database, and not made yet. Nothing is written."""
    if place.has_own_catalog:
        return _own(place) if _is_made(place) else None
    if _is_missing_file(place):
        return None
    catalog = _load(place, {"init_catalog_tables": "false"})
    return None if isinstance(catalog, SqlCatalog) and not _has_tables(catalog) else catalog


def made_catalog(place: IcebergPlace) -> Catalog:
    """With the namespace of the table."""
    if place.has_own_catalog:
        if not _is_made(place):
            with _making(place.catalog_file.parent) as folder:
                make_folder(folder)
        catalog = _own(place)
    else:
        catalog = _load(place)
    namespace = place.identifier[:-1]
    # Two who make it at once: either may be told that it is there.
    with contextlib.suppress(NamespaceAlreadyExistsError, IntegrityError):
        catalog.create_namespace(namespace)
    return catalog


def check_folder(place: IcebergPlace) -> None:
    """TableError where our own catalog could not be made. Nothing is left behind."""
    with _making(place.catalog_file.parent) as folder:
        check_can_be_made(folder)


@contextlib.contextmanager
def _making(folder: Path) -> Iterator[Path]:
    try:
        yield folder
    except OSError as error:
        raise TableError(f"cannot make the folder {folder}: {error}") from error


def _own(place: IcebergPlace) -> Catalog:
    uri = URL.create("sqlite", database=str(place.catalog_file), query={"timeout": str(_LOCK_WAIT_S)})
    text = uri.render_as_string(hide_password=False)
    settings: dict[str, str] = {
        "uri": text,
        "warehouse": f"file://{place.catalog_file.parent}",
        "py-io-impl": FILE_IO,
    }
    try:
        catalog = OwnCatalog(place.catalog_name, **settings)
    except OperationalError:
        # Somebody else made its tables at the same moment.
        catalog = OwnCatalog(place.catalog_name, **settings)
    catalog.engine.dispose()
    catalog.engine = create_engine(uri, poolclass=NullPool)  # no connection outlives what it was opened for
    return catalog


def _load(place: IcebergPlace, more: Mapping[str, str] = MappingProxyType({})) -> Catalog:
    settings = {"py-io-impl": FILE_IO, **place.catalog_settings, **more}
    try:
        return load_catalog(place.catalog_name, **settings)
    except ValueError as error:
        raise OptionError(f"cannot open the catalog {place.catalog_name}: {error}") from error
    except Exception as error:
        raise TableError(f"cannot open the catalog {place.catalog_name}: {type(error).__name__}: {error}") from error


def _is_missing_file(place: IcebergPlace) -> bool:
    """Of a catalog in SQLite: opening it would make it. One that is a URI of SQLite's own is not looked at."""
    settings = {**(Config().get_catalog_config(place.catalog_name) or {}), **place.catalog_settings}
    try:
        uri = make_url(str(settings.get("uri", "")))
    except ArgumentError:
        return False
    path = uri.database or ":memory:"
    return uri.get_backend_name() == "sqlite" and not path.startswith((":memory:", "file:")) and not Path(path).exists()


def _has_tables(catalog: SqlCatalog) -> bool:
    try:
        return inspect(catalog.engine).has_table(_TABLES)
    except SQLAlchemyError as error:
        raise TableError(f"cannot look into the catalog {catalog.name}: {error}") from error


def _is_made(place: IcebergPlace) -> bool:
    """Whether the file is a catalog; an empty one, of somebody who died early, is none yet."""
    path = place.catalog_file
    if not path.exists():
        return False
    try:
        # Not read-only: what a killed writer left half done has to be taken back first.
        link = sqlite3.connect(path.as_uri() + "?mode=rw", uri=True, timeout=_LOCK_WAIT_S)
        with contextlib.closing(link) as connection:
            found = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
    except sqlite3.OperationalError as error:
        raise TableError(f"cannot look into the catalog {path}: {error}") from error
    except sqlite3.Error as error:
        raise OccupiedTargetError(f"{path} is no catalog of Iceberg: {error}; nothing there was touched") from error
    if found and _TABLES not in found:
        raise OccupiedTargetError(f"{path} is a database of something else; nothing there was touched")
    return bool(found)
