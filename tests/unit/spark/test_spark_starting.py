"""Where a read begins and ends: every form that Spark's Kafka source knows, against a log made of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.model.ids import TopicPartition
from tailrace.spark.errors import DataLossError, OptionError
from tailrace.spark.options.partition_numbers import parse_numbers, print_numbers
from tailrace.spark.options.positions import AtOffsets, AtTime, AtTimes, Earliest, Latest, Position
from tailrace.spark.options.source import SourceOptions
from tailrace.spark.options.subscription import Topics
from tailrace.spark.source.loss import LossPolicy
from tailrace.spark.source.ranges import Bounds, OffsetRange
from tailrace.spark.source.starting import checked_ranges, resolve_end, resolve_start

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
BOTH: dict[TopicPartition, str | None] = {P0: "id", P1: "id"}


class Logs:
    """P0 has the offsets 10 to 19, at 1010 to 1019 ms; P1 none, and never had."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def bounds(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Bounds]:
        self.asked.append("bounds")
        return {each: {P0: Bounds(10, 20), P1: Bounds(0, 0)}[each] for each in partitions}

    def at_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        self.asked.append("times")
        found = {each: max(time_ms - 1000, 10) for each, time_ms in times_ms.items()}
        return {each: offset if each == P0 and offset < 20 else None for each, offset in found.items()}


EARLIEST, LATEST = Earliest(), Latest()


def options(starting: Position = EARLIEST, ending: Position = LATEST, strategy: str = "error") -> SourceOptions:
    return replace(
        SourceOptions(Topics(("t",)), brokers="b:1"), starting=starting, ending=ending, timestamp_strategy=strategy
    )


def test_earliest_and_latest_are_the_bounds() -> None:
    assert resolve_start(options(), Logs(), BOTH) == {P0: 10, P1: 0}
    assert resolve_start(options(Latest()), Logs(), BOTH) == {P0: 20, P1: 0}
    assert resolve_end(options(), Logs(), BOTH) == {P0: 20, P1: 0}


def test_offsets_are_taken_as_given_but_for_the_two_that_stand_for_bounds() -> None:
    assert resolve_start(options(AtOffsets({P0: -2, P1: 77})), Logs(), BOTH) == {P0: 10, P1: 77}
    assert resolve_start(options(AtOffsets({P0: -1, P1: 0})), Logs(), BOTH) == {P0: 20, P1: 0}
    assert resolve_end(options(ending=AtOffsets({P0: 15, P1: -1})), Logs(), BOTH) == {P0: 15, P1: 0}
    logs = Logs()
    assert resolve_start(options(AtOffsets({P0: 3, P1: 4})), logs, BOTH) == {P0: 3, P1: 4}
    assert logs.asked == []


def test_times_stand_for_the_first_record_at_or_after_them() -> None:
    assert resolve_start(options(AtTime(1013)), Logs(), [P0]) == {P0: 13}
    assert resolve_start(options(AtTimes({P0: 0})), Logs(), [P0]) == {P0: 10}
    assert resolve_end(options(ending=AtTime(1013)), Logs(), BOTH) == {P0: 13, P1: 0}
    assert resolve_end(options(ending=AtTimes({P0: 5000, P1: 1})), Logs(), BOTH) == {P0: 20, P1: 0}


def test_a_start_without_records_is_an_error_or_the_end() -> None:
    with pytest.raises(OptionError, match=r"t-1 has no record at or after 1013 ms.*startingOffsetsByTimestampStrategy"):
        resolve_start(options(AtTime(1013)), Logs(), BOTH)
    with pytest.raises(OptionError, match="t-0 has no record at or after 5000 ms"):
        resolve_start(options(AtTimes({P0: 5000})), Logs(), [P0])
    assert resolve_start(options(AtTimes({P0: 5000, P1: 1}), strategy="latest"), Logs(), BOTH) == {P0: 20, P1: 0}


