"""One line of the table that `peers_run.py` makes: two figures a round, their ratio, and the mark to reach."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import median
from typing import Any


@dataclass
class Row:
    """`rounds` has (ours, theirs). `mark` is of the ratio: the least where more is better, the most where less is."""

    key: str
    name: str
    unit: str
    mark: float
    more_is_better: bool
    labels: tuple[str, str] = ("Tailrace", "Kafka")
    spread_counts: bool = False  # the mark holds also when 1 lies within the rounds' ratios
    rounds: list[tuple[float, float]] = field(default_factory=list)
    details: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        return sorted(ours / theirs for ours, theirs in self.rounds if theirs)

    @property
    def ratio(self) -> float:
        return median(self.ratios)

    @property
    def holds(self) -> bool:
        reached = self.ratio >= self.mark if self.more_is_better else self.ratio <= self.mark
        return reached or (self.spread_counts and self.ratios[0] <= 1 <= self.ratios[-1])

    def middle(self, place: int) -> float:
        return median(pair[place] for pair in self.rounds)


def short(value: float) -> str:
    """Three digits that count: 0.0314, 3.14, 31,416."""
    return f"{value:,.{max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0}f}"
