"""Small files of a table written together into few large ones, with the same rows in the same order."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from tailrace.spark.errors import TableError
from tailrace.spark.tables.store import DataFile, FileTarget
from tailrace.spark.tables.tasks.files import FileWriter, delete, row_groups
from tailrace.spark.tables.tasks.jobs import Failure, failure_in, run_tasks
from tailrace.spark.tables.tasks.reading import CODEC, COMPACT, TARGET_BYTES, TASKS_A_CORE, Told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_compact(
    spark: SparkSession,
    target: FileTarget,
    groups: Sequence[Sequence[DataFile]],
    told: Told | None = None,
    *,
    codec: str = CODEC,
    target_bytes: int = TARGET_BYTES,
) -> list[DataFile]:
    """The files that take the place of all in `groups`, of which each has one partition value. Rows stay in order."""
    work = partial(compact_group, target, codec, target_bytes)
    worth = -(-sum(file.size_bytes for group in groups for file in group) // TARGET_BYTES)
    slices = min(len(groups), max(TASKS_A_CORE * spark.sparkContext.defaultParallelism, worth))
    results = run_tasks(spark, COMPACT, work, groups, told, slices=slices)
    files = [file for each in results if not isinstance(each, Failure) for file in each]
    error = failure_in(results)
    if error is not None:
        delete(target, files)
        raise error
    return files


def compact_group(target: FileTarget, codec: str, target_bytes: int, files: Sequence[DataFile]) -> list[DataFile]:
    """Runs in a task."""
    partition = dict(files[0].partition)
    if any(dict(file.partition) != partition for file in files):
        raise TableError(f"files of several partition values cannot become one: {[file.path for file in files]}")
    with FileWriter(target, str(uuid.uuid4()), codec=codec, target_bytes=target_bytes) as writer:
        for rows in row_groups(target, files, target.schema):
            writer.write(rows, partition)
        return writer.close()
