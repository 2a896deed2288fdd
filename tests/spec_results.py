"""pytest plugin behind `@pytest.mark.spec("LS-03", …)`.

A mark with an id that docs/spec-checklist.md does not have is a collection error. With `--spec-results=NAME` the
outcome of every marked test goes to `.spec-results/NAME.json`, which tools/spec.py reads; only the Makefile's whole
runs pass that option, so a hand-picked run leaves the results alone, and so does a run that was cut short.

Under xdist the workers run the tests and the controller alone writes: ids travel in the reports' user properties.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import spec

PROPERTY = "spec"
WHOLE_RUN = {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--spec-results", metavar="NAME", help="record outcomes of spec-marked tests under this name")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SpecMarks(config.rootpath / spec.CHECKLIST), "spec-marks")
    name = config.getoption("--spec-results")
    is_worker = hasattr(config, "workerinput")
    if name and not is_worker and not config.getoption("--collect-only"):
        path = config.rootpath / spec.RESULTS / f"{name}.json"
        config.pluginmanager.register(SpecRecorder(path), "spec-recorder")


class SpecMarks:
    """Checks the marks where tests are collected, and hangs the ids on each test."""

    def __init__(self, checklist: Path) -> None:
        groups = spec.parse_checklist(checklist.read_text(encoding="utf-8"))
        self._known = {item for group in groups for item in group.items}

    @pytest.hookimpl(wrapper=True)
    def pytest_pycollect_makeitem(self) -> Generator[None, Any, Any]:
        made = yield
        for node in made if isinstance(made, list) else [made]:
            if isinstance(node, pytest.Item):
                self._attach_ids(node)
        return made

    def _attach_ids(self, item: pytest.Item) -> None:
        ids: list[str] = []
        for mark in item.iter_markers("spec"):
            unknown = [name for name in mark.args if not isinstance(name, str) or name not in self._known]
            if unknown or mark.kwargs or not mark.args:
                wrong = ", ".join(map(repr, unknown)) or "it needs ids and nothing else"
                raise pytest.Collector.CollectError(f"{item.name}: spec mark not in {spec.CHECKLIST}: {wrong}")
            ids += mark.args
        if ids:
            item.user_properties.append((PROPERTY, sorted(set(ids))))


class SpecRecorder:
    """Gathers the reports of a run and replaces the file at its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ids: dict[str, list[str]] = {}
        self._outcomes: dict[str, str] = {}
        self._collected_whole = True

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._collected_whole &= not report.failed  # under xdist the exit status does not tell

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == PROPERTY:
                self._ids[report.nodeid] = list(value)
        earlier = self._outcomes.get(report.nodeid)
        if report.failed or earlier == spec.FAILED:
            outcome = spec.FAILED
        elif report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            outcome = spec.PASSED
        else:
            outcome = earlier or spec.SKIPPED
        self._outcomes[report.nodeid] = outcome

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        cut_short = session.shouldstop or session.shouldfail or not self._collected_whole or not self._outcomes
        if exitstatus not in WHOLE_RUN or cut_short:
            return
        tests = {test: {"outcome": self._outcomes[test], "ids": ids} for test, ids in sorted(self._ids.items())}
        self._path.parent.mkdir(exist_ok=True)
        replacement = self._path.with_suffix(".tmp")
        replacement.write_text(json.dumps({"tests": tests}, indent=1) + "\n")
        os.replace(replacement, self._path)
