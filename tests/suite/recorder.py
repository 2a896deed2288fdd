"""pytest plugin that records a whole run: outcome, spec ids, duration and CPU time of every test.

With `--spec-results=NAME` the record goes to `.spec-results/NAME.json`, which tools/spec.py, tools/slow.py,
tools/budgets.py and tools/summary.py read. Only the Makefile's whole runs pass the option: a run of selected tests, or
one that was interrupted, leaves the records unchanged.

Under xdist the workers measure (`Stopwatch`), and the controller alone writes (`RunRecorder`): measurements travel in
the user properties of the report of a test's teardown.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import run_record
from suite import spec_marks

WHOLE_RUN = {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
CPU_PROPERTY, FIXTURES_PROPERTY = "cpu-seconds", "fixture-seconds"
MIN_FIXTURE_SECONDS = 0.001  # shorter fixtures are not reported


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--spec-results", metavar="NAME", help="record outcomes and durations under this name")


def pytest_configure(config: pytest.Config) -> None:
    name = config.getoption("--spec-results")
    if not name or config.getoption("--collect-only"):
        return
    config.pluginmanager.register(Stopwatch(), "stopwatch")
    if not hasattr(config, "workerinput"):
        path = config.rootpath / run_record.FOLDER / f"{name}.json"
        config.pluginmanager.register(RunRecorder(path), "run-recorder")


def cpu_seconds() -> float:
    """CPU time of this process and of the children it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class Stopwatch:
    """Measures the CPU time of each test, and how long each of its fixtures takes to set up."""

    def __init__(self) -> None:
        self._start = 0.0
        self._fixtures: list[tuple[str, float]] = []

    def pytest_runtest_logstart(self) -> None:
        self._start = cpu_seconds()
        self._fixtures = []

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        start = time.perf_counter()
        try:
            return (yield)
        finally:
            seconds = time.perf_counter() - start
            if seconds >= MIN_FIXTURE_SECONDS:
                self._fixtures.append((f"{fixturedef.baseid or 'plugin'}::{fixturedef.argname}", seconds))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        report = yield
        if call.when == "teardown":
            report.user_properties.append((CPU_PROPERTY, round(cpu_seconds() - self._start, 4)))
            if self._fixtures:
                report.user_properties.append((FIXTURES_PROPERTY, self._fixtures))
        return report


class RunRecorder:
    """Gathers the reports of a run and replaces the file at its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tests: dict[str, dict[str, Any]] = {}
        self._fixtures: dict[str, list[float]] = {}
        self._collected_whole = True
        self._start = time.monotonic()
        self._start_load = os.getloadavg()[0]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._collected_whole &= not report.failed  # under xdist the exit status does not show it

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self._tests.setdefault(
            report.nodeid, {"outcome": run_record.SKIPPED, "ids": [], "seconds": 0.0, "cpu": 0.0}
        )
        test["seconds"] = round(test["seconds"] + report.duration, 4)
        if worker := getattr(report, "worker_id", None):
            test["worker"] = worker
        for name, value in report.user_properties:
            if name == spec_marks.PROPERTY:
                test["ids"] = list(value)
            elif name == CPU_PROPERTY:
                test["cpu"] = value
            elif name == FIXTURES_PROPERTY:
                self._add_fixtures(value)
        self._set_outcome(test, report)

    def _add_fixtures(self, measured: list[tuple[str, float]]) -> None:
        for name, seconds in measured:
            total = self._fixtures.setdefault(name, [0, 0.0])
            total[0] += 1
            total[1] = round(total[1] + seconds, 4)

    @staticmethod
    def _set_outcome(test: dict[str, Any], report: pytest.TestReport) -> None:
        if report.failed:
            test["outcome"] = run_record.FAILED
        elif test["outcome"] == run_record.FAILED:
            pass
        elif report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            test["outcome"] = run_record.PASSED
        elif report.skipped and isinstance(report.longrepr, tuple):
            test["reason"] = report.longrepr[2].removeprefix("Skipped: ")

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        # xdist does not fail a run whose workers crashed too often before its last test.
        is_complete = self._collected_whole and self._tests and len(self._tests) >= session.testscollected
        if exitstatus not in WHOLE_RUN or session.shouldstop or session.shouldfail or not is_complete:
            return
        record = {
            "run": {
                "seconds": round(time.monotonic() - self._start, 1),
                "load": [round(self._start_load, 2), round(os.getloadavg()[0], 2)],
                "workers": session.config.getoption("numprocesses", None) or 1,
            },
            "fixtures": dict(sorted(self._fixtures.items())),
            "tests": dict(sorted(self._tests.items())),
        }
        self._path.parent.mkdir(exist_ok=True)
        replacement = self._path.with_suffix(".tmp")
        replacement.write_text(json.dumps(record, indent=0) + "\n")
        os.replace(replacement, self._path)
