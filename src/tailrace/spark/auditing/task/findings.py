"""What the rules of a task say, so that a file full of faults does not make a report without end."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from tailrace.spark.auditing.finding import Finding

MOST_OF_A_RULE: Final = 100


class Findings:
    """Call it with each finding. Of every rule the first MOST_OF_A_RULE of each file are kept, and the rest counted."""

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._seen: Counter[tuple[str, str]] = Counter()
        self._last: dict[tuple[str, str], Finding] = {}

    def __call__(self, finding: Finding) -> None:
        kind = (finding.rule, finding.file)
        self._seen[kind] += 1
        if self._seen[kind] <= MOST_OF_A_RULE:
            self._kept.append(finding)
        else:
            self._last.setdefault(kind, finding)

    def all(self) -> list[Finding]:
        """In the order of positions, each file's together; behind those of a rule that has more, how many."""
        found = sorted(self._kept, key=lambda one: (one.file, -1 if one.position is None else one.position))
        for kind, first in sorted(self._last.items()):
            more = self._seen[kind] - MOST_OF_A_RULE
            found.append(replace(first, words=f"and {more} more from here on"))
        return found
