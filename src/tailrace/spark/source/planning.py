"""Ranges of partitions cut into pieces, one for each task.

A partition is one piece unless there is to be more: `max_records_per_partition` cuts every range into equal pieces that
are not larger; where there are still fewer than `min_partitions`, ranges are cut in proportion to their size. Both are
met about as Spark's Kafka source meets them: the second is a wish, and rounding may give some more or some less.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tailrace.spark.errors import OptionError
from tailrace.spark.source.ranges import OffsetRange

MOST_PIECES: Final = 1_000_000
"""Far beyond what Spark can schedule: whoever asks for more has mistaken the unit."""
LEAST_OFFSETS: Final = 50_000
"""Of a piece: fewer are not worth a task."""
TASKS_PER_CORE: Final = 4


def task_count(offsets: int, cores: int) -> int:
    """How many pieces are good for a look at so many offsets where nobody said how many are wanted."""
    return max(min(offsets // LEAST_OFFSETS, cores * TASKS_PER_CORE), 1)


def pieces(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None = None, max_records_per_partition: int | None = None
) -> list[OffsetRange]:
    """In the order of `ranges`; empty ones are left out."""
    found = [each for each in ranges if each.size]
    if max_records_per_partition is not None:
        _check_count(
            "maxRecordsPerPartition",
            max_records_per_partition,
            sum(-(-each.size // max_records_per_partition) for each in found),
        )
        found = [piece for each in found for piece in _cut(each, -(-each.size // max_records_per_partition))]
    if min_partitions is not None and min_partitions > len(found):
        _check_count("minPartitions", min_partitions, min(min_partitions, sum(each.size for each in found)))
        found = _more_of(found, min_partitions)
    return found


def _check_count(option: str, value: int, count: int) -> None:
    if count > MOST_PIECES:
        raise OptionError(f"option {option} is {value}: that would make {count} tasks; at most {MOST_PIECES} may be")


def _more_of(ranges: Sequence[OffsetRange], wanted: int) -> list[OffsetRange]:
    """Ranges that are worth one piece stay whole; the others share the pieces that are left by their sizes."""
    total = sum(each.size for each in ranges)
    whole = [each for each in ranges if _share(each.size, total, wanted) == 1]
    stay_whole = {each.partition for each in whole}
    left = max(wanted - len(whole), 1)
    left_total = total - sum(each.size for each in whole)
    return [
        piece
        for each in ranges
        for piece in _cut(each, 1 if each.partition in stay_whole else _share(each.size, left_total, left))
    ]


def _share(size: int, total: int, wanted: int) -> int:
    """Rounded, half up; at least one."""
    return max((2 * size * wanted + total) // (2 * total), 1)


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    """Into equal pieces, of which the last ones take what does not divide; none is empty."""
    cuts: list[OffsetRange] = []
    start = whole.start
    for left in range(min(count, whole.size), 0, -1):
        end = start + (whole.end - start) // left
        cuts.append(whole._replace(start=start, end=end))
        start = end
    return cuts
