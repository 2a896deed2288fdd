"""Runs against mutants: which tests, in which order, what their outcome means, and how two runs compare."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mutants
from mutation_testing import catalog, reach, trials
from mutation_testing.catalog import Catalog, Mutant
from mutation_testing.probes import HEADER
from mutation_testing.reach import Cost, Reach
from mutation_testing.trials import KILLED, NOT_REACHED, SURVIVED, UNDECIDED, Events, Result, verdict


def reach_of(seconds: dict[str, float], **outcomes: str) -> Reach:
    tests = {test: Cost(cost, 0.0, outcomes.get(test, "passed")) for test, cost in seconds.items()}
    return Reach(keys={1: "key"}, tests=tests, reached={1: list(tests)})


def test_cheap_tests_come_first_and_those_of_one_file_together() -> None:
    costs = {"b.py::slow": 2.0, "b.py::x": 0.004, "a.py::y": 0.05, "c.py::z": 0.001, "b.py::w": 0.009, "a.py::v": 0.02}
    order = trials.selection(reach_of(costs), 1, 60)
    assert order == ["b.py::x", "b.py::w", "c.py::z", "a.py::y", "a.py::v", "b.py::slow"]


def test_setup_of_a_module_counts_for_each_of_its_tests() -> None:
    found = reach_of({"broker.py::second": 0.001, "pure.py::slow": 0.2})
    found.tests["broker.py::first"] = Cost(5.0, 4.0, "passed")
    assert trials.costs_of(found, found.reached[1]) == {"broker.py::second": 4.001, "pure.py::slow": 0.2}
    assert trials.selection(found, 1, 60) == ["pure.py::slow", "broker.py::second"]


def test_tests_that_time_does_not_suffice_for_are_left_out() -> None:
    costs = {"a.py::a": 70.0, "b.py::b": 70.0, "c.py::c": 70.0}
    assert trials.selection(reach_of(costs), 1, 60) == ["a.py::a", "b.py::b"]
    assert trials.selection(reach_of(costs), 1, 1) == ["a.py::a"]


def test_tests_that_do_not_pass_without_the_mutant_are_left_out() -> None:
    found = reach_of({"bad": 0.1, "good": 0.1, "skip": 0.1, "flaky": 0.1}, bad="failed", skip="skipped")
    assert trials.selection(found, 1, 60, ["flaky"]) == ["good"]
    assert trials.selection(found, 2, 60) == []


def events_of(tmp_path: Path, *lines: dict[str, Any]) -> Events:
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    events = Events(path)
    events.read()
    return events


COLLECTED = {"event": "collected", "at_s": 100.0, "tests": 2}
STARTED = {"event": "started", "at_s": 100.5, "test": "a.py::a"}
FAILED = {"event": "failed", "at_s": 101.5, "test": "a.py::a", "phase": "call", "reason": "assert 1 == 2"}


@pytest.mark.parametrize(
    ("lines", "code", "expected"),
    [
        ([COLLECTED, STARTED, FAILED], 1, (KILLED, "a.py::a", 1.5, "call: assert 1 == 2")),
        ([COLLECTED, STARTED, FAILED], None, (KILLED, "a.py::a", 1.5, "call: assert 1 == 2")),
        ([FAILED | {"phase": "collection"}], 2, (KILLED, "a.py::a", 0.0, "collection: assert 1 == 2")),
        ([COLLECTED, STARTED], 0, (SURVIVED, "", 0.0, "")),
        ([COLLECTED, STARTED], None, (UNDECIDED, "a.py::a", 60, "60 s were over")),
        ([COLLECTED, STARTED], -11, (KILLED, "a.py::a", 0.0, "pytest ended with exit code -11")),
        ([], 4, (KILLED, "", 0.0, "pytest ended with exit code 4")),
    ],
    ids=["failed", "failed late", "collection", "passed", "time", "crash", "start"],
)
def test_outcome_of_a_run(
    tmp_path: Path, lines: list[dict[str, Any]], code: int | None, expected: tuple[str, str, float, str]
) -> None:
    assert verdict(events_of(tmp_path, *lines), code, 60) == expected


def test_event_that_is_half_written_is_read_later(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    events = Events(path)
    events.read()
    assert events.began_s is None
    path.write_text(json.dumps(COLLECTED) + "\n" + json.dumps(STARTED)[:9])
    events.read()
    assert (events.began_s, events.started) == (100.0, "")
    path.write_text(json.dumps(COLLECTED) + "\n" + json.dumps(STARTED) + "\n")
    events.read()
    assert (events.collected, events.started) == (2, "a.py::a")


def test_first_failure_counts(tmp_path: Path) -> None:
    events = events_of(tmp_path, COLLECTED, STARTED, FAILED, FAILED | {"phase": "teardown"})
    assert verdict(events, 1, 60).reason == "call: assert 1 == 2"


def test_comparison_lists_what_is_no_longer_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    killed = [Result(number, f"key {number}", KILLED, "a.py::a", 0.5) for number in range(1, 6)]
    before = [*killed[:4], replace(killed[4], status=SURVIVED)]
    after = [
        replace(killed[0], number=9, test="b.py::b"),
        replace(killed[1], status=SURVIVED),
        replace(killed[2], status=UNDECIDED),
        replace(killed[4], status=SURVIVED),
    ]
    assert [(old.number, new and new.status) for old, new in trials.compare(before, after)] == [
        (2, SURVIVED),
        (3, UNDECIDED),
        (4, None),
    ]
    paths = [tmp_path / "before.json", tmp_path / "after.json"]
    for path, results in zip(paths, (before, after), strict=True):
        trials.dump(results, path)
    assert mutants.main(["compare", *map(str, paths)]) == 1
    assert "3 mutants are no longer killed" in capsys.readouterr().out
    assert mutants.main(["compare", str(paths[0]), str(paths[0])]) == 0


def test_results_are_read_back_in_order(tmp_path: Path) -> None:
    results = [Result(2, "b", KILLED, "a.py::a", 0.5, "call: no", 3, ("c.py::c",)), Result(1, "a", NOT_REACHED)]
    trials.dump(results, tmp_path / "new" / "results.json")
    assert trials.load(tmp_path / "new" / "results.json") == results[::-1]


def test_table_shows_the_change_of_a_survivor() -> None:
    mutant = Mutant(1, "constant", "tailrace.m", "f", "a = 1", "a = 2")
    shown = trials.table(
        [Result(1, mutant.key, SURVIVED), Result(2, "", KILLED, "a.py::a", 1.25)], {1: mutant, 2: mutant}
    )
    assert "- a = 1\n" in shown
    assert "+ a = 2\n" in shown
    assert "1.25 s  tailrace.m.f  a.py::a" in shown
    assert shown.endswith("1 killed, 1 survived\n")


def test_reach_of_all_processes_is_gathered(tmp_path: Path) -> None:
    width = 3
    for worker, rows in (("gw0", [b"\0\1\0", b"\0\1\1", b"\0\0\0"]), ("gw1", [b"\0\0\0", b"\0\0\1"]), ("main", [])):
        (tmp_path / f"{worker}.map").write_bytes(bytes(HEADER) + b"".join(rows) + bytes(width * 3))
        lines = [
            json.dumps({"test": f"{worker}.py::{row}", "seconds": row / 10, "setup": 0.1, "outcome": "passed"}) + "\n"
            for row in range(1, len(rows))
        ]
        if lines:
            (tmp_path / f"{worker}.jsonl").write_text("".join(lines))
    found = reach.gather(tmp_path, width)
    assert found.reached == {1: ["gw0.py::1"], 2: ["gw0.py::1", "gw1.py::1"]}
    one, two = Cost(0.1, 0.1, "passed"), Cost(0.2, 0.1, "passed")
    assert found.tests == {"gw0.py::1": one, "gw0.py::2": two, "gw1.py::1": one}
    assert found.outside == [1]


def test_reach_results_are_read_back_and_merged(tmp_path: Path) -> None:
    short = Reach(
        {1: "a"}, {"x": Cost(0.1, 0.0, "passed"), "y": Cost(0.2, 0.0, "failed")}, {1: ["x", "y"]}, [1], {2: "gone"}
    )
    reach.dump(short, tmp_path / "reach.json")
    found = reach.load(tmp_path / "reach.json")
    assert found == short
    found.merge(
        Reach(
            {1: "a"}, {"y": Cost(0.3, 0.0, "passed"), "z": Cost(5.0, 0.1, "passed")}, {1: ["y", "z"]}, [3], {2: "gone"}
        )
    )
    assert found.reached == {1: ["x", "y", "z"]}
    assert found.tests["y"] == Cost(0.3, 0.0, "passed")
    assert found.outside == [1, 3]


MODULE = """\
def clamp(value, limit):
    if value > limit:
        return limit
    return value


