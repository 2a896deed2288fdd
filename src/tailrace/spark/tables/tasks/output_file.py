"""A Parquet file that a task writes: in staging until it is whole, then in its place, and on disk.

Offsets and times are written as differences, and keys of a table that has each once without a dictionary: that is
smaller, and takes two thirds of the time. All else is as Arrow does it. Arrow's own schema stays out: a file says what
Parquet can say, and nothing more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailrace.spark.tables import columns as names
from tailrace.spark.tables.durable import sync
from tailrace.spark.tables.store import DataFile, FileTarget
from tailrace.spark.tables.tasks.partitions import Partition, folder_of

_AS_DIFFERENCES: Final = (names.OFFSET, names.TIMESTAMP)


@dataclass(frozen=True)
class Encodings:
    with_dictionary: list[str]
    """Paths of columns, nested ones with dots."""
    of_others: dict[str, str]


def encodings_of(target: FileTarget) -> Encodings:
    differences = [name for name in _AS_DIFFERENCES if name in target.schema.names]
    plain = [names.KEY] if names.BUCKET in target.partition_by else []
    paths = [path for path in _paths(target.schema) if path not in (*differences, *plain)]
    return Encodings(paths, dict.fromkeys(differences, "DELTA_BINARY_PACKED"))


class OutputFile:
    """Is written, and then finished or abandoned."""

    def __init__(
        self, target: FileTarget, partition: Partition, name: str, number: int, codec: str, encodings: Encodings
    ) -> None:
        self.number = number
        """In the order of one task's files."""
        self._root = target.root
        self._partition = partition
        self._path = "/".join(filter(None, (folder_of(partition), name)))
        self._place = os.path.join(self._root, self._path)
        self._writing_at = self._place if target.staging is None else os.path.join(self._root, target.staging, name)
        os.makedirs(os.path.dirname(self._writing_at), exist_ok=True)
        self._schema = target.schema
        self._size_bytes = 0
        self._footers: list[pq.FileMetaData] = []
        self._has_nan = False
        self._sink = pa.OSFile(self._writing_at, "wb")
        self._writer = pq.ParquetWriter(
            self._sink,
            target.schema,
            compression=codec,
            use_dictionary=encodings.with_dictionary,
            column_encoding=encodings.of_others or None,
            store_schema=False,
            metadata_collector=self._footers,
        )

    def write(self, rows: list[pa.RecordBatch]) -> None:
        """One row group."""
        table = pa.Table.from_batches(rows, self._schema)
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._has_nan = self._has_nan or any(_has_nan(column) for column in table.columns)

    def size_bytes(self) -> int:
        """So far."""
        size: int = self._sink.tell()
        return size

    def finish(self) -> None:
        """Then it is whole, and in its place. Its folders are for the caller to sync."""
        self._writer.close()
        self._size_bytes = self.size_bytes()
        self._sink.close()
        sync(self._writing_at)
        if self._writing_at != self._place:
            os.makedirs(os.path.dirname(self._place), exist_ok=True)
            os.rename(self._writing_at, self._place)

    def abandon(self) -> None:
        # What failed already is what is told. One whose close has failed says RuntimeError: it has no footer to give.
        with suppress(OSError, pa.ArrowException, ValueError, RuntimeError):
            self._writer.close()
        self._writer.is_open = False  # else it is closed again when it is collected
        with suppress(OSError, pa.ArrowException):
            self._sink.close()
        for path in {self._writing_at, self._place}:
            with suppress(OSError):
                os.unlink(path)

    def folders(self) -> Iterator[str]:
        """All that it is in, from the table's root on."""
        folder = self._root
        yield folder
        for name in self._path.split("/")[:-1]:
            folder = os.path.join(folder, name)
            yield folder

    def data_file(self) -> DataFile:
        """Of one that is finished."""
        (footer,) = self._footers
        return DataFile(self._path, self._partition, footer.num_rows, self._size_bytes, footer, self._has_nan)


def _has_nan(column: pa.ChunkedArray) -> bool:
    """In a column that has one number in a row, which is what statistics are of."""
    if pa.types.is_struct(column.type):
        return any(_has_nan(field) for field in column.flatten())
    return pa.types.is_floating(column.type) and bool(pc.any(pc.is_nan(column)).as_py())


def _paths(schema: pa.Schema) -> list[str]:
    """Of all columns as Parquet has them: only an empty file tells."""
    footers: list[pq.FileMetaData] = []
    with pq.ParquetWriter(pa.BufferOutputStream(), schema, store_schema=False, metadata_collector=footers):
        pass
    found = footers[0].schema
    return [found.column(number).path for number in range(len(found))]
