"""Quantiles forget what is minutes old."""

from __future__ import annotations

from tailrace.metrics.distribution import Distribution
from tailrace.metrics.histogram import Histogram
from tailrace.metrics.quantiles import PERIOD_MS, SHARES, RecentQuantiles

MEDIAN = SHARES.index(0.5)


def sample(histogram: Histogram, name: str = "a") -> Distribution:
    return Distribution("network", "RequestMetrics", name, tuple(histogram.counts), histogram.total)


def test_old_values_count_until_they_are_a_period_old() -> None:
    histogram, recent = Histogram(), RecentQuantiles()
    for _ in range(1000):
        histogram.record(4)
    assert recent.of(sample(histogram), 0)[MEDIAN] == 4
    histogram.record(7)
    assert recent.of(sample(histogram), PERIOD_MS - 1)[MEDIAN] == 4
    histogram.record(7)
    assert recent.of(sample(histogram), PERIOD_MS)[MEDIAN] == 7, "what was there at the first reading is gone"
    assert recent.of(sample(histogram), PERIOD_MS + 1)[MEDIAN] == 7


def test_without_anything_new_for_long_they_are_zero() -> None:
    histogram, recent = Histogram(), RecentQuantiles()
    histogram.record(4)
    for minute in range(3):
        values = recent.of(sample(histogram), minute * PERIOD_MS)
    assert values == [0] * len(SHARES)


def test_each_histogram_has_its_own_past() -> None:
    histogram, recent = Histogram(), RecentQuantiles()
    histogram.record(4)
    for minute in range(3):
        recent.of(sample(histogram), minute * PERIOD_MS)
    assert recent.of(sample(histogram, "b"), 3 * PERIOD_MS)[MEDIAN] == 4
