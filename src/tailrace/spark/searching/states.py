"""Of records that were read whatever became of them: which readers of committed records would see.

Their offsets are read once more as such a reader reads them. What lies behind the last stable offset is open, what is
not there before it was aborted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from tailrace.client.offsets import READ_COMMITTED
from tailrace.model.ids import TopicPartition
from tailrace.spark.options.source import SourceOptions
from tailrace.spark.searching.found import ABORTED, COMMITTED, OPEN, Found
from tailrace.spark.source import columns as names
from tailrace.spark.source.columns import Columns
from tailrace.spark.source.origin import OpenOrigin
from tailrace.spark.source.piece_reader import Piece, read_piece
from tailrace.spark.source.ranges import OffsetRange
from tailrace.spark.tables.tasks.jobs import Failure, failure_in, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEP: Final = "states"
OFFSETS_ONLY: Final = Columns((names.OFFSET,))
FAR: Final = 1_000
"""Offsets farther from each other than this are read apart."""


@dataclass(frozen=True)
class Asked:
    """The offsets of one partition, ascending, all below its last stable one."""

    partition: TopicPartition
    topic_id: str | None
    offsets: tuple[int, ...]


def with_states(
    spark: SparkSession,
    options: SourceOptions,
    ids: Mapping[TopicPartition, str | None],
    found: Sequence[Found],
) -> list[Found]:
    """`options` are those that it was read with; `ids` are of the partitions that were read."""
    committed = replace(options, isolation=READ_COMMITTED)
    partitions = sorted({partition_of(each) for each in found})
    with OpenOrigin(committed) as origin:
        bounds = origin.bounds(partitions) if partitions else {}
    asked = []
    for partition in partitions:
        wanted = sorted(each.offset for each in found if partition_of(each) == partition)
        below = tuple(offset for offset in wanted if offset < bounds[partition].end)
        if below:
            asked.append(Asked(partition, ids.get(partition), below))
    results = run_tasks(spark, STEP, partial(committed_offsets, committed), asked, None)
    error = failure_in(results)
    if error is not None:
        raise error
    seen = {
        (each.partition, offset)
        for each, offsets in zip(asked, results, strict=True)
        if not isinstance(offsets, Failure)
        for offset in offsets
    }
    return [replace(each, state=_state(each, bounds[partition_of(each)].end, seen)) for each in found]


def _state(found: Found, stable_end: int, seen: set[tuple[TopicPartition, int]]) -> str:
    if found.offset >= stable_end:
        return OPEN
    return COMMITTED if (partition_of(found), found.offset) in seen else ABORTED


def partition_of(found: Found) -> TopicPartition:
    return TopicPartition(found.topic, found.partition)


def committed_offsets(options: SourceOptions, asked: Asked) -> list[int]:
    """Runs in a task: those that a reader of committed records sees."""
    wanted = set(asked.offsets)
    seen: list[int] = []
    for start, end in stretches(asked.offsets):
        piece = Piece(OffsetRange(asked.partition, start, end, asked.topic_id))
        for records in read_piece(options, OFFSETS_ONLY, piece):
            seen += [offset for offset in records.column(0).to_pylist() if offset in wanted]
    return seen


def stretches(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """[start, end) around offsets that are near each other."""
    start = last = offsets[0]
    for offset in offsets[1:]:
        if offset - last > FAR:
            yield start, last + 1
            start = offset
        last = offset
    yield start, last + 1
