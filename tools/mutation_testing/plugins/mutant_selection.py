"""pytest plugin of `tools/mutants.py run`: runs the tests of a list in its order, and records what happens.

TAILRACE_MUTANT_SELECTION names a JSON list of node ids, TAILRACE_MUTANT_EVENTS the file that gets one line per event:
collected, started (a test), failed (a test or the collection of a file).
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

SELECTION = json.loads(Path(os.environ["TAILRACE_MUTANT_SELECTION"]).read_text(encoding="utf-8"))
EVENTS = Path(os.environ["TAILRACE_MUTANT_EVENTS"])


def record(event: str, **facts: Any) -> None:
    with EVENTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"event": event, "at_s": time.monotonic(), **facts}) + "\n")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    order = {test: place for place, test in enumerate(SELECTION)}
    chosen = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in order])
    items[:] = chosen


def pytest_collection_finish(session: pytest.Session) -> None:
    record("collected", tests=len(session.items))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        record("failed", test=report.nodeid, phase="collection", reason=last_line(report))


def pytest_runtest_logstart(nodeid: str) -> None:
    record("started", test=nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        record("failed", test=report.nodeid, phase=report.when, reason=last_line(report))


def last_line(report: pytest.CollectReport | pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    return (text.strip().splitlines() or [""])[0][:200]
