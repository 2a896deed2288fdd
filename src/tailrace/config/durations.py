"""Durations as ISO 8601 writes them: PnDTnHnMn.nS."""

from __future__ import annotations

import re
from typing import Final

_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d{1,9})D)?"
    r"(?:T(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?(?:(?P<seconds>\d{1,9}(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE | re.ASCII,
)
_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000}


def duration_ms(text: str) -> int:
    """ValueError unless the text is such a duration, and not negative."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise ValueError(f"{text!r} is no duration such as PT1H")
    return int(sum(float(value) * _MS[unit] for unit, value in match.groupdict().items() if value is not None))
