"""Iceberg tables to try things with: files as tasks write them, and what pyiceberg reads back."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from tailrace.spark.tables.iceberg.store import IcebergStore
from tailrace.spark.tables.store import About, Change, DataFile, FileTarget, Snapshot

SCHEMA = pa.schema([("_partition", pa.int32()), ("_offset", pa.int64()), ("text", pa.string()), ("_day", pa.date32())])
ABOUT = About("orders", "id-of-topic", "id-of-cluster", partition_by=("_day",), settings={"value": "json"})


def write_file(
    target: FileTarget, rows: Sequence[Mapping[str, Any]], partition: Mapping[str, str | None] | None = None
) -> DataFile:
    values = {} if partition is None else dict(partition)
    folders = [
        f"{name}={'__HIVE_DEFAULT_PARTITION__' if value is None else quote(value, safe='')}"
        for name, value in values.items()
    ]
    path = "/".join([*folders, f"{uuid.uuid4().hex}.parquet"])
    whole = Path(target.root) / path
    whole.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows), target.schema), whole)
    return DataFile(path, values, len(rows), whole.stat().st_size, pq.read_metadata(whole))


def row(offset: int, day: str = "2026-11-16", **values: Any) -> dict[str, Any]:
    moment = pa.scalar(day).cast(pa.date32()).as_py()
    return {"_partition": 0, "_offset": offset, "text": f"row {offset}", "_day": moment, **values}


def append(snapshot: Snapshot, first: int, end: int, day: str = "2026-11-16") -> Snapshot:
    file = write_file(snapshot.target(), [row(each, day) for each in range(first, end)], {"_day": day})
    return snapshot.commit(Change("append", {0: end}, [file], facts={"rows": end - first}))


def loaded(store: IcebergStore) -> Table:
    """By a catalog that somebody else opens."""
    folder = store.place.folder
    catalog = SqlCatalog("default", uri=f"sqlite:///{folder.parent}/catalog.db")
    try:
        return catalog.load_table(("default", folder.name))
    finally:
        catalog.close()


def offsets_in(store: IcebergStore) -> list[int]:
    return sorted(loaded(store).scan().to_arrow().column("_offset").to_pylist())
