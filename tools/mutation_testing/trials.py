"""Runs the tests that reach a mutant against it, until one fails.

Tests run in one pytest process per mutant, cheapest first in steps of a factor of ten, so that tests of one file that
cost about the same stay together and share their fixtures. A mutant is

    killed       a test failed, and passes without the mutant
    survived     all tests that reach it passed
    undecided    time was up first
    not reached  no test that passes without the mutant executes its line
    inapplicable its line is not in this tree

A test that fails without the mutant, too, is left out and the mutant tried again.
"""

from __future__ import annotations

import json
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from mutation_testing.catalog import InapplicableError, Mutant, locate, mutated
from mutation_testing.reach import Reach
from mutation_testing.workspace import Workspace, workspace

KILLED, SURVIVED, UNDECIDED = "killed", "survived", "undecided"
NOT_REACHED, INAPPLICABLE = "not reached", "inapplicable"
STATUSES = (KILLED, SURVIVED, UNDECIDED, NOT_REACHED, INAPPLICABLE)

CHEAPEST_S = 0.01
COLLECTION_LIMIT_S = 900
MAX_UNRELIABLE = 10


@dataclass(frozen=True)
class Result:
    number: int
    key: str
    status: str
    test: str = ""
    """That killed the mutant, or that ran when time was up."""
    seconds: float = 0.0
    """From the start of the first test on."""
    reason: str = ""
    tests: int = 0
    """How many reach the mutant."""
    unreliable: tuple[str, ...] = ()
    """Tests that were left out because they fail without the mutant."""


class Verdict(NamedTuple):
    status: str
    test: str
    seconds: float
    reason: str


def selection(reach: Reach, number: int, limit_s: float, left_out: Iterable[str] = ()) -> list[str]:
    """The tests to run, in order. Those that time will not suffice for are not even collected."""
    excluded = set(left_out)
    costs = {
        test: cost
        for test, cost in costs_of(reach, reach.reached.get(number, ())).items()
        if reach.tests[test].outcome == "passed" and test not in excluded
    }
    spent_s = 0.0
    chosen = []
    for test in sorted(costs, key=lambda test: (magnitude(costs[test]), file_of(test))):
        if chosen and spent_s > 2 * limit_s:
            break
        chosen.append(test)
        spent_s += reach.tests[test].seconds
    return chosen


def costs_of(reach: Reach, tests: Iterable[str]) -> dict[str, float]:
    """Seconds that each test takes alone: it may need the fixture that another test of its file has set up."""
    setups: dict[str, float] = {}
    for test, facts in reach.tests.items():
        setups[file_of(test)] = max(facts.setup, setups.get(file_of(test), 0.0))
    return {test: reach.tests[test].seconds - reach.tests[test].setup + setups[file_of(test)] for test in tests}


def file_of(test: str) -> str:
    return test.partition("::")[0]


def magnitude(seconds: float) -> int:
    return 0 if seconds <= CHEAPEST_S else math.ceil(math.log10(seconds / CHEAPEST_S))


