"""A table that a topic became, as a DataFrame: Spark's Parquet reader over exactly the files of one version.

    from tailrace.spark import read_table

    read_table("/data/orders").groupBy("country").count().show()
    read_table("/data/orders", version=12)

Spark by itself reads neither Delta nor Iceberg, and of a folder of Parquet files it takes more than the table. Here it
is told which files there are, which columns they have (older files may lack some: null) and, where the files do not
hold them, the values of the partition columns.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

from tailrace.spark.errors import TableError
from tailrace.spark.tables.spark_types import spark_schema
from tailrace.spark.tables.store import DataFile, Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"
_PATTERN = re.compile(r"[][{}*?\\]")
"""What makes a pattern of a name, for Spark: it is told names."""
_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")


def read_table(
    place: str,
    *,
    format: str = "delta",  # noqa: A002  # as Spark calls it
    version: int | None = None,
    catalog: Mapping[str, str] | None = None,
    session: SparkSession | None = None,
) -> DataFrame:
    """The table at `place` as its newest commit left it, or as `version` was.

    `catalog` are the options of an Iceberg table's catalog, as `table()` took them. The frame is of that one version:
    it stays the same however often it is used, for as long as the version is retained.
    """
    from tailrace.spark.spark_session import session as default_session
    from tailrace.spark.tables.store_at import store_at

    store = store_at(place, format, catalog)
    snapshot = store.open() if version is None else store.at(version)
    if snapshot is None:
        raise TableError(f"there is no table at {store.name}")
    return frame_of(snapshot, session or default_session())


def frame_of(snapshot: Snapshot, spark: SparkSession) -> DataFrame:
    """The rows of a snapshot, its columns in their order."""
    schema = spark_schema(snapshot.schema)
    files = snapshot.files()
    target = snapshot.target()
    if not files:
        return spark.createDataFrame([], schema)
    if target.holds_partition_columns or not target.partition_by:
        frames = [_read(spark, schema, _paths(target.root, files))]
    else:
        frames = _with_values_of_folders(spark, schema, target.root, target.partition_by, files)
    columns = [_quoted(each) for each in schema.names]
    return reduce(lambda one, other: one.unionByName(other), [each.select(*columns) for each in frames])


def values_in_folders(path: str) -> dict[str, str | None]:
    """What Spark makes of the folders of a file: column → value. It takes each escaped byte for a character."""
    found: dict[str, str | None] = {}
    for folder in path.split("/")[:-1]:
        name, equals, value = folder.partition("=")
        if equals:
            found[_unescaped(name)] = None if value == NULL_FOLDER else _unescaped(value)
    return found


def _with_values_of_folders(
    spark: SparkSession, schema: StructType, root: str, partition_by: Sequence[str], files: Iterable[DataFile]
) -> list[DataFrame]:
    """Spark takes partition values from the names of folders. Where those say something else than the table, as they do
    of values with letters beyond ASCII, the values are put in as they are."""
    from pyspark.sql.functions import lit

    plain: list[DataFile] = []
    others: dict[tuple[str | None, ...], list[DataFile]] = {}
    for each in files:
        if values_in_folders(each.path) == each.partition and "" not in each.partition.values():
            plain.append(each)
        else:
            others.setdefault(tuple(each.partition.get(name) for name in partition_by), []).append(each)
    frames = [_read(spark, schema, _paths(root, plain), basePath=_uri(root))] if plain else []
    inside = type(schema)([each for each in schema if each.name not in partition_by])
    for values, group in others.items():
        frame = _read(spark, inside, _paths(root, group))
        typed = {name: lit(value).cast(schema[name].dataType) for name, value in zip(partition_by, values, strict=True)}
        frames.append(frame.withColumns(typed))
    return frames


def _read(spark: SparkSession, schema: StructType, paths: Sequence[str], **options: str) -> DataFrame:
    return spark.read.schema(schema).options(**options).parquet(*paths)


def _paths(root: str, files: Iterable[DataFile]) -> list[str]:
    return [_PATTERN.sub(r"\\\g<0>", _uri(os.path.join(root, each.path))) for each in files]


def _uri(path: str) -> str:
    """As Hadoop takes it, which decodes nothing. Without the scheme it would be of the cluster's own file system."""
    return f"file://{path}"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
