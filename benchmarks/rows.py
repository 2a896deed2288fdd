"""One line of a benchmark's table: two sides, five rounds each, alternating; medians, spread, and the mark to reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

ROUNDS = 5


@dataclass(frozen=True)
class Row:
    name: str
    ours: str
    mark: str
    bare: str
    result: str
    holds: bool
    figures: dict[str, Any] = field(default_factory=dict)


def ratio_row(
    name: str,
    *,
    ours: Callable[[], float],
    bare: Callable[[], float],
    work: float,
    unit: str,
    mark: float | None,
    spread_counts: bool = False,
) -> Row:
    """`ours` and `bare` return seconds for `work` units; the ratio is that of their rates in each round.

    Without a mark the row is only to be read. With `spread_counts` the mark holds also when 1 lies within the spread
    of the rounds' ratios.
    """
    ours(), bare()
    rounds = [(work / ours(), work / bare()) for _ in range(ROUNDS)]
    ratios = sorted(mine / theirs for mine, theirs in rounds)
    middle = median(ratios)
    holds = mark is None or middle >= mark or (spread_counts and ratios[-1] >= 1)
    return Row(
        name,
        f"{median(mine for mine, _ in rounds):,.1f} {unit}",
        "" if mark is None else f"≥ {mark:g}",
        f"{median(theirs for _, theirs in rounds):,.1f} {unit}",
        f"{middle:.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f})",
        holds,
        {"rounds": rounds, "ratios": ratios, "unit": unit, "mark": mark},
    )
