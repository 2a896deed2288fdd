"""Prints which items of docs/spec-checklist.md are proven by passing tests, and how many of each group.

The checklist's tables define the items; the records of the last whole runs (`run_record`) say which tests passed. Every
kind of run counts (`test`, `test-long`).
The exit code says nothing about the items: it is always 0.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import run_record
from run_record import PASSED, ROOT, Result

CHECKLIST = "docs/spec-checklist.md"

GROUP_HEADING = re.compile(r"## ([A-Z]{2}) · (.+)")
ITEM_ROW = re.compile(r"\| ([A-Z]{2})-(\d{2,}) \| (.+) \|")


class ChecklistError(Exception):
    """The checklist contradicts itself."""


@dataclass(frozen=True)
class Group:
    name: str
    title: str
    items: dict[str, str] = field(default_factory=dict)  # id → behaviour, in the order of the table


def parse_checklist(text: str) -> list[Group]:
    groups: list[Group] = []
    for line in text.splitlines():
        if heading := GROUP_HEADING.fullmatch(line.rstrip()):
            groups.append(Group(heading[1], heading[2]))
        elif row := ITEM_ROW.fullmatch(line.rstrip()):
            item = f"{row[1]}-{row[2]}"
            if not groups or groups[-1].name != row[1]:
                raise ChecklistError(f"{item} is outside the table of group {row[1]}")
            if item in groups[-1].items:
                raise ChecklistError(f"{item} is there twice")
            groups[-1].items[item] = row[3]
    return groups


def render(groups: Sequence[Group], results: Sequence[Result]) -> str:
    tests_of_item: dict[str, list[Result]] = {}
    for result in results:
        for item in result.ids:
            tests_of_item.setdefault(item, []).append(result)

    lines: list[str] = []
    for group in groups:
        lines += [f"{group.name} · {group.title}"]
        for item, behaviour in group.items.items():
            tests = tests_of_item.get(item, [])
            passed = any(test.outcome == PASSED for test in tests)
            lines += [f"  {item}  {'proven  ' if passed else 'UNPROVEN'}  {shorten(behaviour)}"]
            lines += [f"           {line}" for line in describe(tests, only=PASSED if passed else None)]
        lines += [""]
    return "\n".join(lines + totals(groups, results)) + "\n"


def totals(groups: Iterable[Group], results: Iterable[Result]) -> list[str]:
    """For each group the number of items that passing tests prove."""
    proven = {item for result in results if result.outcome == PASSED for item in result.ids}
    return [f"{group.name} {sum(item in proven for item in group.items)}/{len(group.items)}" for group in groups]


def describe(tests: Iterable[Result], only: str | None) -> list[str]:
    """One line per test function and outcome, with the number of its cases."""
    cases: dict[tuple[str, str], int] = {}
    for test in tests:
        if only in (None, test.outcome):
            key = (test.test.partition("[")[0], test.outcome)
            cases[key] = cases.get(key, 0) + 1
    return [
        ("" if outcome == PASSED else f"{outcome}: ") + function + (f" ({count} cases)" if count > 1 else "")
        for (function, outcome), count in sorted(cases.items())
    ]


def shorten(behaviour: str, width: int = 96) -> str:
    return behaviour if len(behaviour) <= width else behaviour[: width - 1].rstrip() + "…"


def main(root: Path = ROOT) -> int:
    groups = parse_checklist((root / CHECKLIST).read_text(encoding="utf-8"))
    results = [result for run in run_record.read_all(root) for result in run.results]
    sys.stdout.write(render(groups, results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
