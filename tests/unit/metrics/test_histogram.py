"""Buckets and quantiles."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tailrace.metrics.histogram import BUCKETS, Histogram, bounds, quantile

VALUES = st.one_of(st.integers(0, 5000), st.integers(0, 2**36 - 1))


@given(VALUES)
def test_a_value_is_in_a_bucket_that_holds_it_within_an_eighth(value: int) -> None:
    histogram = Histogram()
    histogram.record(value)
    (bucket,) = [place for place, count in enumerate(histogram.counts) if count]
    least, above = bounds(bucket)
    assert least <= value < above
    assert above - least <= max(1, value / 8)


def test_buckets_follow_each_other_without_holes() -> None:
    edges = [bounds(bucket) for bucket in range(BUCKETS)]
    assert edges[0][0] == 0
    assert all(above == least for (_, above), (least, _) in pairwise(edges))
    assert edges[-1][1] == 2**36


def test_what_is_too_large_is_in_the_last_bucket() -> None:
    histogram = Histogram()
    histogram.record(2**60)
    assert histogram.counts[-1] == 1
    assert histogram.total == 2**60


@given(st.lists(VALUES, min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 0.99]))
def test_quantiles_are_right_within_an_eighth(values: list[int], share: float) -> None:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    ordered = sorted(values)
    wanted = share * len(values)
    exact = next(value for place, value in enumerate(ordered, 1) if place >= wanted)
    assert abs(quantile(histogram.counts, share) - exact) <= max(1, exact / 8)


def test_a_quantile_of_nothing_is_zero() -> None:
    assert quantile(Histogram().counts, 0.99) == 0


@given(VALUES, st.integers(1, 50))
def test_many_at_once_are_as_many_one_by_one(value: int, times: int) -> None:
    at_once, one_by_one = Histogram(), Histogram()
    at_once.record_many(value, times)
    for _ in range(times):
        one_by_one.record(value)
    assert (at_once.counts, at_once.total) == (one_by_one.counts, one_by_one.total)


def test_histograms_add_up() -> None:
    one, other = Histogram(), Histogram()
    one.record(3)
    other.record(3)
    other.record(5000)
    one.add(other)
    assert (sum(one.counts), one.counts[3], one.total) == (3, 2, 5006)
