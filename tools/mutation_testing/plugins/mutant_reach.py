"""pytest plugin of `tools/mutants.py reach`: gives the probes the running test, and records the costs.

Each process of the run has two files in the folder that TAILRACE_MUTANT_FOLDER names: `WORKER.map`, which the probes of
this process and of all that it starts write to, and `WORKER.jsonl`, one line per test in the order in which they ran.
The module sets the variable of the probes when it is imported, before anything imports Tailrace.
"""

from __future__ import annotations

import json
import mmap
import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(os.environ["TAILRACE_MUTANT_FOLDER"])
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")
MAP = FOLDER / f"{WORKER}.map"

with MAP.open("w+b") as opened:
    opened.truncate(int(os.environ["TAILRACE_MUTANT_MAP_BYTES"]))
    area = mmap.mmap(opened.fileno(), 0)
os.environ["TAILRACE_MUTANT_REACH"] = str(MAP)


class Reach:
    """Numbers the tests of this process from 1 and writes a line about each."""

    def __init__(self) -> None:
        self._current = memoryview(area).cast("I")
        self._tests = 0
        self._began_s = 0.0
        self._setup_s = 0.0
        self._outcome = "passed"
        self._lines = (FOLDER / f"{WORKER}.jsonl").open("a", encoding="utf-8")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._tests += 1
        self._outcome = "passed"
        self._current[0] = self._tests
        self._began_s = time.perf_counter()
        try:
            return (yield)
        finally:
            seconds = time.perf_counter() - self._began_s
            self._current[0] = 0
            facts = {"seconds": round(seconds, 4), "setup": round(self._setup_s, 4), "outcome": self._outcome}
            self._lines.write(json.dumps({"test": test_id(item), **facts}) + "\n")
            self._lines.flush()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "setup":
            self._setup_s = report.duration
        if report.failed:
            self._outcome = "failed"
        elif report.skipped and self._outcome == "passed":
            self._outcome = "skipped"


def test_id(item: pytest.Item) -> str:
    """The node id without the group that xdist's loadgroup scheduler appends to it."""
    for mark in item.iter_markers("xdist_group"):
        group = mark.kwargs.get("name") or (mark.args[0] if mark.args else "default")
        return item.nodeid.removesuffix(f"@{group}")
    return item.nodeid


def pytest_configure(config: pytest.Config) -> None:
    is_controller = WORKER == "main" and bool(getattr(config.option, "numprocesses", None))
    if not is_controller:
        config.pluginmanager.register(Reach(), "mutant-reach-recorder")
