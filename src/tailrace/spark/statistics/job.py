"""Statistics as Spark jobs.

Pieces are read once, for the task that adds up tallies. Keys and sampled batches wait where the shuffle left them: keys
for the tasks of their buckets, batches for those that pack them again when it is known what compaction takes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from tailrace.spark.statistics import keys as key_rows
from tailrace.spark.statistics import producers as producer_rows
from tailrace.spark.statistics.key_bucket import KeysFound, Left, keys_of
from tailrace.spark.statistics.piece_task import (
    KEYS,
    PRODUCERS,
    SAMPLED_KEYS,
    BucketRows,
    Reading,
    Sent,
    StatsPiece,
    read_stats,
)
from tailrace.spark.statistics.plan import Plan
from tailrace.spark.statistics.producers import ProducersFound, producers_of
from tailrace.spark.statistics.sample import SampledBatch
from tailrace.spark.statistics.tally import Tally
from tailrace.spark.statistics.trials import Superseded, TrialRules, Trials, try_batches
from tailrace.spark.tables.tasks.buckets import unpacked
from tailrace.spark.tables.tasks.jobs import FINAL, Failure, failure_in, portable, watched
from tailrace.spark.tables.tasks.reading import READ
from tailrace.spark.tables.tasks.reading import Tally as Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

R = TypeVar("R")

COUNT: Final = "count"
SAMPLE: Final = "sample"

Told = Callable[[Progress], None]


@dataclass(frozen=True)
class Found:
    """What all tasks together came to."""

    tally: Tally
    keys: KeysFound
    producers: ProducersFound
    trials: Trials


@dataclass(frozen=True)
class BucketFound:
    keys: KeysFound
    producers: ProducersFound


def run_stats(spark: SparkSession, plan: Plan, top: int, told: Told | None = None) -> Found:
    """Raises the error that a task met on purpose."""
    found = Found(Tally(), KeysFound(), ProducersFound(), Trials())
    if not plan.pieces:
        return found
    reading, context = plan.reading, spark.sparkContext
    buckets, count = reading.buckets, len(plan.pieces)
    read = context.parallelize(plan.pieces, count).mapPartitions(partial(_read_pieces, reading))
    shuffled = read.partitionBy(buckets + 1 + reading.trials, _same)
    offsets = sum(each.offsets.size for each in plan.pieces)
    with watched(context, Progress(READ, 0, count, offsets), told):
        tallies: list[Tally] = _checked(context.runJob(shuffled, _added_up, [buckets]))
    with watched(context, Progress(COUNT, 0, buckets, offsets), told):
        count_bucket = partial(_count_bucket, top, reading.now_ms)
        counted: list[BucketFound] = _checked(context.runJob(shuffled, count_bucket, range(buckets)))
    for tally in tallies:
        found.tally.take(tally)
    for each in counted:
        found.keys.take(each.keys, top)
        found.producers.take(each.producers)
    if found.tally.sampled_batches:
        rules = trial_rules(plan, found.keys, found.producers)
        with watched(context, Progress(SAMPLE, 0, reading.trials, offsets), told):
            behind = range(buckets + 1, buckets + 1 + reading.trials)
            for trials in _checked(context.runJob(shuffled, partial(_try_bucket, rules), behind)):
                found.trials.take(trials)
    return found


def trial_rules(plan: Plan, keys: KeysFound, producers: ProducersFound) -> TrialRules:
    ends = {each.partition.partition: each.end for each in plan.ranges}
    return TrialRules(
        whole=Superseded(_offsets(keys.whole), ends),
        closed=None if plan.closed_to is None else Superseded(_offsets(keys.closed), plan.closed_to),
        last_offsets=frozenset(producers.last_offsets),
        now_ms=plan.reading.now_ms,
    )


def _offsets(left: Left) -> dict[int, np.ndarray]:
    return {partition: np.concatenate(offsets) for partition, offsets in left.superseded.items()}


def _checked(results: list[Any]) -> list[Any]:
    error = failure_in(results)
    if error is not None:
        raise error
    return results


def _same(bucket: int) -> int:
    return bucket


# What tasks do


def _read_pieces(reading: Reading, pieces: Iterable[StatsPiece]) -> Iterator[tuple[int, Sent | Failure]]:
    for piece in pieces:
        try:
            yield from read_stats(reading, piece)
        except FINAL as error:
            # To all: a piece that Spark reads again, when rows were lost with an executor, may fail too.
            for bucket in range(reading.buckets + 1 + reading.trials):
                yield bucket, Failure(portable(error))


def _guarded(pairs: Iterable[tuple[int, Any]], work: Callable[[Iterator[Any]], R]) -> Iterator[R | Failure]:
    """What `work` makes of the values; the failure instead, if one is among them."""
    failures: list[Failure] = []

    def values() -> Iterator[Any]:
        for _, value in pairs:
            if isinstance(value, Failure):
                failures.append(value)
            else:
                yield value

    result = work(values())
    yield failures[0] if failures else result


def _added_up(pairs: Iterable[tuple[int, Any]]) -> Iterator[Tally | Failure]:
    def add(tallies: Iterator[Tally]) -> Tally:
        whole = Tally()
        for each in tallies:
            whole.take(each)
        return whole

    return _guarded(pairs, add)


def _count_bucket(
    top: int, now_ms: int, pairs: Iterable[tuple[int, BucketRows | Failure]]
) -> Iterator[BucketFound | Failure]:
    def count(rows: Iterator[BucketRows]) -> BucketFound:
        parts: dict[int, list[bytes]] = {KEYS: [], SAMPLED_KEYS: [], PRODUCERS: []}
        for kind, data in rows:
            parts[kind].append(data)
        keys = unpacked(parts[KEYS], key_rows.SCHEMA)
        sampled = unpacked(parts[SAMPLED_KEYS], key_rows.SAMPLED_SCHEMA)
        producers = unpacked(parts[PRODUCERS], producer_rows.SCHEMA)
        return BucketFound(keys_of(keys, sampled, top), producers_of(producers, now_ms))

    return _guarded(pairs, count)


def _try_bucket(rules: TrialRules, pairs: Iterable[tuple[int, SampledBatch | Failure]]) -> Iterator[Trials | Failure]:
    return _guarded(pairs, partial(try_batches, rules))
