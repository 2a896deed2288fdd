"""Numbers as people read them, axes, bins and shares: for everything that a log may state."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.spark.report.amounts import counted, moment, shown, size, span
from tailrace.spark.report.bins import doubling, merged
from tailrace.spark.report.page import Unit
from tailrace.spark.report.scale import LAST_SECOND, ticks, time_step, time_ticks
from tailrace.spark.report.skew import concentration, gini, held_by_top
from tailrace.spark.report.timeline import timeline

UNITS: tuple[Unit, ...] = ("count", "count/s", "bytes", "bytes/s", "share", "ratio", "seconds", "time")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "bytes", "0 B"),
        (999, "bytes", "999 B"),
        (1024, "bytes", "1 KiB"),
        (1_300_000, "bytes", "1.24 MiB"),
        (2**80, "bytes", "1,024 ZiB"),
        (9_999, "count", "9,999"),
        (12_345, "count", "12.3 k"),
        (1.5, "count/s", "1.5/s"),
        (0.0004, "share", "< 0.1 %"),
        (0.5, "share", "50 %"),
        (1.0, "ratio", "1.00×"),
        (0.25, "seconds", "250 ms"),
        (3723, "seconds", "1 h 2 min"),
        (86_400 * 3, "seconds", "3 d"),
        (1_794_000_000, "time", "2026-11-06 21:20"),
        (-1, "time", "–"),
        (2**62, "time", "–"),
        (math.nan, "count", "–"),
        (math.inf, "bytes", "–"),
    ],
)
def test_a_number_is_shown(value: float, unit: Unit, text: str) -> None:
    assert shown(value, unit) == text


@given(st.floats() | st.integers(-(2**64), 2**64), st.sampled_from(UNITS))
def test_no_number_is_too_odd_to_show(value: float, unit: Unit) -> None:
    assert shown(value, unit)


def test_a_count_has_its_noun() -> None:
    assert [counted(1, "batch", "batches"), counted(2, "batch", "batches")] == ["1 batch", "2 batches"]
    assert counted(0, "error") == "0 errors"
    assert (size(1536), span(90), moment(59)) == ("1.5 KiB", "1 min 30 s", "1970-01-01 00:00:59")


@given(st.floats(0, 1e30), st.sampled_from(UNITS))
def test_an_axis_reaches_its_top_in_a_few_even_steps(top: float, unit: Unit) -> None:
    marks = ticks(top, unit)
    assert marks[0] == 0
    assert 2 <= len(marks) <= 6
    assert marks[-1] >= top * (1 - 1e-6)
    steps = [after - before for before, after in pairwise(marks)]
    assert steps == pytest.approx([steps[0]] * len(steps))


def test_bytes_have_steps_of_powers_of_two() -> None:
    assert ticks(70_000, "bytes") == [0, 16384, 32768, 49152, 65536, 81920]
    assert ticks(7, "count") == [0, 2, 4, 6, 8]
    assert ticks(math.inf, "count") == ticks(0, "count") == [0, 1]


@given(st.integers(0, LAST_SECOND), st.integers(0, LAST_SECOND), st.integers(2, 8))
def test_moments_on_an_axis_are_few_and_within_it(first: int, length: int, most: int) -> None:
    last = first + length
    found = time_ticks(first, last, most)
    assert len(found) <= most + 1
    assert all(first <= at <= last and words for at, words in found)


def test_moments_say_no_more_than_they_need() -> None:
    noon = 1_794_139_200  # 2026-11-08 12:00
    assert [words for _, words in time_ticks(noon, noon + 240)] == ["12:00", "12:01", "12:02", "12:03", "12:04"]
    assert [words for _, words in time_ticks(noon, noon + 86_400 * 3, 4)] == ["9 Nov", "10 Nov", "11 Nov"]
    assert [words for _, words in time_ticks(noon, noon + 20)] == [
        "12:00:00",
        "12:00:05",
        "12:00:10",
        "12:00:15",
        "12:00:20",
    ]
    assert time_step(10**12, 6) % (365 * 86_400) == 0


@given(st.dictionaries(st.integers(-(2**60), 2**60), st.integers(0, 2**50), max_size=60))
def test_minutes_become_bins_that_hold_what_is_shown(amounts: dict[int, int]) -> None:
    found = timeline(amounts)
    if found is None:
        assert not any(amount for minute, amount in amounts.items() if 0 <= minute <= LAST_SECOND // 60)
        return
    total = sum(amounts.values())
    assert 1 <= found.count <= 121
    assert sum(found.sums(amounts)) == pytest.approx(total * (1 - found.left_out), abs=1)
    assert len(found.rates(amounts)) == found.count
    grown = [y for _, y in found.growth(amounts)]
    assert grown == sorted(grown)


def test_one_stray_minute_does_not_stretch_the_axis() -> None:
    amounts = dict.fromkeys(range(29_900_000, 29_900_600), 1000) | {0: 5, 80_000_000: 5}
    found = timeline(amounts)
    assert found is not None
    assert (found.start, found.minutes, found.count) == (29_900_000, 5, 120)
    assert 0 < found.left_out < 0.001
    assert found.growth(amounts)[0][1] == 5  # what lies before is there when it begins


def test_an_even_axis_has_round_bins() -> None:
    found = timeline({29_900_003: 60, 29_900_004: 120})
    assert found is not None
    assert (found.minutes, found.count, found.left_out) == (1, 2, 0)
    assert found.rates({29_900_003: 60, 29_900_004: 120}) == [(1_794_000_180.0, 1.0), (1_794_000_240.0, 2.0)]
    assert timeline({}) is timeline({5: 0}) is timeline({-7: 9}) is None


@given(st.lists(st.integers(0, 10**9), max_size=300))
def test_shares_of_keys(counts: list[int]) -> None:
    curve = concentration(counts)
    if not any(counts):
        assert curve == []
        assert gini(counts) == held_by_top(counts, 3) == 0
        return
    assert curve[0] == (0, 0)
    assert curve[-1] == (1, 1)
    assert all(x <= y + 1e-9 for x, y in curve)
    assert [x for x, _ in curve] == sorted({x for x, _ in curve})
    assert 0 <= gini(counts) < 1
    assert held_by_top(counts, len(counts)) == 1


def test_shares_that_can_be_told_by_hand() -> None:
    assert gini([5, 5, 5]) == pytest.approx(0)
    assert gini([1, 1, 1, 97]) == pytest.approx(0.72)
    assert concentration([1, 1, 1, 97]) == [(0, 0), (0.25, 0.97), (0.5, 0.98), (0.75, 0.99), (1, 1)]
    assert held_by_top([1, 1, 1, 97], 1) == 0.97


def test_bins_that_double() -> None:
    assert [(each.low, each.high, each.count) for each in doubling([3, 0, 5, 0])] == [(0, 1, 3), (1, 2, 0), (2, 4, 5)]
    assert doubling([0, 0]) == []


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=200))
def test_merged_bins_hold_every_number_where_it_belongs(numbers: list[int]) -> None:
    """Bins as statistics have them: powers of two cut in eight."""

    def cut(number: int) -> tuple[int, int]:
        width = 1 << max(number.bit_length() - 4, 0)
        return number // width * width, number // width * width + width

    bins = [(*cut(number), 1) for number in numbers]
    found = merged(bins, most=32)
    assert sum(each.count for each in found) == len(numbers)
    assert all(before.high == after.low for before, after in pairwise(found))
    for each in found:
        assert each.count == sum(each.low <= number < each.high for number in numbers)
    assert found[0].count
    assert found[-1].count
