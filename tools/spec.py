"""Prints which items of docs/spec-checklist.md are proven by passing tests, and how many of each group.

The checklist's tables are the truth about the items; the files in `.spec-results/`, written by the pytest plugin
tests/spec_results.py, are the truth about the tests. One file per kind of run (`test`, `test-long`); all count.
The exit code says nothing about the items: it is always 0.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CHECKLIST = "docs/spec-checklist.md"
RESULTS = ".spec-results"

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"

GROUP_HEADING = re.compile(r"## ([A-Z]{2}) · (.+)")
ITEM_ROW = re.compile(r"\| ([A-Z]{2})-(\d{2,}) \| (.+) \|")


class ChecklistError(Exception):
    """The checklist contradicts itself."""


@dataclass(frozen=True)
class Group:
    name: str
    title: str
    items: dict[str, str] = field(default_factory=dict)  # id → behaviour, in the order of the table


class Result(NamedTuple):
    test: str  # pytest's node id
    outcome: str
    ids: tuple[str, ...]


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


def read_results(folder: Path) -> Iterator[Result]:
    """The results of every kind of run; a file that cannot be read is named on stderr and proves nothing."""
    for path in sorted(folder.glob("*.json")):
        try:
            tests = json.loads(path.read_text())["tests"]
            yield from [Result(test, entry["outcome"], tuple(entry["ids"])) for test, entry in tests.items()]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            print(f"{path.name} left out: {type(error).__name__}: {error}", file=sys.stderr)


def render(groups: Iterable[Group], results: Iterable[Result]) -> str:
    tests_of_item: dict[str, list[Result]] = {}
    for result in results:
        for item in result.ids:
            tests_of_item.setdefault(item, []).append(result)

    lines: list[str] = []
    totals: list[str] = []
    for group in groups:
        lines += [f"{group.name} · {group.title}"]
        proven = 0
        for item, behaviour in group.items.items():
            tests = tests_of_item.get(item, [])
            passed = any(test.outcome == PASSED for test in tests)
            proven += passed
            lines += [f"  {item}  {'proven  ' if passed else 'UNPROVEN'}  {shorten(behaviour)}"]
            lines += [f"           {line}" for line in describe(tests, only=PASSED if passed else None)]
        lines += [""]
        totals += [f"{group.name} {proven}/{len(group.items)}"]
    return "\n".join(lines + totals) + "\n"


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
    sys.stdout.write(render(groups, read_results(root / RESULTS)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
