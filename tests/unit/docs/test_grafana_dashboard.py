"""The Grafana dashboard and the page on metrics name only what a broker exports."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.brokers.simulated import SimBroker
from support.logs.builders import batch
from tailrace.broker.byte_budget import ByteBudget
from tailrace.broker.metrics import TOPIC_METERS
from tailrace.broker.process_metrics import ProcessMetrics
from tailrace.metrics.prometheus import Page
from tailrace.metrics.quantiles import RecentQuantiles

ROOT = Path(__file__).resolve().parents[3]
DASHBOARD = ROOT / "deploy" / "grafana" / "tailrace.json"
METRICS_PAGE = ROOT / "docs" / "operations" / "metrics.md"
NAME = re.compile(r"\b(?:kafka|process)_[a-z0-9_]+")


@pytest.fixture(scope="module")
def exported() -> dict[str, set[str]]:
    """Name → the tags its samples have, of a broker in the simulator that has served each kind of request."""
    run = SimBroker().start()
    client = run.client()
    client.create_topic("orders", 1)
    assert client.produce("orders", batch(3)).error_code == 0
    assert client.fetch("orders", 0).error_code == 0
    for meter in TOPIC_METERS:
        setattr(run.node.counters.topic("orders"), meter, 1)
    run.node.counters.listener("PLAINTEXT").connections += 1
    run.node.counters.budget = ByteBudget(1000)
    process = ProcessMetrics(threading.get_ident())
    page = Page(RecentQuantiles(), 0)
    for sample in (*run.node.metrics.read(), *process.read()):
        page.add(sample)
    text = b"".join([*page.pieces(), *process.text()]).decode()
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, tags = line.rsplit(" ", 1)[0].partition("{")
            found.setdefault(name, set()).update(re.findall(r'([a-zA-Z_]+)="', tags))
    return found


def expressions() -> Iterator[tuple[str, str]]:
    dashboard: dict[str, Any] = json.loads(DASHBOARD.read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]


def test_every_metric_of_the_dashboard_is_exported(exported: dict[str, set[str]]) -> None:
    asked = [(title, name) for title, expression in expressions() for name in NAME.findall(expression)]
    assert len(asked) > 30
    assert [each for each in asked if each[1] not in exported] == []


def test_every_tag_of_the_dashboard_is_on_its_metric(exported: dict[str, set[str]]) -> None:
    for title, expression in expressions():
        for name, chosen in re.findall(r"((?:kafka|process)_[a-z0-9_]+)\{([^}]*)\}", expression):
            tags = set(re.findall(r"([a-zA-Z_]+)\s*[=!]", chosen)) - {"instance"}
            assert tags <= exported[name], (title, name)
        for grouped in re.findall(r"by \(([^)]*)\)", expression):
            (name,) = set(NAME.findall(expression))
            tags = {tag.strip() for tag in grouped.split(",")} - {"instance"}
            assert tags <= exported[name], (title, name)


def test_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_the_page_on_metrics_names_only_what_is_exported(exported: dict[str, set[str]]) -> None:
    for name, star in re.findall(r"\b((?:kafka|process)_[a-z0-9_]+)(\*?)", METRICS_PAGE.read_text()):
        if not name.endswith("_"):
            is_known = any(known.startswith(name) for known in exported) if star else name in exported
            assert is_known, name
