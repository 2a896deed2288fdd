"""The rows of a table as others read it: the manifest and pyarrow, deltalake, or pyiceberg. None of our code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

DEAD_LETTERS = "_dead_letters"


def rows_at(kind: str, place: Path) -> Iterator[dict[str, Any]]:
    """Of the newest version; none where there is no table."""
    return {"parquet": parquet_rows, "delta": delta_rows, "iceberg": iceberg_rows}[kind](place)


def dead_letters_at(kind: str, place: Path) -> Iterator[dict[str, Any]]:
    return rows_at(kind, place.with_name(place.name + DEAD_LETTERS))


def parquet_files(place: Path) -> list[Path]:
    """That the newest manifest names."""
    manifest = max((place / "_tailrace").glob("*.json"))
    return [place / each["path"] for each in json.loads(manifest.read_bytes())["files"]]


def parquet_rows(place: Path) -> Iterator[dict[str, Any]]:
    for path in parquet_files(place):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches():
                yield from batch.to_pylist()


def delta_rows(place: Path) -> Iterator[dict[str, Any]]:
    from deltalake import DeltaTable

    for batch in DeltaTable(str(place)).to_pyarrow_dataset().to_batches():
        yield from batch.to_pylist()


def iceberg_rows(place: Path) -> Iterator[dict[str, Any]]:
    from pyiceberg.catalog.sql import SqlCatalog

    folder = place.parent
    catalog = SqlCatalog("default", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder.as_uri())
    try:
        table = catalog.load_table(f"default.{place.name}")
        for batch in table.scan().to_arrow_batch_reader():
            yield from batch.to_pylist()
    finally:
        catalog.close()
