"""The store of each format of tables. What a format needs is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping

from tailrace.spark.errors import OptionError
from tailrace.spark.options.closest import closest
from tailrace.spark.tables.job.settings import DELTA, FORMATS, ICEBERG, PARQUET
from tailrace.spark.tables.store import Store


def store_at(place: str, kind: str, catalog: Mapping[str, str] | None = None) -> Store:
    """Nothing is read or made yet. OptionError for a format that is none, or a place that cannot hold a table."""
    if catalog and kind != ICEBERG:
        raise OptionError(f"a catalog goes with format {ICEBERG}: a table of format {kind} is a folder")
    if kind == PARQUET:
        from tailrace.spark.tables.parquet.store import ParquetStore

        return ParquetStore(place)
    if kind == DELTA:
        from tailrace.spark.tables.delta.store import DeltaStore

        return DeltaStore(place)
    if kind == ICEBERG:
        from tailrace.spark.tables.iceberg.store import IcebergStore

        return IcebergStore(place, dict(catalog or {}))
    raise OptionError(f"format is {kind!r}: it must be one of {', '.join(FORMATS)}{closest(kind, FORMATS)}")
