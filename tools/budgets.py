"""Checks the time budget of each test folder: prints budget and actual, warns above 1.5 times, fails above 3 times.

tests/budgets.toml gives each folder a budget in summed test seconds (setup, call and teardown), separately for
`make test` and `make test-long`. A folder that is part of another one counts separately. The budgets leave room for
other load on the machine; what does not fit gets a target of its own, run by hand.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import run_record
from run_record import ROOT, RunRecord, Times

BUDGETS = "tests/budgets.toml"
WARN_ABOVE, FAIL_ABOVE = 1.5, 3.0


class BudgetError(Exception):
    """The table of budgets does not fit the tests."""


class Row(NamedTuple):
    run: str
    folder: str
    budget: float
    times: Times

    @property
    def ratio(self) -> float:
        return self.times.seconds / self.budget

    @property
    def verdict(self) -> str:
        return "FAIL" if self.ratio > FAIL_ABOVE else "warn" if self.ratio > WARN_ABOVE else "ok"


def read_budgets(root: Path = ROOT) -> dict[str, dict[str, float]]:
    """Kind of run → folder → seconds."""
    return tomllib.loads((root / BUDGETS).read_text(encoding="utf-8"))


def folder_of(file: str, folders: dict[str, float]) -> str:
    """The longest folder of the table that holds the file."""
    parts = file.split("/")[:-1]
    for length in range(len(parts), 0, -1):
        if (folder := "/".join(parts[:length])) in folders:
            return folder
    raise BudgetError(f"no budget for {file}\nhint: add its folder to {BUDGETS}")


def rows_of(run: RunRecord, budgets: dict[str, float]) -> list[Row]:
    """A row for each folder with a budget, in the order of the table."""
    sums = dict.fromkeys(budgets, Times())
    for file, times in run_record.times_by_file(run.results).items():
        folder = folder_of(file, budgets)
        sums[folder] = Times(sums[folder].seconds + times.seconds, sums[folder].cpu + times.cpu)
    return [Row(run.name, folder, budgets[folder], times) for folder, times in sums.items()]


def render(rows: list[Row]) -> str:
    width = max(len(row.folder) for row in rows)
    lines = [f"{'folder':<{width}} {'budget':>8} {'actual':>8} {'CPU':>8} {'ratio':>6}"]
    for row in rows:
        verdict = "" if row.verdict == "ok" else f"  {row.verdict}"
        times = f"{row.budget:6.0f} s {row.times.seconds:6.1f} s {row.times.cpu:6.1f} s"
        lines.append(f"{row.folder:<{width}} {times} {row.ratio:6.2f}{verdict}")
    budget, actual = sum(row.budget for row in rows), sum(row.times.seconds for row in rows)
    cpu = sum(row.times.cpu for row in rows)
    lines.append(f"{'total':<{width}} {budget:6.0f} s {actual:6.1f} s {cpu:6.1f} s {actual / budget:6.2f}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args(arguments)
    budgets = read_budgets(root)
    rows: list[Row] = []
    try:
        for run in run_record.read_all(root):
            rows += rows_of(run, budgets.get(run.name, {}))
    except BudgetError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if not rows:
        print("error: no test run is recorded\nhint: run make test first", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps([{**row._asdict(), "times": row.times._asdict(), "verdict": row.verdict} for row in rows]))
    else:
        for name in dict.fromkeys(row.run for row in rows):
            print(f"make {name}: budgets in summed test seconds\n{render([row for row in rows if row.run == name])}\n")
    over = [row for row in rows if row.verdict == "FAIL"]
    for row in over:
        print(f"error: {row.folder} takes {row.ratio:.1f} times its budget in make {row.run}", file=sys.stderr)
    if over:
        print("hint: `make slow` lists the slowest tests; make them cheaper or mark them long", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
