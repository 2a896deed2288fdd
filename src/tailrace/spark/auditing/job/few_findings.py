"""Findings about many files, of which each rule may have so many only."""

from __future__ import annotations

from typing import Final

from tailrace.spark.auditing.finding import Finding

MOST_OF_A_RULE: Final = 100


class FewFindings:
    """Of each rule the first MOST_OF_A_RULE are kept, and one that counts the rest."""

    def __init__(self, partition: str | None) -> None:
        self._partition = partition
        self._kept: list[Finding] = []
        self._seen: dict[str, int] = {}
        self._next: dict[str, str] = {}

    def add(self, file: str, rule: str, words: str, offset: int | None = None) -> None:
        self._seen[rule] = self._seen.get(rule, 0) + 1
        if self._seen[rule] <= MOST_OF_A_RULE:
            self._kept.append(Finding(file, self._partition, offset, rule, words))
        else:
            self._next.setdefault(rule, file)

    def all(self) -> list[Finding]:
        more = [
            Finding(file, self._partition, None, rule, f"and {self._seen[rule] - MOST_OF_A_RULE} more files like it")
            for rule, file in self._next.items()
        ]
        return [*self._kept, *more]
