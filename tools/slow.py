"""Prints the slowest tests, files and fixtures of the last whole runs; `--update` commits their durations.

The durations in tests/durations.json decide in which order test files start (tests/suite/scheduler.py). They need not
be exact: update them when files are added, or when their order changes much.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

import run_record
from run_record import RunRecord

MAX_ROWS = 40


def table(title: str, rows: Iterable[tuple[float, float, str]]) -> list[str]:
    """The rows with the most seconds first."""
    lines = [f"{title}", f"{'seconds':>9} {'CPU':>8}"]
    for seconds, cpu, name in sorted(rows, reverse=True)[:MAX_ROWS]:
        lines += [f"{seconds:9.2f} {cpu:8.2f}  {name}"]
    return [*lines, ""]


def render(run: RunRecord) -> str:
    files = run_record.times_by_file(run.results)
    seconds = sum(result.seconds for result in run.results)
    cpu = sum(result.cpu for result in run.results)
    load = " to ".join(f"{value:.1f}" for value in run.load)
    lines = [
        f"make {run.name}: {len(run.results)} tests, {seconds:.0f} test seconds, {cpu:.0f} CPU seconds, "
        f"{run.seconds:.0f} s on {run.workers} workers, load average {load}",
        "",
        *table("slowest tests", ((result.seconds, result.cpu, result.test) for result in run.results)),
        *table("slowest files", ((times.seconds, times.cpu, file) for file, times in files.items())),
        "slowest fixtures",
        f"{'seconds':>9} {'setups':>8}",
    ]
    for name, (setups, total) in sorted(run.fixtures.items(), key=lambda fixture: -fixture[1][1])[:MAX_ROWS]:
        lines += [f"{total:9.2f} {setups:8}  {name}"]
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--update", action="store_true", help=f"write the durations to {run_record.DURATIONS}")
    options = parser.parse_args(arguments)
    runs = list(run_record.read_all())
    if not runs:
        print("error: no test run is recorded\nhint: run make test first", file=sys.stderr)
        return 1
    if options.update:
        run_record.write_durations(runs)
        print(f"{run_record.DURATIONS} has the durations of: {', '.join(run.name for run in runs)}")
        return 0
    print("\n".join(render(run) for run in runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
