"""Records of many folders as rows for Spark: which folder, key, offset, value.

Tasks read stretches of offsets as the files source does, so that segments that are swapped or rolled meanwhile do no
harm; aborted records are left out. What cannot be read is a row too, a hole: whoever concludes something from a record
that is not there asks whether it would have been in one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tailrace.client.offsets import READ_COMMITTED
from tailrace.env import Files
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.model.noop import noop
from tailrace.spark.auditing.job.places import Folder
from tailrace.spark.auditing.job.planning import packed
from tailrace.spark.options.source import SourceOptions
from tailrace.spark.options.subscription import Topics
from tailrace.spark.source.columns import KEY, OFFSET, VALUE, Columns
from tailrace.spark.source.decoding import Decoder
from tailrace.spark.source.files.reader import read_files
from tailrace.spark.source.loss import LossPolicy
from tailrace.spark.source.ranges import OffsetRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TARGET_BYTES: Final = 64 << 20
ROWS_DDL: Final = "place int, is_hole boolean, offset bigint, behind bigint, key binary, value binary"

_SCHEMA: Final = pa.schema(
    [
        pa.field("place", pa.int32()),
        pa.field("is_hole", pa.bool_()),
        pa.field("offset", pa.int64()),
        pa.field("behind", pa.int64()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)


@dataclass(frozen=True)
class Stretch:
    """The offsets from `start` to just before `end` of a folder. Goes to executors."""

    place: int
    """Which folder it is, to whoever asked."""
    folder: str
    partition: TopicPartition
    topic_id: str | None
    start: int
    end: int
    size: int
    """About how many bytes of log that is."""


def stretches(place: int, folder: Folder, start: int, end: int, target_bytes: int = TARGET_BYTES) -> list[Stretch]:
    """[start, end) segment by segment; large ones in parts of about `target_bytes`, if offsets are spread evenly."""
    found = []
    for segment in folder.segments:
        first = max(segment.base_offset, start)
        behind = end if segment.next_base is None else min(segment.next_base, end)
        if first >= behind:
            continue
        parts = min(max(segment.size // target_bytes, 1), behind - first)
        bounds = [first + (behind - first) * part // parts for part in range(parts + 1)]
        found += [
            Stretch(place, folder.path, folder.partition, folder.topic_id, *between, segment.size // parts)
            for between in pairwise(bounds)
        ]
    return found


def rows_of(spark: SparkSession, parts: Sequence[Stretch], *, has_values: bool) -> DataFrame:
    """Columns of `ROWS_DDL`. Values are null unless they are asked for."""
    tasks = packed([(part, part.size) for part in parts], spark.sparkContext.defaultParallelism)
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    return numbers.mapInArrow(partial(_read_all, tasks, has_values), ROWS_DDL)


def _read_all(
    tasks: Sequence[Sequence[Stretch]], has_values: bool, numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            for part in tasks[number]:
                yield from read_stretch(part, has_values=has_values)


def read_stretch(part: Stretch, *, has_values: bool, files: Files | None = None) -> Iterator[pa.RecordBatch]:
    """Runs in a task. Whatever the files are like, there are rows and no error."""
    names = (OFFSET, KEY, VALUE) if has_values else (OFFSET, KEY)
    piece = OffsetRange(part.partition, part.start, part.end, part.topic_id)
    options = SourceOptions(
        subscription=Topics((part.partition.topic,)),
        path=part.folder,
        isolation=READ_COMMITTED,
        fail_on_data_loss=False,
        skip_corrupt=True,
    )
    holes: list[tuple[int, int]] = []
    decoder = Decoder(
        Columns(names), piece, skips_corrupt=True, on_corrupt=lambda first, behind, _: holes.append((first, behind))
    )
    try:
        for batch in read_files(options, piece, decoder, _Silent(fails=False), files=files, pause=noop):
            yield _rows(part.place, batch)
        for batch in decoder.rest():
            yield _rows(part.place, batch)
    except (TailraceError, OSError):  # gone, unreadable, or another file each time: the other rules say so
        holes.append((part.start, part.end))
    if holes:
        yield _hole_rows(part.place, holes)


class _Silent(LossPolicy):
    """Gaps are found by other rules."""

    def lost(self, partition: TopicPartition, start: int, end: int | None, why: str) -> None:
        pass


def _rows(place: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    count = batch.num_rows
    values = batch.column(VALUE) if VALUE in batch.schema.names else pa.nulls(count, pa.binary())
    columns = [
        pa.repeat(pa.scalar(place, pa.int32()), count),
        pa.repeat(pa.scalar(False), count),
        batch.column(OFFSET),
        pa.nulls(count, pa.int64()),
        batch.column(KEY),
        values,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _hole_rows(place: int, holes: Sequence[tuple[int, int]]) -> pa.RecordBatch:
    rows = [(place, True, first, behind, None, None) for first, behind in holes]
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), _SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