def double(value):
    return value * 2


def unused(value):
    return value + 1
"""
TESTS = """\
import os
import subprocess
import sys

import pytest

from tailrace import sizes


@pytest.mark.parametrize("value", [1, 2, 3])
def test_clamp(value):
    assert sizes.clamp(value, 2) == min(value, 2)


def test_double():
    code = "from tailrace import sizes; print(sizes.double(0))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={}).stdout == "0\\n"


def test_in_a_subprocess():
    code = "from tailrace import sizes; print(sizes.double(4))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "8\\n"
"""


@pytest.mark.long
def test_mutants_of_a_small_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = tmp_path / "tree"
    (tree / "src" / "tailrace" / "testing").mkdir(parents=True)
    (tree / "src" / "tailrace" / "__init__.py").write_text('"""A package."""\n')
    (tree / "src" / "tailrace" / "testing" / "pytest_plugin.py").write_text('"""Loaded by every pytest here."""\n')
    (tree / "src" / "tailrace" / "sizes.py").write_text(MODULE)
    (tree / "test_sizes.py").write_text(TESTS)
    (tree / "pyproject.toml").write_text('[tool.pytest.ini_options]\nmarkers = ["long: slow"]\n')
    module = "tailrace.sizes"
    listed = (
        Mutant(1, "comparison", module, "clamp", "if value > limit:", "if value >= limit:"),
        Mutant(2, "comparison", module, "clamp", "return limit", "return value"),
        Mutant(3, "constant", module, "double", "return value * 2", "return value * 3"),
        Mutant(4, "constant", module, "unused", "return value + 1", "return value + 2"),
        Mutant(5, "removed", module, "gone", "return value", "pass"),
    )
    path = tmp_path / "mutants.toml"
    path.write_text(catalog.render(Catalog(1, listed)))
    common = ["--list", str(path), "--tree", str(tree)]
    reached, results = str(tmp_path / "reach.json"), tmp_path / "results.json"
    assert mutants.main([*common, "reach", "-n", "2", "--out", reached]) == 0
    assert mutants.main([*common, "run", "--reach", reached, "--out", str(results), "--jobs", "1"]) == 0
    found = {result.number: (result.status, result.test, result.tests) for result in trials.load(results)}
    assert found == {
        1: (SURVIVED, "", 3),
        2: (KILLED, "test_sizes.py::test_clamp[3]", 1),
        3: (KILLED, "test_sizes.py::test_in_a_subprocess", 1),
        4: (NOT_REACHED, "", 0),
        5: (trials.INAPPLICABLE, "", 0),
    }
    assert (tree / "src" / "tailrace" / "sizes.py").read_text() == MODULE
