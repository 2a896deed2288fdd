"""Runs the tests that a change can affect, or shows them.

    python tools/changed_tests.py                       what the working tree changes against HEAD, and the tests
    python tools/changed_tests.py --base REV            the same against another revision
    python tools/changed_tests.py --explain FILE        how each selected test of a test file reaches the change
    python tools/changed_tests.py --unit PATH:NAME      the tests that can execute a function, method, class or value
    python tools/changed_tests.py --run -- -n 2         runs the tests with pytest and these options
    python tools/changed_tests.py --evaluate 30 --durations FILE
                                                        the selections for the last 30 commits, with recorded durations

The selection is made from the sources alone, by tools/selection. docs/decisions/0017-tests-selected-by-reach.md says
how, and how far it can be trusted. What it cannot see is in tables in tools/selection/rules.py.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import run_record
from selection.builder import Builder
from selection.changes import Changes, changes_between
from selection.facts import BODY, Facts
from selection.scopes import ALL, TEXT, Target
from selection.selection import Item, Selection, Selector
from selection.trees import FactsCache, Git, Tree

ROOT = Path(__file__).resolve().parent.parent
CACHE = ".pytest_cache/changed_tests.cache"
ARGUMENTS = ".pytest_cache/changed_tests.args"
NO_TESTS_COLLECTED = 5  # an exit code of pytest: every selected test is deselected, as a long one
SHOWN_UNITS = 4
SHOWN_FILES = 40


class Found(NamedTuple):
    changes: Changes
    selection: Selection
    selector: Selector


def find(old: Tree, new: Tree, cache: FactsCache) -> Found:
    """The tests that the difference between two trees can affect. Raises SyntaxError."""
    files = cache.facts(new)
    gone = cache.facts(old, old.hashes.keys() - new.hashes.keys())
    known: dict[str, Facts] = {**files, **gone}
    others = (old.hashes.keys() | new.hashes.keys()) - known.keys()
    builder = Builder(known, (path for path in others if not path.endswith(".pxd")))
    changes = changes_between(old, new, known, builder)
    selector = Selector(files, builder)
    return Found(changes, selector.select(changes), selector)


def describe(found: Found) -> list[str]:
    """What changed, which test files are selected, and why."""
    changes, selection, selector = found
    units: dict[str, list[str]] = {path: [] for path in changes.paths}
    for target, path in changes.targets.items():
        if target.path == path:
            units[path].append(target.unit or "(body)")
    lines = [f"{len(units)} changed files" if len(units) != 1 else "1 changed file"]
    for path, names in units.items():
        shown = sorted(set(names) - {ALL, TEXT})
        more = f" and {len(shown) - SHOWN_UNITS} more" if len(shown) > SHOWN_UNITS else ""
        lines.append(f"  {path}" + (f": {', '.join(shown[:SHOWN_UNITS])}{more}" if shown else ""))
    counts = Counter(test.path for test in selection.tests)
    total = len({test.path for test in selector.tests})
    lines.append(f"{len(counts)} of {total} test files selected, {len(selection.tests)} of {len(selector.tests)} tests")
    if selection.everything:
        lines.append(f"  all of them, because {selection.everything} changed")
        return lines
    for path, number in list(counts.items())[:SHOWN_FILES]:
        target = next(target for test, target in selection.tests.items() if test.path == path)
        lines.append(f"  {path} ({number}): {_name(target)}")
    if len(counts) > SHOWN_FILES:
        lines.append(f"  and {len(counts) - SHOWN_FILES} more files")
    return lines


def explain(found: Found, file: str) -> list[str]:
    """The way from each selected test of a file to the change."""
    lines = []
    for test, target in found.selection.tests.items():
        if test.path == file:
            lines += [test.node_id, *(f"  {step}" for step in found.selector.way(test, target))]
    return lines or [f"{file}: no test is selected"]


def _name(target: Target) -> str:
    unit = "" if target.unit in (BODY, ALL, TEXT) else f": {target.unit}"
    return f"{target.path}{unit}"


def arguments_of(selection: Selection, tests: list[Item]) -> list[str]:
    """The selection as arguments of pytest: a file of which every test is selected by its path."""
    of_file = Counter(test.path for test in tests)
    selected = Counter(test.path for test in selection.tests)
    arguments = []
    for test in selection.tests:
        is_whole = selected[test.path] == of_file[test.path]
        arguments.append(test.path if is_whole else test.node_id)
    return list(dict.fromkeys(arguments))


def run(found: Found, options: list[str]) -> int:
    """Runs pytest on the selected tests; the exit code is 0 as well if no test is selected."""
    chosen = [] if found.selection.everything else arguments_of(found.selection, found.selector.tests)
    if not chosen and not found.selection.everything:
        return 0
    file = ROOT / ARGUMENTS
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(f"{each}\n" for each in chosen))
    command = [sys.executable, "-m", "pytest", *options, *([f"@{file}"] if chosen else [])]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    return 0 if code == NO_TESTS_COLLECTED else code


def tests_for_unit(git: Git, cache: FactsCache, path: str, name: str) -> Selection:
    """The tests that can execute a unit of the working tree; of a method that is not a unit, its class."""
    tree = Tree.of_working_tree(git)
    files = cache.facts(tree)
    if path not in files:
        raise LookupError(f"{path} is not a source of this repository")
    units = files[path].units
    parts = name.split(".")
    known = next((unit for unit in (".".join(parts[:2]), parts[0]) if unit in units), None)
    if known is None:
        raise LookupError(f"{path} has no {name}")
    others = (other for other in tree.hashes if other not in files and not other.endswith(".pxd"))
    selector = Selector(files, Builder(files, others))
    return selector.select(Changes((path,), {Target(path, known): path}))


def evaluate(git: Git, cache: FactsCache, number: int, durations: Mapping[Item, float]) -> list[str]:
    """The selection for each of the last commits: files, tests, and the sum of their recorded seconds."""
    lines, sums = [], []
    for line in git("log", "--no-merges", f"-{number}", "--format=%H %h %s").decode().splitlines():
        commit, short, subject = line.split(" ", 2)
        found = find(Tree.of_commit(git, f"{commit}^"), Tree.of_commit(git, commit), cache)
        selected = found.selection.tests
        seconds = sum(durations.get(test, 0.0) for test in selected)
        unknown = sum(test not in durations for test in selected)
        sums.append(seconds)
        files = len(found.selection.paths)
        lines.append(
            f"{seconds:7.1f} s {files:4d} files {len(selected):5d} tests {unknown:4d} unrecorded  {short} {subject}"
        )
    lines.append(f"median {statistics.median(sums):.1f} s of {sum(durations.values()):.1f} s")
    return lines


def read_durations(file: Path) -> dict[Item, float]:
    """Seconds by test, from the record of a run in .spec-results: cases of a test and tests of a class add up."""
    durations: dict[Item, float] = {}
    for result in run_record.parse(file.stem, json.loads(file.read_text())).results:
        path, _, rest = result.test.partition("::")
        test = Item(path, rest.partition("::")[0].partition("[")[0])
        durations[test] = durations.get(test, 0.0) + result.seconds
    return durations


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="run the tests that a change can affect, or show them")
    parser.add_argument("--base", default="HEAD", metavar="REV", help="the revision to compare with (default: HEAD)")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--explain", metavar="FILE", help="show how the tests of a test file reach the change")
    choice.add_argument("--run", action="store_true", help="run the tests, with the options after -- for pytest")
    choice.add_argument("--unit", metavar="PATH:NAME", help="show the tests that can execute a unit")
    choice.add_argument("--evaluate", type=int, metavar="N", help="show the selections for the last N commits")
    parser.add_argument("--durations", type=Path, metavar="FILE", help="a record of .spec-results for --evaluate")
    parser.add_argument("options", nargs="*", help=argparse.SUPPRESS)
    args = parser.parse_args(words)
    git = Git(ROOT)
    cache = FactsCache(ROOT / CACHE)
    code = 0
    try:
        if args.evaluate:
            lines = evaluate(git, cache, args.evaluate, read_durations(args.durations) if args.durations else {})
        elif args.unit:
            path, _, name = args.unit.partition(":")
            lines = [test.node_id for test in tests_for_unit(git, cache, path, name).tests]
        else:
            found = find(Tree.of_commit(git, args.base), Tree.of_working_tree(git), cache)
            lines = explain(found, args.explain) if args.explain else describe(found)
    except SyntaxError as error:
        print(f"error: {error.filename}:{error.lineno}: {error.msg}", file=sys.stderr)
        return 1
    except LookupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"error: git failed: {error.stderr.decode().strip()}", file=sys.stderr)
        return 1
    cache.save()
    print("\n".join(lines), flush=True)
    if args.run:
        code = run(found, args.options)
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
