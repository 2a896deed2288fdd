"""A bucket of an upsert table, with what a batch has for it: read, decided about, and written anew.

Rows whose keys are not in the batch are copied, row group by row group, in their order; rows that the batch has decided
about come behind them. So a bucket costs what it takes to read and to write it, and memory for one row group and for
the batch.

Hidden rows are read first, and written only where some of them change. Files of the bucket's rows are written while
they are read, and taken away again where nothing of them changes, which is rare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.spark.errors import TableError
from tailrace.spark.tables import columns as names
from tailrace.spark.tables.store import DataFile, FileTarget
from tailrace.spark.tables.tasks.conform import conform, conform_table
from tailrace.spark.tables.tasks.deciding import decide
from tailrace.spark.tables.tasks.files import FileWriter, new_writer, row_groups
from tailrace.spark.tables.tasks.reading import Reading

MOST_BYTES: Final = (1 << 31) - 1
"""Of a column, in rows that are decided about together: Arrow has offsets of 32 bits for what is in one array."""


@dataclass(frozen=True)
class Bucketed:
    """A table that is partitioned by `_bucket`, as a snapshot has it."""

    target: FileTarget
    files: Mapping[int, Sequence[DataFile]]
    """Bucket → its files. Those without any need not be there."""


@dataclass(frozen=True)
class BucketMerged:
    """What such a task gives. Where a table changes, its new files take the place of all that the bucket has."""

    bucket: int
    adds: list[DataFile]
    hidden_adds: list[DataFile]
    changes_main: bool
    changes_hidden: bool
    upserted: int
    deleted: int


def merge_bucket(reading: Reading, main: Bucketed, hidden: Bucketed, bucket: int, batch: pa.Table) -> BucketMerged:
    """`batch` has rows of this bucket alone, with the columns of hidden rows but for the bucket."""
    schema = _all_columns(batch.schema, main.target.schema, hidden.target.schema)
    has_files = any(table.files.get(bucket) for table in (main, hidden))
    keys = pc.unique(batch.column(names.KEY).slice(0, None if has_files else 0))
    with new_writer(reading, main.target) as main_writer, new_writer(reading, hidden.target) as hidden_writer:
        of_hidden = [conform(ours, schema) for ours, _ in _parted(hidden, bucket, keys) if ours.num_rows]
        of_main = []
        for ours, others in _parted(main, bucket, keys):
            main_writer.write(others, partition_of(bucket))
            if ours.num_rows:
                of_main.append(conform(_not_deleted(ours), schema))
        tables = [pa.Table.from_batches(rows, schema) for rows in (of_main, of_hidden)]
        tables.append(conform_table(batch, schema))
        _check_fits(bucket, tables)
        decision = decide(*tables)
        adds = _closed(main_writer, bucket, decision.visible) if decision.changes_main else []
        hidden_adds: list[DataFile] = []
        if decision.changes_hidden:
            for _, others in _parted(hidden, bucket, keys):
                hidden_writer.write(others, partition_of(bucket))
            hidden_adds = _closed(hidden_writer, bucket, decision.hidden)
    return BucketMerged(
        bucket,
        adds,
        hidden_adds,
        decision.changes_main,
        decision.changes_hidden,
        decision.upserted,
        decision.deleted,
    )


def _check_fits(bucket: int, tables: Sequence[pa.Table]) -> None:
    """TableError for more than Arrow can sort: it would say something about offsets, and mean others than ours."""
    size = max(sum(table.column(name).nbytes for table in tables) for name in tables[0].column_names)
    if size > MOST_BYTES:
        raise TableError(
            f"a batch has {size / 1e9:,.1f} GB of one column for bucket {bucket}, with what the table has of the same "
            "keys, and a task merges 2 GB at most: take fewer records at once, by the option maxOffsetsPerTrigger, or "
            "make a table with more buckets"
        )


def partition_of(bucket: int) -> dict[str, str | None]:
    return {names.BUCKET: str(bucket)}


def _parted(
    table: Bucketed, bucket: int, keys: pa.Array | pa.ChunkedArray
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """What the table has in the bucket: rows of the keys, and all others. Without any of the keys the first is a
    slice that holds the memory of the others: whoever kept it would have the whole bucket in memory in the end."""
    target = table.target
    known = keys.cast(target.schema.field(names.KEY).type)
    for rows in row_groups(target, table.files.get(bucket, ()), target.schema):
        is_ours = pc.is_in(rows.column(names.KEY), value_set=known)
        if is_ours.true_count:
            yield rows.filter(is_ours), rows.filter(pc.invert(is_ours))
        else:
            yield rows.slice(0, 0), rows


def _closed(writer: FileWriter, bucket: int, rows: pa.Table) -> list[DataFile]:
    for batch in rows.to_batches():
        number = pa.repeat(pa.scalar(bucket, names.TYPES[names.BUCKET]), batch.num_rows)
        writer.write(batch.append_column(names.BUCKET, number), partition_of(bucket))
    return writer.close()


def _not_deleted(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.append_column(names.DELETED, pa.repeat(pa.scalar(False), rows.num_rows))


def _all_columns(batch: pa.Schema, *tables: pa.Schema) -> pa.Schema:
    """Those of the batch, and those that only tables have: their rows keep what they have there."""
    found = {field.name: field for field in batch}
    for table in tables:
        for field in table:
            if field.name != names.BUCKET:
                found.setdefault(field.name, field.remove_metadata())
    return pa.schema(list(found.values()))
