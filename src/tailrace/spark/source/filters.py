"""Filters of a query, as far as they say where to look: topic, partition, offset and time.

Spark hands over those that are joined by AND, column by column. What is learned from one narrows what is read, and
never leaves out a row that the filter would keep. A filter that is met wholly by what is read need not be applied
again; all others stay with Spark, and so do those on times, which tasks may take as a hint.

Timestamps are compared in microseconds by Spark and kept in milliseconds by the log: a bound between two milliseconds
moves to the next one inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from tailrace.model.ids import TopicPartition
from tailrace.spark.source.ranges import ALL_TIMES, EVER, TimeRange

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NEVER_NULL: Final = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})


@dataclass(frozen=True)
class Pushed:
    """What has to be read; `first_offset` to `last_offset`, both inclusive, of every partition that is admitted."""

    times: TimeRange = ALL_TIMES
    first_offset: int = 0
    last_offset: int = EVER[1] - 1
    partitions: frozenset[int] | None = None
    topics: frozenset[str] | None = None
    """None: all."""

    def admits(self, partition: TopicPartition) -> bool:
        return (self.partitions is None or partition.partition in self.partitions) and (
            self.topics is None or partition.topic in self.topics
        )

    def within(self, first: int, last: int) -> Pushed:
        return replace(self, first_offset=max(self.first_offset, first), last_offset=min(self.last_offset, last))

    def during(self, first_ms: int, last_ms: int) -> Pushed:
        times = TimeRange(max(self.times.first_ms, first_ms), min(self.times.last_ms, last_ms))
        return replace(self, times=times)

    def of_partitions(self, numbers: Iterable[int]) -> Pushed:
        wanted = frozenset(numbers)
        return replace(self, partitions=wanted if self.partitions is None else wanted & self.partitions)

    def of_topics(self, names: Iterable[str]) -> Pushed:
        wanted = frozenset(names)
        return replace(self, topics=wanted if self.topics is None else wanted & self.topics)


EVERYTHING: Final = Pushed()


def push(filters: Iterable[Filter]) -> tuple[Pushed, list[Filter]]:
    """What they leave to read, and those that Spark has to apply still: the very objects it gave."""
    pushed, rest = EVERYTHING, []
    for each in filters:
        narrowed, is_met = _narrowed(pushed, each)
        pushed = narrowed
        if not is_met:
            rest.append(each)
    return pushed, rest


def _narrowed(pushed: Pushed, given: Filter) -> tuple[Pushed, bool]:
    """With `given` as well, and whether every row that is read then meets it."""
    column = _column(given)
    if isinstance(given, IsNotNull):
        return pushed, column in _NEVER_NULL
    take = _COLUMNS.get(column)
    values = _values(given)
    if take is None or values is None:
        return pushed, False
    return take(pushed, given, values)


def _column(given: Filter) -> str:
    """Empty for anything but one of the columns themselves."""
    path: tuple[str, ...] = getattr(given, "attribute", ())
    return path[0] if len(path) == 1 else ""


def _values(given: Filter) -> list[Any] | None:
    """That the column is compared with; None where nothing is known to follow. A comparison with null keeps no row."""
    if isinstance(given, In):
        return [value for value in given.value if value is not None]
    if isinstance(given, EqualTo | EqualNullSafe | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual):
        return None if given.value is None else [given.value]
    return None


def _by_topic(pushed: Pushed, given: Filter, values: list[Any]) -> tuple[Pushed, bool]:
    if not isinstance(given, In | EqualTo | EqualNullSafe) or not all(isinstance(each, str) for each in values):
        return pushed, False
    return pushed.of_topics(values), True


def _by_partition(pushed: Pushed, given: Filter, values: list[Any]) -> tuple[Pushed, bool]:
    if not isinstance(given, In | EqualTo | EqualNullSafe) or not _are_whole(values):
        return pushed, False
    return pushed.of_partitions(values), True


def _by_offset(pushed: Pushed, given: Filter, values: list[Any]) -> tuple[Pushed, bool]:
    if not _are_whole(values):
        return pushed, False
    first, last = _range(given, values, least=0, greatest=EVER[1] - 1)
    return pushed.within(first, last), len(set(values)) == 1


def _by_time(pushed: Pushed, given: Filter, values: list[Any]) -> tuple[Pushed, bool]:
    if not all(isinstance(each, datetime) and each.tzinfo is not None for each in values):
        return pushed, False
    first_us, last_us = _range(given, [_us(each) for each in values], least=EVER[0] * 1_000, greatest=EVER[1] * 1_000)
    return pushed.during(-(-first_us // 1_000), last_us // 1_000), False


_COLUMNS: Final[dict[str, Callable[[Pushed, Filter, list[Any]], tuple[Pushed, bool]]]] = {
    "topic": _by_topic,
    "partition": _by_partition,
    "offset": _by_offset,
    "timestamp": _by_time,
}


def _range(given: Filter, values: list[int], *, least: int, greatest: int) -> tuple[int, int]:
    """First and last whole number that may meet the filter; the wrong way round when none does."""
    if not values:
        return greatest, least
    value = values[0]
    if isinstance(given, GreaterThan):
        return value + 1, greatest
    if isinstance(given, GreaterThanOrEqual):
        return value, greatest
    if isinstance(given, LessThan):
        return least, value - 1
    if isinstance(given, LessThanOrEqual):
        return least, value
    return min(values), max(values)


def _are_whole(values: list[Any]) -> bool:
    return all(isinstance(each, int) and not isinstance(each, bool) for each in values)


def _us(at: datetime) -> int:
    return (at - _EPOCH) // _MICROSECOND