@pytest.mark.parametrize("position", [AtOffsets({P0: 1}), AtTimes({P0: 1})])
def test_every_partition_has_to_be_named(position: Position) -> None:
    with pytest.raises(OptionError, match=r"startingOffsets.* must name every partition that is read: it lacks t-1"):
        resolve_start(options(position), Logs(), BOTH)
    with pytest.raises(OptionError, match=r"endingOffsets.* it lacks t-1 and it has t-0, which the query does not"):
        resolve_end(options(ending=position), Logs(), [P1])


def test_nothing_to_read_begins_nowhere() -> None:
    for position in (Earliest(), Latest(), AtTime(5)):
        assert resolve_start(options(position), Logs(), []) == {}


def test_a_batch_reads_from_start_to_end() -> None:
    assert checked_ranges(options(), Logs(), BOTH, LossPolicy()) == [
        OffsetRange(P0, 10, 20, "id"),
        OffsetRange(P1, 0, 0, "id"),
    ]
    asked = options(AtOffsets({P0: 12}), AtOffsets({P0: 14}))
    assert checked_ranges(asked, Logs(), {P0: None}, LossPolicy()) == [OffsetRange(P0, 12, 14, None)]


def test_a_batch_that_begins_behind_its_end_is_refused() -> None:
    with pytest.raises(OptionError, match="t-0 is to start at offset 15, behind its end, 13"):
        checked_ranges(options(AtOffsets({P0: 15}), AtTime(1013)), Logs(), {P0: None}, LossPolicy())


@pytest.mark.parametrize(
    ("start", "end", "lost", "read"),
    [
        (3, 15, r"offsets 3 to 9 are lost: the log begins at 10", (10, 15)),
        (3, 7, r"offsets 3 to 6 are lost: the log begins at 10", (10, 7)),
        (12, 30, r"offsets 20 to 29 are lost: the log ends at 20", (12, 20)),
        (25, -1, r"offsets 20 to 24 are lost: the log ends at 20", (25, 20)),
    ],
)
def test_offsets_that_the_log_has_not_are_lost(start: int, end: int, lost: str, read: tuple[int, int]) -> None:
    asked = options(AtOffsets({P0: start}), AtOffsets({P0: end}) if end >= 0 else Latest())
    with pytest.raises(DataLossError, match=lost):
        checked_ranges(asked, Logs(), {P0: None}, LossPolicy())
    policy = LossPolicy(fails=False)
    (found,) = checked_ranges(asked, Logs(), {P0: None}, policy)
    assert (found.start, found.end) == read
    assert policy.lost_offsets > 0


NUMBERS = st.dictionaries(
    st.builds(TopicPartition, st.text("abXY09._-", min_size=3, max_size=9), st.integers(0, (1 << 31) - 1)),
    st.integers(-(1 << 63), (1 << 63) - 1),
    min_size=1,
)


@given(NUMBERS)
def test_the_json_of_offsets_is_read_as_it_is_written(numbers: dict[TopicPartition, int]) -> None:
    legal = {each: number for each, number in numbers.items() if each.topic.strip(".")}
    if legal:
        assert parse_numbers(print_numbers(legal)) == legal


@given(st.text(max_size=40) | st.recursive(st.integers() | st.text(max_size=3), lambda of: st.lists(of)).map(repr))
def test_any_other_text_is_told_to_be_wrong(text: str) -> None:
    with pytest.raises(ValueError, match=r"it|topic|partition|twice"):
        parse_numbers(text)


def test_nesting_without_end_is_no_crash() -> None:
    with pytest.raises(ValueError, match=r"nested|no JSON"):
        parse_numbers("[" * 200_000)


class MovingLogs(Logs):
    """The log's start moves on after it was looked up."""

    def bounds(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Bounds]:
        first = 12 if "bounds" in self.asked or "times" in self.asked else 10
        return {each: found._replace(start=first) for each, found in super().bounds(partitions).items()}


@pytest.mark.parametrize("start", [Earliest(), AtOffsets({P0: -2}), AtTime(1000)])
def test_a_log_whose_start_moves_meanwhile_has_lost_nothing_that_was_asked_for(start: Position) -> None:
    (found,) = checked_ranges(options(start), MovingLogs(), {P0: None}, LossPolicy())
    assert (found.start, found.end) == (12, 20)
