"""A line that repeats is logged at growing intervals."""

from __future__ import annotations

from itertools import pairwise

from tailrace.model.line_limit import FIRST_INTERVAL_MS, MAX_INTERVAL_MS, LineLimit


def logged(limit: LineLimit, first_ms: int, end_ms: int, key: str = "refused") -> list[int]:
    return [ms for ms in range(first_ms, end_ms, 500) if limit.is_due(key, ms)]


def test_intervals_double_up_to_the_maximum() -> None:
    found = logged(LineLimit(), 0, 3_000_000)
    gaps = [later - earlier for earlier, later in pairwise(found)]
    assert gaps[:6] == [FIRST_INTERVAL_MS << each for each in range(6)]
    assert gaps[6:] == [MAX_INTERVAL_MS] * len(gaps[6:])
    assert len(gaps) > 8


def test_keys_are_independent() -> None:
    limit = LineLimit()
    assert logged(limit, 0, 1_000) == [0]
    assert logged(limit, 500, 1_000, "closed") == [500]


def test_a_line_that_was_absent_begins_again() -> None:
    limit = LineLimit()
    assert logged(limit, 0, 15_000) == [0, 10_000]
    assert logged(limit, 60_000, 75_000) == [60_000, 70_000]


def test_reset_logs_the_next_line() -> None:
    limit = LineLimit()
    assert logged(limit, 0, 1_000) == [0]
    limit.reset()
    assert logged(limit, 1_000, 2_000) == [1_000]
