"""What the next batch of a table is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.model.ids import TopicPartition
from tailrace.spark.options.source import SourceOptions
from tailrace.spark.options.subscription import Topics
from tailrace.spark.source.ranges import Bounds
from tailrace.spark.tables.job.planning import (
    LARGE_RECORD_BYTES,
    MOST_BUCKET_BYTES,
    At,
    Limits,
    fitting,
    furthest,
    is_ahead,
    losses,
    may_be_too_large,
    next_batch,
    tasks_of,
)
from tailrace.spark.tables.job.topic import Sight

TOPIC = "orders"
PLENTY = Limits(1_000_000)
OFFSETS = st.dictionaries(st.integers(0, 3), st.integers(0, 50), max_size=4)


def sight(*ends: int, start: int = 0) -> Sight:
    return Sight("id", {each: Bounds(start, end) for each, end in enumerate(ends)})


def test_a_batch_takes_what_has_come() -> None:
    batch = next_batch(TOPIC, At({0: 3, 1: 5}, {0: 3}), sight(10, 5), PLENTY)
    assert batch is not None
    assert (batch.start, batch.end) == ({0: 3, 1: 5}, {0: 10, 1: 5})
    assert [tuple(each)[:3] for each in batch.ranges] == [(TopicPartition(TOPIC, 0), 3, 10)]
    assert (batch.records, batch.left, batch.is_last) == (7, 7, True)


def test_nothing_has_come() -> None:
    assert next_batch(TOPIC, At({0: 10}, {}), sight(10), PLENTY) is None


def test_no_more_than_may_be_at_once() -> None:
    batch = next_batch(TOPIC, At({0: 0, 1: 0}, {}), sight(100, 300), Limits(40))
    assert batch is not None
    assert batch.end == {0: 10, 1: 30}
    assert not batch.is_last


@pytest.mark.parametrize(
    ("buckets", "record_bytes", "most"),
    [(32, 0, 5_000_000), (32, 100, 5_000_000), (32, 100_000, 85_899), (1, 10_000, 26_843), (1, 10**12, 1)],
)
def test_of_large_records_fewer_are_taken_at_once(buckets: int, record_bytes: int, most: int) -> None:
    limits = fitting(Limits(5_000_000, 7), buckets, record_bytes)
    assert (limits.max_offsets, limits.min_offsets) == (most, 7)
    assert most == 1 or most * record_bytes <= buckets * MOST_BUCKET_BYTES
    batch = next_batch(TOPIC, At({0: 0}, {}), sight(5_000_000), limits)
    assert batch is not None
    assert batch.records == most
    if record_bytes >= LARGE_RECORD_BYTES:
        assert not may_be_too_large(batch, buckets)


def test_records_are_looked_at_only_where_a_batch_has_very_many() -> None:
    batches = [next_batch(TOPIC, At({0: 0}, {}), sight(count), PLENTY) for count in (2_684, 2_685)]
    assert [each is not None and may_be_too_large(each, 1) for each in batches] == [False, True]


def test_a_new_partition_begins_at_its_start() -> None:
    batch = next_batch(TOPIC, At({0: 4}, {0: 4}), sight(4, 6), PLENTY)
    assert batch is not None
    assert (batch.start, batch.end) == ({0: 4, 1: 0}, {0: 4, 1: 6})


def test_a_partition_that_is_not_there_any_more_keeps_its_offset() -> None:
    batch = next_batch(TOPIC, At({0: 4, 7: 9}, {}), sight(6), PLENTY)
    assert batch is not None
    assert batch.end == {0: 6, 7: 9}


def test_what_the_log_lost_is_not_read() -> None:
    batch = next_batch(TOPIC, At({0: 4}, {}), sight(20, start=10), PLENTY)
    assert batch is not None
    assert batch.ranges[0][1:3] == (10, 20)
    assert batch.end == {0: 20}
    assert batch.is_last


def test_a_log_that_was_cut_is_waited_for() -> None:
    assert next_batch(TOPIC, At({0: 14}, {}), sight(10), PLENTY) is None
    batch = next_batch(TOPIC, At({0: 14, 1: 0}, {}), sight(10, 2), PLENTY)
    assert batch is not None
    assert batch.end == {0: 14, 1: 2}


def test_hidden_rows_that_are_ahead_say_where_it_ends() -> None:
    at = At({0: 4, 1: 9}, {}, {0: 8, 1: 2})
    batch = next_batch(TOPIC, at, sight(20, 30), Limits(1))
    assert batch is not None
    assert batch.end == {0: 8, 1: 9}
    assert not batch.is_last


@pytest.mark.parametrize(("most", "end"), [(10, 8), (2, 6)])
def test_dead_letters_that_are_ahead_say_it_unless_it_is_far(most: int, end: int) -> None:
    batch = next_batch(TOPIC, At({0: 4}, {0: 8}), sight(20), Limits(most))
    assert batch is not None
    assert batch.end == {0: end}


def test_dead_letters_do_not_lead_to_what_is_not_there() -> None:
    """They were read uncommitted, or the log was cut: what comes at these offsets later is to be read then."""
    at = At({0: 4, 1: 0}, {0: 8, 1: 9})
    for seen, until in ((sight(6, 3), None), (sight(20, 30), {0: 6, 1: 3})):
        batch = next_batch(TOPIC, at, seen, PLENTY, until)
        assert batch is not None
        assert batch.end == {0: 6, 1: 3}
        assert next_batch(TOPIC, At(batch.end, at.dead), seen, PLENTY, until) is None


def test_a_run_ends_where_the_topic_ended_when_it_began() -> None:
    batch = next_batch(TOPIC, At({0: 4}, {}), sight(20, 5), PLENTY, until={0: 10})
    assert batch is not None
    assert batch.end == {0: 10, 1: 0}
    assert next_batch(TOPIC, At({0: 10}, {}), sight(20, 5), PLENTY, until={0: 10}) is None


def test_a_batch_waits_for_enough_but_not_for_ever() -> None:
    at = At({0: 0}, {})
    assert next_batch(TOPIC, at, sight(5), Limits(100, 10, 50, 1_000)) is None
    assert next_batch(TOPIC, at, sight(5), Limits(100, 10, 1_000, 1_000)) is not None


@given(OFFSETS, OFFSETS, OFFSETS, OFFSETS, st.integers(1, 60))
def test_batches_get_to_the_end(main: Any, dead: Any, hidden: Any, ends: Any, most: int) -> None:
    """In steps that go forward, each record in one of them, and then there is nothing more to do."""
    there = Sight("id", {each: Bounds(0, end) for each, end in ends.items()})
    at = At(main, dead, hidden)
    read: dict[int, int] = {each: main.get(each, 0) for each in ends}
    for _ in range(500):
        batch = next_batch(TOPIC, at, there, Limits(most))
        if batch is None:
            break
        assert all(batch.end[each] >= offset for each, offset in at.main.items())
        assert batch.end != at.main
        assert all(
            end <= max(ends.get(each, 0), main.get(each, 0), hidden.get(each, 0)) for each, end in batch.end.items()
        )
        for each in batch.ranges:
            assert each.start == read[each.partition.partition]
            read[each.partition.partition] = each.end
        at = At(batch.end, at.dead, at.hidden)
    assert next_batch(TOPIC, at, there, Limits(most)) is None
    for each, end in ends.items():
        assert read[each] == max(end, main.get(each, 0))
        assert at.main.get(each, 0) >= end


def test_ahead_and_furthest() -> None:
    assert is_ahead({0: 4}, {})
    assert is_ahead({0: 4, 1: 1}, {0: 3, 1: 9})
    assert not is_ahead({0: 4}, {0: 4, 1: 2})
    assert furthest({0: 4, 1: 1}, {1: 9, 2: 0}) == {0: 4, 1: 9, 2: 0}


def test_losses() -> None:
    bounds = {0: Bounds(10, 20), 1: Bounds(0, 5), 2: Bounds(3, 4), 3: Bounds(0, 9)}
    found = losses(TOPIC, At({0: 4, 1: 8, 3: 2, 5: 1}, {}), bounds)
    assert [(each.partition.partition, each.start, each.end) for each in found] == [
        (0, 4, 10),
        (1, 5, 8),
        (2, 0, 3),
        (5, 1, None),
    ]


@pytest.mark.parametrize("at", [At({0: 5}, {}, {0: 10}), At({0: 5}, {0: 10}), At({0: 5}, {0: 10}, {0: 6})])
def test_a_log_that_lost_what_tables_beside_have(at: At) -> None:
    """A batch that was under way ends where the log does not reach any more: not without a word."""
    bounds = {0: Bounds(0, 8)}
    assert [(each.start, each.end) for each in losses(TOPIC, at, bounds)] == [(8, 10)]
    assert losses(TOPIC, at, {0: Bounds(0, 10)}) == []


def test_tasks_are_as_many_as_are_worth_it() -> None:
    options = SourceOptions(Topics((TOPIC,)), brokers="broker:9092")

    def tasks(records: int) -> int:
        batch = next_batch(TOPIC, At({0: 0}, {}), sight(records), Limits(100_000_000))
        assert batch is not None
        return len(tasks_of(batch, options, 4))

    assert [tasks(each) for each in (10, 60_000, 3_000_000, 20_000_000)] == [1, 2, 4, 10]
