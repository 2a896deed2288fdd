from __future__ import annotations

import argparse

import pytest

from tailrace.cli.durations import duration_ms, shown_duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0s", 0),
        ("250ms", 250),
        ("90s", 90_000),
        ("1.5h", 5_400_000),
        ("1h30m", 5_400_000),
        ("2D", 172_800_000),
        ("1w", 604_800_000),
        ("PT1H30M", 5_400_000),
        ("P1DT2S", 86_402_000),
        ("pt0.5s", 500),
    ],
)
def test_spans_as_they_are_written(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "5", "m", "-5m", "5 m", "1h30", "P", "PT", "P1Y", "1x", "9" * 15 + "w"])
def test_what_is_no_span(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="write 90s, 15m"):
        duration_ms(text)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.25, "250 ms"),
        (42.4, "42 s"),
        (60, "1 min"),
        (200, "3 min 20 s"),
        (18_060, "5 h 1 min"),
        (7200, "2 h"),
        (90_000, "1 d 1 h"),
        (86_400 * 1234, "1,234 d"),
    ],
)
def test_spans_as_they_are_shown(seconds: float, expected: str) -> None:
    assert shown_duration(seconds) == expected
