"""pytest plugin behind `@pytest.mark.spec("LS-03", …)`: checks the ids and attaches them to each test.

An id that is not in docs/spec-checklist.md is a collection error. Under xdist the ids travel to the controller in the
user properties of the reports, where `suite.recorder` writes them down.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import spec

PROPERTY = "spec"


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SpecMarks(config.rootpath / spec.CHECKLIST), "spec-marks")


class SpecMarks:
    def __init__(self, checklist: Path) -> None:
        groups = spec.parse_checklist(checklist.read_text(encoding="utf-8"))
        self._known = {item for group in groups for item in group.items}

    @pytest.hookimpl(wrapper=True)
    def pytest_pycollect_makeitem(self) -> Generator[None, Any, Any]:
        collected = yield
        for node in collected if isinstance(collected, list) else [collected]:
            if isinstance(node, pytest.Item):
                self._attach_ids(node)
        return collected

    def _attach_ids(self, item: pytest.Item) -> None:
        ids: list[str] = []
        for mark in item.iter_markers("spec"):
            unknown = [name for name in mark.args if not isinstance(name, str) or name not in self._known]
            if unknown or mark.kwargs or not mark.args:
                wrong = ", ".join(map(repr, unknown)) or "it takes ids and nothing else"
                raise pytest.Collector.CollectError(f"{item.name}: spec mark not in {spec.CHECKLIST}: {wrong}")
            ids += mark.args
        if ids:
            item.user_properties.append((PROPERTY, sorted(set(ids))))
