"""Records of a batch merged into an upsert table: only buckets that have a key of the batch are written anew."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tailrace.spark.source.piece_reader import Piece, read_piece
from tailrace.spark.source.ranges import OffsetRange
from tailrace.spark.tables.store import DataFile
from tailrace.spark.tables.tasks.buckets import by_bucket, unpacked
from tailrace.spark.tables.tasks.deciding import newest_of_piece
from tailrace.spark.tables.tasks.files import check_columns, delete, new_writer
from tailrace.spark.tables.tasks.jobs import FINAL, Failure, failure_in, guarded, portable, watched
from tailrace.spark.tables.tasks.merging import Bucketed, BucketMerged, merge_bucket
from tailrace.spark.tables.tasks.reading import MERGE, READ, TASKS_A_CORE, Reading, Tally, Told, tasks_for
from tailrace.spark.tables.tasks.rows import READ_COLUMNS, RowMaker, keyed_schema
from tailrace.spark.tables.values.plan import Discovered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SENT_BYTES: Final = 32 << 20
"""Of rows in memory, before their newest are given to the shuffle."""


@dataclass(frozen=True)
class UpsertDone:
    """What is to be committed: dead letters, then hidden rows, then rows."""

    adds: list[DataFile]
    removes: list[DataFile]
    hidden_adds: list[DataFile]
    hidden_removes: list[DataFile]
    dead_adds: list[DataFile]
    rows: int
    """That are new, or in the place of an older one of their key."""
    deleted: int
    """That were there, and whose key has none now."""
    dead_rows: int
    read_bytes: int
    discovered: list[Discovered]
    """If there is anything here, the plan has to grow and the batch to be done again; nothing else is given then."""


def run_upsert(
    spark: SparkSession,
    reading: Reading,
    main: Bucketed,
    hidden: Bucketed,
    buckets: int,
    pieces: Sequence[OffsetRange],
    told: Told | None = None,
) -> UpsertDone:
    """Each piece is read by one task, and then each bucket that has a key of them merged by one.

    Raises the error that a task met on purpose, with nothing left to commit.
    """
    check_columns((*keyed_schema(reading).names, *main.target.schema.names), hidden.target)
    if not pieces:
        return _done([], [], main, hidden)
    context = spark.sparkContext
    read = partial(_read_pieces, reading, buckets)
    slices = tasks_for(pieces)
    shuffled = context.parallelize(pieces, slices).mapPartitions(read).partitionBy(buckets + 1, _same)
    # All pieces are read for the partition that has what they tell; rows wait where the shuffle left them.
    offsets = sum(piece.size for piece in pieces)
    with watched(context, Tally(READ, 0, slices, offsets), told):
        reads: list[PieceRead | Failure] = context.runJob(shuffled, _values, [buckets])
    parts = [each for each in reads if not isinstance(each, Failure)]
    dead_adds = [file for part in parts for file in part.dead_adds]
    discovered = [found for part in parts for found in part.discovered]
    error = failure_in(reads)
    if error is not None or discovered:
        delete(reading.dead, dead_adds)
        if error is not None:
            raise error
        return UpsertDone([], [], [], [], [], 0, 0, 0, 0, discovered)
    touched = sorted({bucket for part in parts for bucket in part.buckets})
    merges: list[BucketMerged | Failure] = []
    if touched:
        merge = partial(_merge_partition, reading, main, hidden, buckets)
        most = TASKS_A_CORE * context.defaultParallelism
        together = shuffled.coalesce(most) if len(touched) > most else shuffled
        chosen = range(most) if len(touched) > most else touched
        with watched(context, Tally(MERGE, 0, len(chosen), offsets), told):
            merges = context.runJob(together, merge, chosen)
    error = failure_in(merges)
    if error is not None:
        delete(reading.dead, dead_adds)
        for each in merges:
            if not isinstance(each, Failure):
                delete(main.target, each.adds)
                delete(hidden.target, each.hidden_adds)
        raise error
    return _done(parts, [each for each in merges if not isinstance(each, Failure)], main, hidden)


def _done(reads: Sequence[PieceRead], merges: Sequence[BucketMerged], main: Bucketed, hidden: Bucketed) -> UpsertDone:
    return UpsertDone(
        adds=[file for each in merges for file in each.adds],
        removes=[file for each in merges if each.changes_main for file in main.files.get(each.bucket, ())],
        hidden_adds=[file for each in merges for file in each.hidden_adds],
        hidden_removes=[file for each in merges if each.changes_hidden for file in hidden.files.get(each.bucket, ())],
        dead_adds=[file for each in reads for file in each.dead_adds],
        rows=sum(each.upserted for each in merges),
        deleted=sum(each.deleted for each in merges),
        dead_rows=sum(each.dead_rows for each in reads),
        read_bytes=sum(each.read_bytes for each in reads),
        discovered=[],
    )


# What tasks that read a piece do


@dataclass(frozen=True)
class PieceRead:
    """What such a task tells, beside its rows."""

    buckets: frozenset[int]
    dead_adds: list[DataFile]
    dead_rows: int
    read_bytes: int
    discovered: list[Discovered]


def _read_pieces(
    reading: Reading, buckets: int, pieces: Iterable[OffsetRange]
) -> Iterator[tuple[int, bytes | PieceRead | Failure]]:
    """Pairs of bucket and rows; and what is told, in the bucket behind all of them."""
    for piece in pieces:
        try:
            told = yield from read_piece_by_bucket(reading, buckets, piece)
        except FINAL as error:
            # To all: a piece that Spark reads again for the merges, when rows were lost with an executor, may fail too.
            for bucket in range(buckets + 1):
                yield bucket, Failure(portable(error))
        else:
            yield buckets, told


def read_piece_by_bucket(
    reading: Reading, buckets: int, piece: OffsetRange
) -> Generator[tuple[int, bytes], None, PieceRead]:
    """The newest row of each key, by buckets: a piece that is too large for that in several parts."""
    maker = RowMaker(reading, keyed=True)
    schema = keyed_schema(reading)
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = dead_rows = read_bytes = 0
    touched: set[int] = set()
    discovered: list[Discovered] = []
    with new_writer(reading, reading.dead) as dead:
        for records in read_piece(reading.options, READ_COLUMNS, Piece(piece)):
            made = maker.make(records)
            read_bytes += made.read_bytes
            if made.discovered:
                discovered.append(made.discovered)
            if discovered:  # there may be more to discover, but no row of this try will be seen
                continue
            if made.dead is not None:
                dead.write(made.dead)
                dead_rows += made.dead.num_rows
            waiting.append(made.good)
            waiting_bytes += made.good.nbytes
            if waiting_bytes >= SENT_BYTES:
                for bucket, rows in _sent(waiting, schema, buckets):
                    touched.add(bucket)
                    yield bucket, rows
                waiting, waiting_bytes = [], 0
        if discovered:
            return PieceRead(frozenset(), [], 0, read_bytes, discovered)
        for bucket, rows in _sent(waiting, schema, buckets):
            touched.add(bucket)
            yield bucket, rows
        return PieceRead(frozenset(touched), dead.close(), dead_rows, read_bytes, [])


def _sent(waiting: list[pa.RecordBatch], schema: pa.Schema, buckets: int) -> Iterator[tuple[int, bytes]]:
    table = pa.Table.from_batches(waiting, schema).combine_chunks()
    for rows in table.to_batches():
        yield from by_bucket(newest_of_piece(rows), buckets)


def _same(bucket: int) -> int:
    return bucket


def _values(pairs: Iterable[tuple[int, Any]]) -> Iterator[Any]:
    for _, value in pairs:
        yield value


# What tasks that merge a bucket do


def _merge_partition(
    reading: Reading, main: Bucketed, hidden: Bucketed, buckets: int, pairs: Iterable[tuple[int, Any]]
) -> Iterator[BucketMerged | Failure]:
    """One bucket after the other: each is a partition of the shuffle, and comes whole."""
    for bucket, found in groupby(pairs, itemgetter(0)):
        if bucket == buckets:
            continue  # what pieces told, which the driver has already
        parts = [part for _, part in found]
        failure = next((part for part in parts if isinstance(part, Failure)), None)
        if failure is not None:
            yield failure
        else:
            batch = unpacked(parts, keyed_schema(reading))
            yield guarded(partial(merge_bucket, reading, main, hidden, bucket), batch)
