"""Prints one screen about the recorded test runs: counts, failures, skips, slowest files, proven items.

`.ci/run` prints it at its end. Budgets are printed by tools/budgets.py, the whole table of items by tools/spec.py.
"""

from __future__ import annotations

import sys
from collections import Counter

import run_record
import spec
from run_record import FAILED, PASSED, ROOT, SKIPPED, RunRecord

MAX_FAILURES, MAX_REASONS, MAX_FILES = 20, 8, 5


def render(run: RunRecord) -> list[str]:
    load = " to ".join(f"{value:.1f}" for value in run.load)
    counts = ", ".join(f"{run.count(outcome)} {outcome}" for outcome in (PASSED, FAILED, SKIPPED))
    lines = [f"make {run.name}: {counts} in {run.seconds:.0f} s on {run.workers} workers, load average {load}"]
    failures = [result.test for result in run.results if result.outcome == FAILED]
    lines += [f"  failed   {test}" for test in failures[:MAX_FAILURES]]
    if len(failures) > MAX_FAILURES:
        lines.append(f"  failed   and {len(failures) - MAX_FAILURES} more")
    reasons = Counter(result.reason or "no reason" for result in run.results if result.outcome == SKIPPED)
    lines += [f"  skipped  {count} × {reason[:100]}" for reason, count in reasons.most_common(MAX_REASONS)]
    files = sorted(run_record.times_by_file(run.results).items(), key=lambda file: -file[1].seconds)
    lines += [f"  {times.seconds:6.1f} s {file}" for file, times in files[:MAX_FILES]]
    return lines


def main() -> int:
    runs = list(run_record.read_all())
    for run in runs:
        print("\n".join(render(run)))
    groups = spec.parse_checklist((ROOT / spec.CHECKLIST).read_text(encoding="utf-8"))
    results = [result for run in runs for result in run.results]
    print("specification: " + ", ".join(spec.totals(groups, results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
