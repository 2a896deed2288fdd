"""Records of a batch into files of an append table: a row for each record, in the order of offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tailrace.spark.source.piece_reader import Piece, read_piece
from tailrace.spark.source.ranges import OffsetRange
from tailrace.spark.tables.store import DataFile, FileTarget
from tailrace.spark.tables.tasks.files import check_columns, delete, new_writer
from tailrace.spark.tables.tasks.jobs import Failure, failure_in, run_tasks
from tailrace.spark.tables.tasks.reading import READ, Reading, Told, tasks_for
from tailrace.spark.tables.tasks.rows import READ_COLUMNS, RowMaker
from tailrace.spark.tables.values.plan import Discovered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class AppendDone:
    """What is to be committed."""

    adds: list[DataFile]
    dead_adds: list[DataFile]
    rows: int
    dead_rows: int
    read_bytes: int
    """Of keys, values and headers."""
    discovered: list[Discovered]
    """If there is anything here, the plan has to grow and the batch to be done again; nothing else is given then."""


def run_append(
    spark: SparkSession, reading: Reading, target: FileTarget, pieces: Sequence[OffsetRange], told: Told | None = None
) -> AppendDone:
    """Each piece by one task. Raises the error that a task met on purpose, with nothing left to commit."""
    check_columns([field.name for field in reading.plan.fields], target)
    offsets, slices = sum(piece.size for piece in pieces), tasks_for(pieces)
    work = partial(append_piece, reading, target)
    results = run_tasks(spark, READ, work, pieces, told, offsets, slices=slices)
    parts = [each for each in results if not isinstance(each, Failure)]
    done = AppendDone(
        adds=[file for part in parts for file in part.adds],
        dead_adds=[file for part in parts for file in part.dead_adds],
        rows=sum(part.rows for part in parts),
        dead_rows=sum(part.dead_rows for part in parts),
        read_bytes=sum(part.read_bytes for part in parts),
        discovered=[found for part in parts for found in part.discovered],
    )
    error = failure_in(results)
    if error is None and not done.discovered:
        return done
    delete(target, done.adds)
    delete(reading.dead, done.dead_adds)
    if error is not None:
        raise error
    return AppendDone([], [], 0, 0, 0, done.discovered)


def append_piece(reading: Reading, target: FileTarget, piece: OffsetRange) -> AppendDone:
    """Runs in a task: what it did of the batch."""
    rows = dead_rows = read_bytes = 0
    maker = RowMaker(reading, target.partition_by, only_in_folders=not target.holds_partition_columns)
    discovered: list[Discovered] = []
    with new_writer(reading, target) as writer, new_writer(reading, reading.dead) as dead:
        for records in read_piece(reading.options, READ_COLUMNS, Piece(piece)):
            made = maker.make(records)
            read_bytes += made.read_bytes
            if made.discovered:
                discovered.append(made.discovered)
            if discovered:  # there may be more to discover, but no row of this try will be seen
                continue
            writer.write(made.good)
            rows += made.good.num_rows
            if made.dead is not None:
                dead.write(made.dead)
                dead_rows += made.dead.num_rows
        if discovered:
            return AppendDone([], [], 0, 0, read_bytes, discovered)
        return AppendDone(writer.close(), dead.close(), rows, dead_rows, read_bytes, [])
