"""Rows into Parquet files of a table that nobody sees yet.

A file is whole, on disk and under its name before it is told of: what a commit names survives a power cut. Until then
it is in the table's staging folder, where it has one. Each begins where the one before has got large enough.

Rows of several partition values are kept apart, and wait in memory until there are enough of one for a row group. When
all that wait are too many, the value with the most goes first; so a task may have any number of values.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.spark.errors import TableError
from tailrace.spark.tables.durable import sync
from tailrace.spark.tables.store import DataFile, FileTarget
from tailrace.spark.tables.tasks.conform import conform
from tailrace.spark.tables.tasks.output_file import OutputFile, encodings_of
from tailrace.spark.tables.tasks.partitions import Partition, split
from tailrace.spark.tables.tasks.reading import CODEC, TARGET_BYTES, Reading

GROUP_BYTES: Final = 32 << 20
"""Of a row group, as Arrow has it."""
GROUP_ROWS: Final = 1 << 20
WAITING_BYTES: Final = 128 << 20
"""Of all rows that are not written yet."""
MOST_OPEN: Final = 64

_HOPELESS: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM))


class FileWriter:
    """Of one task, for one table. What was written and not closed at the end of its block is taken away."""

    def __init__(self, target: FileTarget, name: str, *, codec: str = CODEC, target_bytes: int = TARGET_BYTES) -> None:
        """Files are named `name`, with a number behind it: nobody else may have it."""
        self._target = target
        self._name = name
        self._codec = codec
        self._target_bytes = target_bytes
        self._parts: dict[tuple[tuple[str, str | None], ...], _Part] = {}
        """By partition values, not by folders: null and some texts have the same one."""
        self._waiting_bytes = 0
        self._number = 0
        self._done: list[OutputFile] = []
        self._is_closed = False
        self._encodings = encodings_of(target)

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_closed:
            self.abandon()

    def write(self, rows: pa.RecordBatch, partition: Partition | None = None) -> None:
        """Rows with all of the table's columns by their names, or all that are of one partition value."""
        if rows.num_rows == 0:
            return
        if partition is not None:
            self._add(partition, rows)
            return
        for value, some in split(rows, self._target.partition_by):
            self._add(value, some)

    def close(self) -> list[DataFile]:
        """In the order in which they were begun. They are on disk, with the folders they are in."""
        for part in self._parts.values():
            self._flush(part)
            self._finish(part)
        self._parts.clear()
        self._done.sort(key=lambda file: file.number)
        with refusing(self._target.root):
            for folder in sorted({folder for file in self._done for folder in file.folders()}):
                sync(folder)
        self._is_closed = True
        return [file.data_file() for file in self._done]

    def abandon(self) -> None:
        for part in self._parts.values():
            if part.file is not None:
                part.file.abandon()
        for file in self._done:
            file.abandon()

    def _add(self, partition: Partition, rows: pa.RecordBatch) -> None:
        values = tuple(partition.items())
        part = self._parts.get(values)
        if part is None:
            part = self._parts[values] = _Part(partition)
        for some in _groups(conform(rows, self._target.schema)):
            self._waiting_bytes += part.add(some)
            if part.is_full():
                self._flush(part)
        while self._waiting_bytes > WAITING_BYTES:
            self._flush(max(self._parts.values(), key=lambda each: each.waiting_bytes))

    def _flush(self, part: _Part) -> None:
        """One row group of what waits."""
        if not part.waiting:
            return
        with refusing(self._target.root):
            if part.file is None:
                self._make_room()
                name = f"{self._name}-{self._number:05d}.parquet"
                part.file = OutputFile(self._target, part.partition, name, self._number, self._codec, self._encodings)
                self._number += 1
            part.file.write(part.waiting)
        self._waiting_bytes -= part.waiting_bytes
        part.clear()
        if part.file.size_bytes() >= self._target_bytes:
            self._finish(part)

    def _make_room(self) -> None:
        """For one more open file."""
        opened = [each for each in self._parts.values() if each.file is not None]
        if len(opened) >= MOST_OPEN:
            self._finish(min(opened, key=lambda each: each.file.number if each.file is not None else 0))

    def _finish(self, part: _Part) -> None:
        if part.file is not None:
            self._done.append(part.file)
            file, part.file = part.file, None
            with refusing(self._target.root):
                file.finish()


class _Part:
    """What goes into files of one partition value."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.file: OutputFile | None = None
        self.clear()

    def clear(self) -> None:
        self.waiting: list[pa.RecordBatch] = []
        self.waiting_rows = 0
        self.waiting_bytes = 0

    def add(self, rows: pa.RecordBatch) -> int:
        """Its bytes."""
        size: int = rows.nbytes
        self.waiting.append(rows)
        self.waiting_rows += rows.num_rows
        self.waiting_bytes += size
        return size

    def is_full(self) -> bool:
        return self.waiting_bytes >= GROUP_BYTES or self.waiting_rows >= GROUP_ROWS


def _groups(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """In parts that are about as large as a row group at most."""
    each = min(rows.num_rows * GROUP_BYTES // max(rows.nbytes, 1), GROUP_ROWS)
    for start in range(0, rows.num_rows, max(each, 1)):
        yield rows.slice(start, max(each, 1))


def new_writer(reading: Reading, target: FileTarget) -> FileWriter:
    """With a name that nobody has."""
    return FileWriter(target, str(uuid.uuid4()), codec=reading.codec, target_bytes=reading.target_bytes)


def check_columns(columns: Iterable[str], target: FileTarget) -> None:
    """TableError for one that the table has no place for: it would be lost without a word."""
    lost = set(columns) - {*target.schema.names, *target.partition_by}
    if lost:
        raise TableError(f"the table at {target.root} has no column {', '.join(sorted(lost))}")


def delete(target: FileTarget, files: Iterable[DataFile]) -> None:
    """Files that will not be committed. Those that cannot be deleted are left for who takes abandoned ones away."""
    for file in files:
        with suppress(OSError):
            os.unlink(os.path.join(target.root, file.path))


def row_groups(target: FileTarget, files: Iterable[DataFile], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of files that are in the table, with the columns of `schema`, nulls where a file has none."""
    for file in files:
        path = os.path.join(target.root, file.path)
        try:
            with pq.ParquetFile(path) as opened:
                wanted = [name for name in opened.schema_arrow.names if name in schema.names]
                for number in range(opened.num_row_groups):
                    table = opened.read_row_group(number, wanted, use_threads=False)
                    for batch in table.to_batches():
                        yield conform(batch, schema)
        except FileNotFoundError as error:
            raise TableError(f"{path} is in the table, and is not there") from error
        except pa.ArrowInvalid as error:
            raise TableError(f"{path} cannot be read: {error}") from error


@contextmanager
def refusing(root: str) -> Iterator[None]:
    """TableError for a fault that is the same the next time, as a disk that is full."""
    try:
        yield
    except OSError as error:
        if error.errno in _HOPELESS:
            raise TableError(f"files of the table at {root} cannot be written: {os.strerror(error.errno)}") from error
        raise