class Events:
    """What the selection plugin has written so far."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self.began_s: float | None = None
        self.started = ""
        self.failed: dict[str, Any] | None = None
        self.collected = 0

    def read(self) -> None:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._position)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._position += len(whole)
        for line in whole.splitlines():
            self._take(json.loads(line))

    def _take(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "collected":
            self.began_s, self.collected = event["at_s"], event["tests"]
        elif event["event"] == "started":
            self.started = event["test"]
        elif self.failed is None:
            self.failed = dict(event)


def verdict(events: Events, code: int | None, limit_s: float) -> Verdict:
    """What a run means; `code` is None when time was up."""
    if events.failed is not None:
        seconds = events.failed["at_s"] - events.began_s if events.began_s is not None else 0.0
        return Verdict(KILLED, events.failed["test"], seconds, f"{events.failed['phase']}: {events.failed['reason']}")
    if code is None:
        return Verdict(UNDECIDED, events.started, limit_s, f"{limit_s:g} s were over")
    if code == 0 and events.collected:
        return Verdict(SURVIVED, "", 0.0, "")
    return Verdict(KILLED, events.started, 0.0, f"pytest ended with exit code {code}")


class Trial:
    """Mutants one after the other in one workspace."""

    def __init__(self, copy: Workspace, reach: Reach, limit_s: float, logs: Path, now_s: Callable[[], float]) -> None:
        self._copy = copy
        self._reach = reach
        self._limit_s = limit_s
        self._logs = logs
        self._now_s = now_s

    def judge(self, mutant: Mutant) -> Result:
        number = mutant.number
        try:
            location = locate(mutant, self._copy.source)
        except InapplicableError as error:
            return Result(number, mutant.key, INAPPLICABLE, reason=str(error))
        if self._reach.keys.get(number) != mutant.key:
            return Result(number, mutant.key, NOT_REACHED, reason="the reach results are of another list")
        reaching = len(self._reach.reached.get(number, ()))
        unreliable: list[str] = []
        while len(unreliable) <= MAX_UNRELIABLE:
            tests = selection(self._reach, number, self._limit_s, unreliable)
            if not tests:
                break
            self._copy.write(location.path, mutated(location.path.read_text(encoding="utf-8"), location, mutant))
            try:
                found = self._run(tests, f"{number}.txt", self._limit_s)
            finally:
                self._copy.restore()
            suspect = found.test if found.test in tests else tests[0]
            if found.status == KILLED and not self._passes(suspect, number):
                unreliable.append(suspect)
                continue
            seconds = round(found.seconds, 2)
            return Result(
                number, mutant.key, found.status, found.test, seconds, found.reason, reaching, tuple(unreliable)
            )
        reason = "reached outside of tests" if number in self._reach.outside else ""
        return Result(number, mutant.key, NOT_REACHED, reason=reason, tests=reaching, unreliable=tuple(unreliable))

    def _passes(self, test: str, number: int) -> bool:
        """Whether the test passes without a mutant. It may take longer than the mutant's tests."""
        return self._run([test], f"{number}-without.txt", COLLECTION_LIMIT_S).status == SURVIVED

    def _run(self, tests: Sequence[str], log: str, limit_s: float) -> Verdict:
        listed, recorded = (self._copy.root.parent / name for name in ("selection.json", "events.jsonl"))
        listed.write_text(json.dumps(tests), encoding="utf-8")
        recorded.unlink(missing_ok=True)
        events = Events(recorded)
        began_s = self._now_s()

        def is_over() -> bool:
            events.read()
            since_s, longest_s = (began_s, COLLECTION_LIMIT_S) if events.began_s is None else (events.began_s, limit_s)
            return self._now_s() - since_s > longest_s

        code = self._copy.run(
            [
                "-p",
                "mutant_selection",
                "-n",
                "0",
                "-x",
                "-q",
                *dict.fromkeys(map(file_of, tests)),
            ],
            variables={"TAILRACE_MUTANT_SELECTION": str(listed), "TAILRACE_MUTANT_EVENTS": str(recorded)},
            output=self._logs / log,
            is_over=is_over,
        )
        events.read()
        return verdict(events, code, limit_s)


def judge_all(
    tree: Path,
    mutants: Sequence[Mutant],
    reach: Reach,
    *,
    limit_s: float,
    jobs: int,
    logs: Path,
    now_s: Callable[[], float],
    report: Callable[[Result], None],
) -> None:
    """Judge every mutant, `jobs` at a time; `report` is called with one result at a time."""
    logs.mkdir(parents=True, exist_ok=True)
    reporting = threading.Lock()
    with ExitStack() as stack:
        idle: SimpleQueue[Trial] = SimpleQueue()
        for _ in range(min(jobs, len(mutants))):
            idle.put(Trial(stack.enter_context(workspace(tree)), reach, limit_s, logs, now_s))

        def judge(mutant: Mutant) -> None:
            trial = idle.get()
            try:
                result = trial.judge(mutant)
            finally:
                idle.put(trial)
            with reporting:
                report(result)

        with ThreadPoolExecutor(jobs) as pool:
            for done in [pool.submit(judge, mutant) for mutant in mutants]:
                done.result()


def dump(results: Iterable[Result], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"results": [asdict(result) for result in sorted(results, key=lambda result: result.number)]}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def load(path: Path) -> list[Result]:
    document = json.loads(path.read_text(encoding="utf-8"))
    return [Result(**{**entry, "unreliable": tuple(entry["unreliable"])}) for entry in document["results"]]


def table(results: Sequence[Result], mutants: Mapping[int, Mutant]) -> str:
    """One line per mutant, survivors with their change, and the number of each status."""
    lines = []
    for result in sorted(results, key=lambda result: result.number):
        mutant = mutants[result.number]
        lines += [
            f"{result.number:>4}  {result.status:<12} {result.seconds:>6.2f} s  {mutant.module}.{mutant.name}  "
            f"{result.test or result.reason}"
        ]
        if result.status not in (KILLED, INAPPLICABLE):
            lines += [f"{'':>20}- {mutant.old}", f"{'':>20}+ {mutant.new}"]
    counts = Counter(result.status for result in results)
    lines += ["", ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status])]
    return "\n".join(lines) + "\n"


def compare(before: Iterable[Result], after: Iterable[Result]) -> list[tuple[Result, Result | None]]:
    """Mutants that were killed before and are not killed after, each with both results."""
    later = {result.key: result for result in after}
    lost = []
    for result in before:
        other = later.get(result.key)
        if result.status == KILLED and (other is None or other.status != KILLED):
            lost.append((result, other))
    return lost
