"""What a task does with its piece: records and batches become sums, keys go to the shuffle, sampled batches too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from tailrace.spark.options.source import SourceOptions
from tailrace.spark.source.columns import HEADERS, KEY, OFFSET, TIMESTAMP, VALUE, Columns
from tailrace.spark.source.piece_reader import Piece, read_piece
from tailrace.spark.source.ranges import OffsetRange
from tailrace.spark.statistics.keys import PieceKeys
from tailrace.spark.statistics.sample import BatchSample, SampledBatch
from tailrace.spark.statistics.tally import Tally
from tailrace.spark.statistics.watching import BatchWatch, WatchedDecoder

COLUMNS: Final = Columns((KEY, VALUE, OFFSET, TIMESTAMP, HEADERS))

KEYS, SAMPLED_KEYS, PRODUCERS = range(3)
"""What the rows are that go to a bucket."""


@dataclass(frozen=True)
class StatsPiece:
    """Goes to executors."""

    offsets: OffsetRange
    is_first: bool
    """Of its partition."""
    closed_to: int | None
    """Where the segment begins that is being written; None where nobody tells."""
    sample_bytes: int
    """0: no batch of this piece is sampled."""


@dataclass(frozen=True)
class Reading:
    """What all tasks have in common."""

    options: SourceOptions
    buckets: int
    """Of keys."""
    trials: int
    """How many tasks pack sampled batches again."""
    share: float
    """Of pieces that have a sample."""
    now_ms: int


BucketRows = tuple[int, bytes]
"""What they are, and rows as Arrow's stream has them."""
Sent = BucketRows | SampledBatch | Tally


def read_stats(reading: Reading, piece: StatsPiece) -> Iterator[tuple[int, Sent]]:
    """Pairs of bucket and what goes there. Keys have the first ones, then comes the tally's, then sampled batches'."""
    partition, buckets = piece.offsets.partition.partition, reading.buckets
    tally = Tally()
    sample = BatchSample(partition, piece.sample_bytes)
    watch = BatchWatch(
        piece.offsets, tally, sample, is_first=piece.is_first, closed_to=piece.closed_to, now_ms=reading.now_ms
    )
    keys = PieceKeys(partition, piece.closed_to)
    decoder = partial(WatchedDecoder, watch)
    for batch in read_piece(reading.options, COLUMNS, Piece(piece.offsets), new_decoder=decoder):
        records = tally.add_records(partition, batch, piece.closed_to)
        first = int(records.offsets[0])
        keys.add(records, watch.expired(first), sample.added(first))
        if keys.is_full:
            for bucket, rows in keys.send(buckets):
                yield bucket, (KEYS, rows)
        if watch.producers.is_full:
            for bucket, rows in watch.producers.send(partition, buckets):
                yield bucket, (PRODUCERS, rows)
    for kind, sent in (
        (KEYS, keys.send(buckets)),
        (SAMPLED_KEYS, keys.send_sampled(sample.ranges(), buckets)),
        (PRODUCERS, watch.producers.send(partition, buckets)),
    ):
        for bucket, rows in sent:
            yield bucket, (kind, rows)
    sampled = sample.batches(reading.share, piece.closed_to)
    tally.sampled_batches = len(sampled)
    tally.is_all_sampled = sample.chance == 1 and not sample.passed_over
    for number, each in enumerate(sampled):
        yield buckets + 1 + (number + partition) % reading.trials, each
    yield buckets, tally
