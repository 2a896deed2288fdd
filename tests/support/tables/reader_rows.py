"""A table as each of those who read such tables sees it: rows that can be compared, whoever read them.

A field that is null is not there, and neither is what is empty: readers differ in how they show a list that an old file
does not have. Maps are dicts. Times are in UTC.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from support.tables.readers import iceberg_rows, parquet_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]


def sights(kind: str, place: Path, spark: SparkSession | None) -> dict[str, list[Row]]:
    """Reader → the rows it sees."""
    readers: dict[str, Callable[[], Iterable[Row]]] = {
        "parquet": {"DuckDB": lambda: _duckdb_files(place), "Polars": lambda: _polars_files(place)},
        "delta": {"DuckDB": lambda: _duckdb_delta(place), "Polars": lambda: _polars_delta(place)},
        "iceberg": {"pyiceberg": lambda: iceberg_rows(place)},
    }[kind]
    if spark is not None:
        readers["Spark"] = lambda: _spark(kind, place, spark)
    return {name: [_plain_row(row) for row in read()] for name, read in readers.items()}


def _duckdb_files(place: Path) -> list[Row]:
    """By DuckDB's own reader of Parquet, over the files that the manifest names."""
    import duckdb

    files = [str(each) for each in parquet_files(place)]
    with duckdb.connect() as connection:
        return _rows(connection.read_parquet(files, union_by_name=True).to_arrow_table())


def _polars_files(place: Path) -> list[Row]:
    import polars as pl

    return [row for file in parquet_files(place) for row in _rows(pl.read_parquet(file).to_arrow())]


def _duckdb_delta(place: Path) -> list[Row]:
    """Delta's own reader is an extension that has to be downloaded: the files, with the values of their folders."""
    import duckdb
    from deltalake import DeltaTable

    files = DeltaTable(str(place)).file_uris()
    with duckdb.connect() as connection:
        return _rows(connection.read_parquet(files, union_by_name=True, hive_partitioning=True).to_arrow_table())


def _polars_delta(place: Path) -> list[Row]:
    import polars as pl

    return _rows(pl.read_delta(str(place)).to_arrow())


def _spark(kind: str, place: Path, spark: SparkSession) -> list[Row]:
    from tailrace.spark import read_table

    return _rows(read_table(str(place), format=kind, session=spark).toArrow())


def _rows(table: pa.Table) -> list[Row]:
    found: list[Row] = table.to_pylist()
    return found


def _plain_row(row: Row) -> Row:
    plain = plain_value(row)
    assert isinstance(plain, dict)
    return plain


def plain_value(one: Any) -> Any:
    if isinstance(one, list) and one and all(isinstance(each, tuple) for each in one):
        one = dict(one)
    if isinstance(one, list) and one and all(isinstance(each, dict) and {*each} == {"key", "value"} for each in one):
        one = {each["key"]: each["value"] for each in one}
    if isinstance(one, dict):
        kept = {name: plain_value(each) for name, each in one.items()}
        return {name: each for name, each in kept.items() if each is not None} or None
    if isinstance(one, list | tuple):
        return [plain_value(each) for each in one] or None
    if isinstance(one, dt.datetime) and one.tzinfo is not None:
        return one.astimezone(dt.UTC)
    return one
