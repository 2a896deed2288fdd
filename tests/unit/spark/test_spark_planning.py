"""Pieces cover their ranges exactly, and are as many as Spark's Kafka source makes of the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.model.ids import TopicPartition
from tailrace.spark.errors import OptionError
from tailrace.spark.source.planning import pieces
from tailrace.spark.source.ranges import OffsetRange

Spans = list[tuple[int, int]]


def made(spans: Spans, min_partitions: int | None = None, max_records: int | None = None) -> list[tuple[int, int, int]]:
    ranges = [OffsetRange(TopicPartition("t", number), *span, "id") for number, span in enumerate(spans)]
    cut = pieces(ranges, min_partitions=min_partitions, max_records_per_partition=max_records)
    assert all(each.topic_id == "id" for each in cut)
    return [(each.partition.partition, each.start, each.end) for each in cut]


def test_a_partition_is_one_piece_and_empty_ones_are_none() -> None:
    assert made([(1, 2), (1, 1), (5, 3), (0, 9)]) == [(0, 1, 2), (3, 0, 9)]
    assert made([]) == []
    assert made([(4, 4)], min_partitions=3, max_records=2) == []


@pytest.mark.parametrize(
    ("spans", "wanted", "expected"),
    [
        ([(1, 2), (1, 2), (1, 2)], 3, [(0, 1, 2), (1, 1, 2), (2, 1, 2)]),
        ([(1, 5), (1, 21)], 1, [(0, 1, 5), (1, 1, 21)]),
        ([(1, 5)], 4, [(0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5)]),
        ([(1, 5), (1, 21)], 4, [(0, 1, 5), (1, 1, 7), (1, 7, 14), (1, 14, 21)]),
        ([(1, 2), (1, 1001)], 4, [(0, 1, 2), (1, 1, 334), (1, 334, 667), (1, 667, 1001)]),
        ([(1, 11)], 3, [(0, 1, 4), (0, 4, 7), (0, 7, 11)]),
        (
            [(0, 10), (0, 10), (0, 1)],
            6,
            [(0, 0, 3), (0, 3, 6), (0, 6, 10), (1, 0, 3), (1, 3, 6), (1, 6, 10), (2, 0, 1)],
        ),
        (
            [(0, 500), (0, 12000), (0, 15001)],
            6,
            [(0, 0, 500), (1, 0, 6000), (1, 6000, 12000), (2, 0, 5000), (2, 5000, 10000), (2, 10000, 15001)],
        ),
    ],
)
def test_min_partitions_cuts_large_ranges_as_spark_does(
    spans: Spans, wanted: int, expected: list[tuple[int, int, int]]
) -> None:
    assert made(spans, min_partitions=wanted) == expected


@pytest.mark.parametrize(
    ("spans", "most", "expected"),
    [
        ([(1, 5)], 4, [(0, 1, 5)]),
        ([(1, 6)], 4, [(0, 1, 3), (0, 3, 6)]),
        ([(1, 40), (1, 50)], 20, [(0, 1, 20), (0, 20, 40), (1, 1, 17), (1, 17, 33), (1, 33, 50)]),
    ],
)
def test_max_records_cuts_into_equal_pieces_as_spark_does(
    spans: Spans, most: int, expected: list[tuple[int, int, int]]
) -> None:
    assert made(spans, max_records=most) == expected


def test_both_together_cut_by_records_first() -> None:
    assert made([(1, 40)], 1, 20) == [(0, 1, 20), (0, 20, 40)]
    assert made([(1, 40)], 4, 20) == [(0, 1, 10), (0, 10, 20), (0, 20, 30), (0, 30, 40)]


def test_more_tasks_than_anybody_could_want_are_refused_before_they_are_made() -> None:
    with pytest.raises(OptionError, match=r"maxRecordsPerPartition is 1: .*1000000000 tasks"):
        made([(0, 10**9)], max_records=1)
    with pytest.raises(OptionError, match="minPartitions is 2147483647"):
        made([(0, 10**9)], min_partitions=(1 << 31) - 1)
    assert len(made([(0, 3)], min_partitions=(1 << 31) - 1)) == 3


SPANS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 200)), max_size=6)


@given(SPANS, st.none() | st.integers(1, 60), st.none() | st.integers(1, 60))
def test_pieces_are_the_ranges_again_without_gaps_or_overlaps(
    spans: Spans, wanted: int | None, most: int | None
) -> None:
    found = made(spans, wanted, most)
    assert all(start < end for _, start, end in found)
    assert all(end - start <= most for _, start, end in found if most is not None)
    offsets = [(number, offset) for number, start, end in found for offset in range(start, end)]
    assert offsets == [(number, offset) for number, span in enumerate(spans) for offset in range(*span)]


@given(st.integers(1, 40), st.integers(1, 10_000))
def test_one_range_gives_as_many_pieces_as_wanted_while_it_has_offsets(wanted: int, size: int) -> None:
    assert len(made([(0, size)], min_partitions=wanted)) == min(wanted, size)
