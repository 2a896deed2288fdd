"""What the next batch of a table is. Pure: from offsets of the tables and bounds of the topic, nothing else.

A batch begins where the table ends. It takes what has come, but not more than it may at once. Where the hidden rows are
ahead of the table, a batch was under way when its driver went: they hold what decided in it already, so the next batch
ends where that one was to end, and the two agree again. Dead letters that are ahead are only skipped; a batch ends with
them too if that is not too far. They never take a batch to what cannot be seen: nothing would read it later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from tailrace.model.ids import TopicPartition
from tailrace.spark.options.source import SourceOptions
from tailrace.spark.source.limits import admit, within
from tailrace.spark.source.planning import pieces
from tailrace.spark.source.ranges import Bounds, OffsetRange
from tailrace.spark.tables.job.topic import Sight
from tailrace.spark.tables.store import Offsets
from tailrace.spark.tables.tasks.reading import RECORDS_FOR_A_TASK

MOST_RECORDS_OF_A_TASK: Final = 2_000_000
MOST_BUCKET_BYTES: Final = 256 << 20
"""That a batch brings for a bucket: the task that merges it has them in memory."""
LARGE_RECORD_BYTES: Final = 100_000
"""What nobody looked at yet is taken to be smaller."""


class At(NamedTuple):
    """How far the tables are."""

    main: Offsets
    dead: Offsets
    hidden: Offsets | None = None


@dataclass(frozen=True)
class Limits:
    max_offsets: int
    min_offsets: int | None = None
    delayed_ms: int | None = None
    """Since the last batch; None, when there was none."""
    max_delay_ms: int = 0


@dataclass(frozen=True)
class Batch:
    start: Offsets
    """Of the partitions that the topic has."""
    end: Offsets
    """How far the table is behind it, in all partitions it knows."""
    ranges: tuple[OffsetRange, ...]
    """To be read: without what the log does not have, and without partitions of which there is nothing."""
    left: int
    """Offsets that wait, with those of this batch."""

    @property
    def records(self) -> int:
        return sum(each.size for each in self.ranges)

    @property
    def is_last(self) -> bool:
        """Of what has come so far."""
        return self.left <= self.records


class Loss(NamedTuple):
    partition: TopicPartition
    start: int
    end: int | None
    why: str


def next_batch(topic: str, at: At, sight: Sight, limits: Limits, until: Offsets | None = None) -> Batch | None:
    """None where there is nothing to do, or not yet. `until` is where a run ends that only takes what was there."""
    bounds = {TopicPartition(topic, each): found for each, found in sight.bounds.items()}
    start = {each: at.main.get(each.partition, found.start) for each, found in bounds.items()}
    latest = {each: found.end for each, found in bounds.items()}
    if until is not None:
        latest = within(latest, {TopicPartition(topic, each): end for each, end in until.items()})
    end = _under_way(at, start, latest, limits.max_offsets) or admit(
        start,
        latest,
        max_offsets=limits.max_offsets,
        min_offsets=limits.min_offsets,
        delayed_ms=limits.delayed_ms,
        max_delay_ms=limits.max_delay_ms,
    )
    if end is None or all(behind <= start[each] for each, behind in end.items()):
        return None
    reached = {each: max(end.get(each, 0), first) for each, first in start.items()}
    ranges = (
        OffsetRange(each, max(start[each], found.start), min(reached[each], found.end), sight.topic_id)
        for each, found in sorted(bounds.items())
    )
    return Batch(
        start={each.partition: offset for each, offset in start.items()},
        end={**at.main, **{each.partition: offset for each, offset in reached.items()}},
        ranges=tuple(each for each in ranges if each.size),
        left=sum(max(behind - max(start[each], bounds[each].start), 0) for each, behind in latest.items()),
    )


def may_be_too_large(batch: Batch, buckets: int) -> bool:
    """Whether it has to be known how large its records are."""
    return batch.records > buckets * MOST_BUCKET_BYTES // LARGE_RECORD_BYTES


def fitting(limits: Limits, buckets: int, record_bytes: float) -> Limits:
    """So that buckets get no more than tasks can hold, where keys are spread evenly."""
    most = int(buckets * MOST_BUCKET_BYTES / max(record_bytes, 1.0))
    return replace(limits, max_offsets=max(min(limits.max_offsets, most), 1))


def _under_way(
    at: At, start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], max_offsets: int
) -> dict[TopicPartition, int] | None:
    """Where the batch was to end that a table beside this one tells of."""
    hidden = {each: (at.hidden or {}).get(each.partition, 0) for each in start}
    dead = {each: min(at.dead.get(each.partition, 0), latest.get(each, 0)) for each in start}
    for told, most in ((hidden, None), (dead, max_offsets)):
        end = {each: max(first, told[each]) for each, first in start.items()}
        ahead = sum(end[each] - first for each, first in start.items())
        if ahead and (most is None or ahead <= most):
            return end
    return None


def is_ahead(one: Offsets, other: Offsets) -> bool:
    """In some partition."""
    return any(offset > other.get(each, 0) for each, offset in one.items())


def furthest(one: Offsets, other: Offsets) -> dict[int, int]:
    return {each: max(one.get(each, 0), other.get(each, 0)) for each in sorted({*one, *other})}


def losses(topic: str, at: At, bounds: Mapping[int, Bounds]) -> list[Loss]:
    """What the tables should have and the topic has not any more."""
    main, reached = at.main, furthest(furthest(at.main, at.dead), at.hidden or {})
    found: list[Loss] = []
    for each in sorted({*main, *bounds}):
        partition = TopicPartition(topic, each)
        offset, has = main.get(each), bounds.get(each)
        if has is None:
            assert offset is not None
            found.append(Loss(partition, offset, None, "the partition is gone"))
        elif offset is None:
            if has.start > 0:
                found.append(Loss(partition, 0, has.start, f"the partition is new, and its log begins at {has.start}"))
        elif offset < has.start:
            found.append(Loss(partition, offset, has.start, f"the log begins at {has.start}"))
        elif reached[each] > has.end:
            found.append(Loss(partition, has.end, reached[each], f"the log ends at {has.end}, and the table has more"))
    return found


def tasks_of(batch: Batch, options: SourceOptions, cores: int) -> list[OffsetRange]:
    """Pieces: as many as there are cores, if they have enough to do, and at least one of each partition."""
    worth = min(cores, -(-batch.records // RECORDS_FOR_A_TASK))
    return pieces(
        batch.ranges,
        min_partitions=options.min_partitions or worth,
        max_records_per_partition=options.max_records_per_partition or MOST_RECORDS_OF_A_TASK,
    )
