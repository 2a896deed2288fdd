"""Delta tables to try things with: files as tasks write them, and what deltalake reads back."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from tailrace.spark.tables.delta.store import DeltaStore
from tailrace.spark.tables.store import About, Change, DataFile, FileTarget, Snapshot

SCHEMA = pa.schema([("_partition", pa.int32()), ("_offset", pa.int64()), ("text", pa.string()), ("_day", pa.date32())])
ABOUT = About("orders", "id-of-topic", "id-of-cluster", partition_by=("_day",), settings={"value": "json"})
DAY = "2026-11-16"


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


def row(offset: int, **values: Any) -> dict[str, Any]:
    return {"_partition": 0, "_offset": offset, "text": f"row {offset}", **values}


def append(snapshot: Snapshot, first: int, end: int, day: str = DAY) -> Snapshot:
    file = write_file(snapshot.target(), [row(each) for each in range(first, end)], {"_day": day})
    return snapshot.commit(Change("append", {0: end}, [file], facts={"rows": end - first}))


def loaded(store: DeltaStore) -> DeltaTable:
    """As somebody else does it."""
    return DeltaTable(store.name)


def rows_in(store: DeltaStore) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = loaded(store).to_pyarrow_table().sort_by("_offset").to_pylist()
    return found


def offsets_in(store: DeltaStore) -> list[int]:
    return [each["_offset"] for each in rows_in(store)]


def day(text: str = DAY) -> date:
    return date.fromisoformat(text)
