"""Durations in settings."""

from __future__ import annotations

import pytest

from tailrace.config.durations import duration_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [("PT1H", 3_600_000), ("P1DT2H3M4.5S", 93_784_500), ("PT0.001S", 1), ("p2d", 172_800_000)],
)
def test_a_duration_is_written_as_iso_8601_has_it(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "1H", "PT1", "PT-1S", "PT1H ", "P1Y", "PT" + "9" * 40 + "S"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        duration_ms(text)
