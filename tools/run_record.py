"""The records of whole test runs: `.spec-results/NAME.json`, written by tests/suite/recorder.py.

One file per kind of run (`test`, `test-long`). Every tool that reports on test runs reads them here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ".spec-results"
DURATIONS = "tests/durations.json"

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


class Result(NamedTuple):
    test: str  # pytest's node id
    outcome: str
    ids: tuple[str, ...] = ()
    seconds: float = 0.0  # setup, call and teardown
    cpu: float = 0.0  # of the worker and the children that it waited for
    reason: str = ""  # why it was skipped

    @property
    def file(self) -> str:
        return self.test.partition("::")[0]


@dataclass(frozen=True)
class RunRecord:
    name: str
    seconds: float  # wall clock
    load: tuple[float, ...]  # load average at the start and at the end
    workers: int
    results: list[Result]
    fixtures: dict[str, tuple[int, float]] = field(default_factory=dict)  # name → setups, seconds

    def count(self, outcome: str) -> int:
        return sum(result.outcome == outcome for result in self.results)


class Times(NamedTuple):
    """Summed seconds of several tests."""

    seconds: float = 0.0
    cpu: float = 0.0


def parse(name: str, record: dict[str, Any]) -> RunRecord:
    results = [
        Result(test, entry["outcome"], tuple(entry["ids"]), entry["seconds"], entry["cpu"], entry.get("reason", ""))
        for test, entry in record["tests"].items()
    ]
    run = record["run"]
    fixtures = {fixture: (setups, seconds) for fixture, (setups, seconds) in record["fixtures"].items()}
    return RunRecord(name, run["seconds"], tuple(run["load"]), run["workers"], results, fixtures)


def read_all(root: Path = ROOT) -> Iterator[RunRecord]:
    """The record of every kind of run. A file that cannot be read is reported on stderr and left out."""
    for path in sorted((root / FOLDER).glob("*.json")):
        try:
            yield parse(path.stem, json.loads(path.read_text()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            print(f"{path.name} left out: {type(error).__name__}: {error}", file=sys.stderr)


def times_by_file(results: Iterable[Result]) -> dict[str, Times]:
    sums: dict[str, Times] = {}
    for result in results:
        before = sums.get(result.file, Times())
        sums[result.file] = Times(before.seconds + result.seconds, before.cpu + result.cpu)
    return sums


def read_durations(root: Path = ROOT) -> dict[str, dict[str, Times]]:
    """The committed durations: kind of run → file → times. Empty if there are none yet."""
    try:
        table = json.loads((root / DURATIONS).read_text())
    except FileNotFoundError:
        return {}
    return {run: {file: Times(*times) for file, times in files.items()} for run, files in table.items()}


def write_durations(runs: Iterable[RunRecord], root: Path = ROOT) -> None:
    """Commits what was recorded; a kind of run without a record keeps its old durations."""
    table = {name: dict(files) for name, files in read_durations(root).items()}
    for run in runs:
        table[run.name] = times_by_file(run.results)
    rounded = {
        name: {file: [round(times.seconds, 1), round(times.cpu, 1)] for file, times in sorted(files.items())}
        for name, files in sorted(table.items())
    }
    lines = ["{"]
    for number, (name, files) in enumerate(rounded.items()):
        rows = [f"  {json.dumps(file)}: {json.dumps(times)}" for file, times in files.items()]
        lines += [f"{json.dumps(name)}: {{", ",\n".join(rows), "}" + ("," if number < len(rounded) - 1 else "")]
    (root / DURATIONS).write_text("\n".join([*lines, "}"]) + "\n")
