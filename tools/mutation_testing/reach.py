"""Which tests reach which mutant: one run of the tests on a copy of the sources with a probe in front of each mutant.

The result is a JSON file. It holds every test with its duration and outcome, and for each mutant the numbers of the
tests that executed its line. Durations include setup and teardown. What the fixture of a module executes counts for the
first test that uses it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from mutation_testing.catalog import Mutant, locate_all
from mutation_testing.probes import HEADER, MAX_TESTS, with_probes, with_prologue
from mutation_testing.workspace import Workspace, workspace

TIMEOUT_S = 3600  # of one test: probes, interpreted kernels and a busy machine are slow
COMPLETED = (0, 1)  # exit codes of pytest after which every test has run


class IncompleteRunError(Exception):
    """pytest ended before every test had run."""


class Cost(NamedTuple):
    """What a test costs, and how it ended without a mutant."""

    seconds: float
    setup: float
    """Seconds of these that the setup took."""
    outcome: str


@dataclass
class Reach:
    keys: dict[int, str] = field(default_factory=dict)
    """By mutant number; equal keys are the same mutant."""
    tests: dict[str, Cost] = field(default_factory=dict)
    """By test id."""
    reached: dict[int, list[str]] = field(default_factory=dict)
    """Ids of the tests that reach a mutant, by its number."""
    outside: list[int] = field(default_factory=list)
    """Mutants that are also reached outside of tests, mostly at import."""
    inapplicable: dict[int, str] = field(default_factory=dict)

    def merge(self, other: Reach) -> None:
        """Add what another run with the same list has found. Of a test in both, the later duration counts."""
        self.keys |= other.keys
        self.inapplicable |= other.inapplicable
        self.tests |= other.tests
        self.outside = sorted({*self.outside, *other.outside})
        for number, tests in other.reached.items():
            self.reached[number] = list(dict.fromkeys([*self.reached.get(number, ()), *tests]))


def dump(reach: Reach, path: Path) -> None:
    """Test ids are written once and referred to by their position."""
    positions = {test: position for position, test in enumerate(reach.tests)}
    document = asdict(reach) | {
        "tests": [[test, *facts] for test, facts in reach.tests.items()],
        "reached": {number: [positions[test] for test in tests] for number, tests in reach.reached.items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document) + "\n", encoding="utf-8")


def load(path: Path) -> Reach:
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    ids = [test for test, *_ in document["tests"]]
    return Reach(
        keys={int(number): key for number, key in document["keys"].items()},
        tests={test: Cost(*facts) for test, *facts in document["tests"]},
        reached={int(number): [ids[at] for at in tests] for number, tests in document["reached"].items()},
        outside=document["outside"],
        inapplicable={int(number): reason for number, reason in document["inapplicable"].items()},
    )


def measure(tree: Path, mutants: Sequence[Mutant], arguments: Sequence[str], output: Path) -> Reach:
    """Run pytest with these arguments on an instrumented copy of the tree. Its output goes to the file `output`."""
    width = max((mutant.number for mutant in mutants), default=0) + 1
    with workspace(tree) as copy, tempfile.TemporaryDirectory(prefix="reach-") as records:
        locations = instrument(copy, mutants, width)
        variables = {
            "TAILRACE_MUTANT_FOLDER": records,
            "TAILRACE_MUTANT_MAP_BYTES": str(HEADER + MAX_TESTS * width),
        }
        options = ["-p", "mutant_reach", "-q", f"--timeout={TIMEOUT_S}"]
        code = copy.run([*options, *arguments], variables=variables, output=output)
        if code not in COMPLETED:
            raise IncompleteRunError(f"pytest ended with exit code {code}: see {output}")
        reach = gather(Path(records), width)
    reach.inapplicable = locations
    reach.keys = {mutant.number: mutant.key for mutant in mutants if mutant.number not in locations}
    return reach


def instrument(copy: Workspace, mutants: Iterable[Mutant], width: int) -> dict[int, str]:
    """Write the probes into the copy; reasons of the mutants that do not apply."""
    locations, reasons = locate_all(mutants, copy.source)
    lines: dict[Path, dict[int, int]] = {}
    for number, location in locations.items():
        lines.setdefault(location.path, {})[number] = location.line
    package = copy.source / "tailrace" / "__init__.py"
    for path in {*lines, package}:
        text = with_probes(path.read_text(encoding="utf-8"), lines.get(path, {}))
        copy.write(path, with_prologue(text, width) if path == package else text)
    return reasons


def gather(folder: Path, width: int) -> Reach:
    """What the processes of a run have recorded."""
    reach = Reach()
    outside: set[int] = set()
    for map_path in sorted(folder.glob("*.map")):
        content = map_path.read_bytes()

        def row(number: int, content: bytes = content) -> list[int]:
            start = HEADER + number * width
            return [mutant for mutant in range(width) if content[start + mutant]]

        outside |= {*row(0)}
        lines = map_path.with_suffix(".jsonl")
        for number, line in enumerate(lines.read_text(encoding="utf-8").splitlines() if lines.exists() else (), 1):
            facts = json.loads(line)
            reach.tests[facts["test"]] = Cost(facts["seconds"], facts["setup"], facts["outcome"])
            for mutant in row(number):
                reach.reached.setdefault(mutant, []).append(facts["test"])
    reach.outside = sorted(outside)
    return reach
