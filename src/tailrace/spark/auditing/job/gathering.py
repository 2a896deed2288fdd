"""What many pieces say of one folder, so that one fault is told once and a ruined log does not fill the driver."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.rules import EPOCH_CHECKPOINT
from tailrace.storage.epoch_cache import EpochEntry
from tailrace.storage.names import LEADER_EPOCH_CHECKPOINT

MOST_OF_A_RULE: Final = 1000
"""In one folder."""


def once_for_each_entry(findings: Iterable[Finding], epochs: tuple[EpochEntry, ...]) -> list[Finding]:
    """An entry of leader-epoch-checkpoint that is wrong is so for every piece of its batches: the first counts.

    A piece that has a single batch takes that for wrong; where another one blames the entry, it is the entry.
    """
    starts = [entry.start_offset for entry in epochs]
    all_found = list(findings)
    blamed: dict[int, Finding] = {}
    for finding in all_found:
        if finding.rule == EPOCH_CHECKPOINT and finding.offset is not None and _is_of_checkpoint(finding):
            blamed.setdefault(bisect_right(starts, finding.offset), finding)
    return [
        finding
        for finding in all_found
        if finding.rule != EPOCH_CHECKPOINT
        or finding.offset is None
        or blamed.get(bisect_right(starts, finding.offset), finding) is finding
    ]


def _is_of_checkpoint(finding: Finding) -> bool:
    return finding.file.endswith("/" + LEADER_EPOCH_CHECKPOINT)


def few_of_each_rule(findings: Iterable[Finding], most: int = MOST_OF_A_RULE) -> list[Finding]:
    """The first of each, and how many more there were where the first of these stands."""
    seen: Counter[str] = Counter()
    first_over: dict[str, Finding] = {}
    kept: list[Finding] = []
    for finding in findings:
        seen[finding.rule] += 1
        if seen[finding.rule] <= most:
            kept.append(finding)
        else:
            first_over.setdefault(finding.rule, finding)
    return kept + [
        replace(finding, words=f"and {seen[rule] - most} more in this folder from here on")
        for rule, finding in first_over.items()
    ]
