"""Data files of ours as entries of Iceberg's manifests, and back.

Values of partition columns are text with us, and of the column's type in a manifest: dates as days, times as
microseconds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile as Entry
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from tailrace.spark.errors import TableError
from tailrace.spark.tables.durable import sync
from tailrace.spark.tables.iceberg.types import to_arrow_type
from tailrace.spark.tables.store import DataFile

_FILE: str = "file:"


def local_path(location: str) -> str:
    """Of a URI as Iceberg has them: nothing in it is escaped. TableError for one that is not local."""
    if location.startswith(_FILE):
        path = location.removeprefix(_FILE)
        return "/" + path.lstrip("/")
    if "://" in location:
        raise TableError(f"{location} is not in a local or shared folder")
    return location


class Entries:
    """Made for one commit: what all of its files need is worked out once."""

    def __init__(self, root: Path, metadata: TableMetadata) -> None:
        self._root = root
        self._schema: Schema = metadata.schema()
        self._spec: PartitionSpec = metadata.spec()
        self._plan = compute_statistics_plan(self._schema, metadata.properties)
        self._ids = parquet_path_to_id_mapping(self._schema)

    def new(self, file: DataFile) -> Entry:
        path = self._root / file.path
        try:
            statistics = data_file_statistics_from_parquet_metadata(
                parquet_metadata=file.footer or pq.read_metadata(path),
                stats_columns=self._plan,
                parquet_column_mapping=self._ids,
            )
        except KeyError as error:
            raise TableError(f"{path} has a column that the table does not have: {error}") from error
        except (OSError, pa.ArrowInvalid) as error:
            raise TableError(f"cannot read {path}, which a task wrote: {error}") from error
        entry = Entry.from_args(
            content=DataFileContent.DATA,
            file_path=f"file://{path}",
            file_format=FileFormat.PARQUET,
            partition=self._record(file.partition),
            file_size_in_bytes=file.size_bytes,
            sort_order_id=None,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )
        entry.spec_id = self._spec.spec_id
        return entry

    def _record(self, values: Mapping[str, str | None]) -> Record:
        found = []
        for each in self._spec.fields:
            column = self._schema.find_field(each.source_id)
            if column.name not in values:
                raise TableError(f"a file has no value of the partition column {column.name}")
            found.append(_from_text(values[column.name], to_arrow_type(column.field_type), column.name))
        return Record(*found)


def from_entry(entry: Entry, root: Path, spec: PartitionSpec, schema: Schema) -> DataFile:
    """Its path below the root; whole where somebody else put it elsewhere."""
    path = local_path(entry.file_path)
    inside = f"{root}/"
    partition: dict[str, str | None] = {}
    for position, each in enumerate(spec.fields):
        if not isinstance(each.transform, IdentityTransform):
            continue
        column = schema.find_field(each.source_id)
        partition[column.name] = _to_text(entry.partition[position], to_arrow_type(column.field_type))
    return DataFile(path.removeprefix(inside), partition, entry.record_count, entry.file_size_in_bytes)


def make_last(root: Path, files: Iterable[DataFile]) -> None:
    """Their names survive a crash before the commit that names them does; what is in them was synced by the tasks."""
    folders: set[Path] = set()
    for each in files:
        path = root / each.path
        try:
            size_bytes = os.stat(path).st_size
        except OSError as error:
            raise TableError(f"{path}, which a task wrote, cannot be seen here: {error}") from error
        if size_bytes != each.size_bytes:
            raise TableError(f"{path} has {size_bytes} bytes, and had {each.size_bytes} when it was written")
        folder = path.parent
        while folder not in folders and folder.is_relative_to(root.parent):
            folders.add(folder)
            folder = folder.parent
    try:
        for folder in sorted(folders, reverse=True):
            sync(folder)
    except OSError as error:
        raise TableError(f"cannot sync the folders of {root}: {error}") from error


def _from_text(text: str | None, kind: pa.DataType, column: str) -> Any:
    if text is None:
        return None
    try:
        if pa.types.is_timestamp(kind):
            return _micros(text, kind)
        value = pa.scalar(text).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise TableError(f"{text!r} is no value of the partition column {column}, which is {kind}") from error
    if pa.types.is_date(kind):
        return value.cast(pa.int32()).as_py()
    return value.cast(pa.int64()).as_py() if pa.types.is_time(kind) else value.as_py()


def _micros(text: str, kind: pa.DataType) -> Any:
    try:
        return pa.scalar(text).cast(kind).value
    except pa.ArrowInvalid:
        # With or without a zone, as somebody wrote it: both are UTC here.
        other = pa.timestamp("us") if kind.tz else pa.timestamp("us", "UTC")
        return pa.scalar(text).cast(other).value


def _to_text(value: Any, kind: pa.DataType) -> str | None:
    if value is None:
        return None
    if isinstance(value, int) and (pa.types.is_timestamp(kind) or pa.types.is_time(kind)):
        scalar = pa.scalar(value, pa.int64()).cast(kind)
    elif isinstance(value, int) and pa.types.is_date(kind):
        scalar = pa.scalar(value, pa.int32()).cast(kind)
    else:
        scalar = pa.scalar(value, kind)
    text: str = scalar.cast(pa.string()).as_py()
    return text
