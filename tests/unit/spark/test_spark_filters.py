"""Filters narrow what is read and never lose a row; Spark applies again whatever is not met by that alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from suite.seeds import examples
from tailrace.model.ids import TopicPartition
from tailrace.spark.source.filters import EVERYTHING, Pushed, push
from tailrace.spark.source.ranges import TimeRange

TOPIC, PARTITION, OFFSET, TIME = ("topic",), ("partition",), ("offset",), ("timestamp",)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def us(value: int) -> datetime:
    return EPOCH + timedelta(microseconds=value)


def met(*filters: Filter) -> Pushed:
    """All of them are met by what is read."""
    pushed, rest = push(list(filters))
    assert rest == []
    return pushed


def narrowed(*filters: Filter) -> Pushed:
    """Spark applies all of them again."""
    pushed, rest = push(list(filters))
    assert [id(each) for each in rest] == [id(each) for each in filters]
    return pushed


def test_nothing_is_narrowed_without_filters() -> None:
    assert push([]) == (EVERYTHING, [])
    assert EVERYTHING.admits(TopicPartition("any", 7))


def test_offsets() -> None:
    assert met(GreaterThan(OFFSET, 5)).first_offset == 6
    assert met(GreaterThanOrEqual(OFFSET, 5)).first_offset == 5
    assert met(LessThan(OFFSET, 5)).last_offset == 4
    assert met(LessThanOrEqual(OFFSET, 5)).last_offset == 5
    both = met(GreaterThan(OFFSET, 5), LessThan(OFFSET, 9), GreaterThan(OFFSET, 2))
    assert (both.first_offset, both.last_offset) == (6, 8)
    exact = met(EqualTo(OFFSET, 5), EqualNullSafe(OFFSET, 5))
    assert (exact.first_offset, exact.last_offset) == (5, 5)


def test_several_offsets_are_between_the_least_and_the_greatest_and_chosen_by_spark() -> None:
    some = narrowed(In(OFFSET, (9, None, 3)))
    assert (some.first_offset, some.last_offset) == (3, 9)
    one = met(In(OFFSET, (3, None)))
    assert (one.first_offset, one.last_offset) == (3, 3)


def test_partitions_and_topics() -> None:
    pushed = met(In(PARTITION, [1, 2, None]), In(PARTITION, (2, 3)), EqualTo(TOPIC, "t"))
    assert (pushed.partitions, pushed.topics) == ({2}, {"t"})
    assert pushed.admits(TopicPartition("t", 2))
    assert not pushed.admits(TopicPartition("t", 1))
    assert not pushed.admits(TopicPartition("u", 2))
    assert met(EqualTo(TOPIC, "t"), In(TOPIC, ("u", "v"))).topics == frozenset()


def test_times_are_a_hint_that_spark_checks_again() -> None:
    assert narrowed(GreaterThanOrEqual(TIME, us(5_000))).times.first_ms == 5
    assert narrowed(GreaterThanOrEqual(TIME, us(5_001))).times.first_ms == 6
    assert narrowed(GreaterThan(TIME, us(4_999))).times.first_ms == 5
    assert narrowed(GreaterThan(TIME, us(5_000))).times.first_ms == 6
    assert narrowed(LessThan(TIME, us(5_000))).times.last_ms == 4
    assert narrowed(LessThan(TIME, us(5_001))).times.last_ms == 5
    assert narrowed(LessThanOrEqual(TIME, us(5_999))).times.last_ms == 5
    assert narrowed(EqualTo(TIME, us(5_000))).times == TimeRange(5, 5)
    assert narrowed(In(TIME, (us(9_000), us(5_000)))).times == TimeRange(5, 9)
    assert narrowed(GreaterThanOrEqual(TIME, us(-1_500))).times.first_ms == -1
    between = EqualTo(TIME, us(5_500))
    assert narrowed(between).times == TimeRange(6, 5)  # no record has it


def test_a_time_is_the_same_in_every_zone_and_without_one_it_is_none() -> None:
    there = datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert narrowed(GreaterThan(TIME, there)).times.first_ms == 1
    assert narrowed(GreaterThan(TIME, datetime(1970, 1, 1))) == EVERYTHING  # noqa: DTZ001


@pytest.mark.parametrize(
    "given",
    [
        Not(EqualTo(PARTITION, 1)),
        Not(GreaterThan(OFFSET, 1)),
        IsNull(OFFSET),
        IsNull(("key",)),
        IsNotNull(("key",)),
        IsNotNull(("offset", "inside")),
        EqualTo(("offset", "inside"), 1),
        EqualTo(("value",), b"x"),
        EqualTo(OFFSET, None),
        EqualNullSafe(OFFSET, None),
        EqualTo(OFFSET, True),
        GreaterThan(OFFSET, 1.5),
        EqualTo(TOPIC, 3),
        GreaterThan(TOPIC, "a"),
        LessThan(PARTITION, 3),
        StringStartsWith(TOPIC, "a"),
        EqualTo(TIME, "1970-01-01"),
        EqualTo(("timestampType",), 0),
    ],
)
def test_whatever_else_is_left_to_spark(given: Filter) -> None:
    assert narrowed(given) == EVERYTHING


def test_columns_that_are_never_null_need_no_check() -> None:
    assert met(*(IsNotNull((name,)) for name in ("topic", "partition", "offset", "timestamp"))) == EVERYTHING


def test_the_rest_is_made_of_the_very_filters_in_their_order() -> None:
    filters = [EqualTo(("key",), b"x"), EqualTo(OFFSET, 1), EqualTo(("key",), b"x"), GreaterThan(TIME, us(1))]
    _, rest = push(filters)
    assert [id(each) for each in rest] == [id(filters[0]), id(filters[2]), id(filters[3])]


def test_no_values_at_all_keep_nothing() -> None:
    none = narrowed(In(OFFSET, (None,)))
    assert none.first_offset > none.last_offset
    assert met(In(PARTITION, ())).partitions == frozenset()


COMPARISONS = {
    EqualTo: lambda a, b: a == b,
    GreaterThan: lambda a, b: a > b,
    GreaterThanOrEqual: lambda a, b: a >= b,
    LessThan: lambda a, b: a < b,
    LessThanOrEqual: lambda a, b: a <= b,
}
RULES = st.lists(
    st.tuples(
        st.sampled_from(sorted(COMPARISONS, key=lambda kind: kind.__name__)),
        st.sampled_from(["offset", "partition", "timestamp"]),
        st.integers(-3, 6),
        st.sampled_from([0, 0, 1, 500, 999]),
    ),
    max_size=4,
)


@given(RULES)
@settings(max_examples=examples(300))
def test_no_row_is_lost_and_what_is_met_needs_no_check(rules: list[tuple[type, str, int, int]]) -> None:
    filters = [
        kind((column,), us(value * 1_000 + extra) if column == "timestamp" else value)
        for kind, column, value, extra in rules
    ]
    pushed, rest = push(filters)
    left = {id(each) for each in rest}
    for offset in range(5):
        for partition in range(4):
            for time_ms in range(-3, 6):
                row = {"offset": offset, "partition": partition, "timestamp": us(time_ms * 1_000)}
                holds = {id(each): COMPARISONS[type(each)](row[each.attribute[0]], each.value) for each in filters}
                is_read = (
                    pushed.admits(TopicPartition("t", partition))
                    and pushed.first_offset <= offset <= pushed.last_offset
                    and pushed.times.first_ms <= time_ms <= pushed.times.last_ms
                )
                assert is_read or not all(holds.values())
                assert not is_read or all(held for each, held in holds.items() if each not in left)
