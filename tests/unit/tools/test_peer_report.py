"""What `make bench-peers` makes of its figures."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return __import__("peer_report")


@pytest.fixture
def row(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return __import__("peer_row").Row


def test_the_median_of_the_rounds_ratios_is_held_against_the_mark(row: Any) -> None:
    rate = row("a", "a", "MB/s", 2.0, more_is_better=True, rounds=[(4, 2), (9, 3), (1, 1)])
    assert (rate.ratios, rate.ratio, rate.holds) == ([1, 2, 3], 2, True)
    assert (rate.middle(0), rate.middle(1)) == (4, 2)
    time = row("b", "b", "s", 0.3, more_is_better=False, rounds=[(4, 10)])
    assert not time.holds
    assert row("b", "b", "s", 0.4, more_is_better=False, rounds=[(4, 10)]).holds


def test_a_flat_row_holds_also_when_one_is_within_its_spread(row: Any) -> None:
    rounds = [(8, 10), (7, 10), (10.5, 10)]
    assert row("a", "a", "/s", 0.9, more_is_better=True, rounds=rounds, spread_counts=True).holds
    assert not row("a", "a", "/s", 0.9, more_is_better=True, rounds=rounds).holds
    assert not row("a", "a", "/s", 0.9, more_is_better=True, rounds=rounds[:2], spread_counts=True).holds


def test_the_section_is_put_in_once_and_replaced(
    report: Any, row: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(report, "PICTURE", tmp_path / "picture.svg")
    report.PAGE.write_text("# Benchmarks\n\nbefore\n")
    facts = {
        "rounds": 5,
        "date": "2026-01-01",
        "python": "3.11",
        "kernels": "compiled",
        "cores": 2,
        "load_average": [0.1],
        "settings": {"num.partitions": "4"},
    }
    for ours in (30, 20):
        rows = [row("a", "produce <fast>", "MB/s", 2.0, more_is_better=True, rounds=[(ours, 10)])]
        report.write_docs(rows, facts)
        if ours == 30:
            report.PAGE.write_text(report.PAGE.read_text() + "after\n")
    text = report.PAGE.read_text()
    assert text.startswith("# Benchmarks\n\nbefore\n\n")
    assert text.endswith("after\n")
    assert text.count("## Beside Apache Kafka") == 1
    assert "| produce <fast> | 20.0 MB/s | 10.0 MB/s | 2.00 | ≥ 2 |" in text
    picture = ElementTree.parse(report.PICTURE)
    assert any("produce <fast>" in (element.text or "") for element in picture.iter())


def test_a_load_generator_at_its_limit_is_told(report: Any, row: Any) -> None:
    busy = row("a", "a", "/s", 1, more_is_better=True, rounds=[(1, 1)], details=[{"generator_cpu": 0.95}])
    calm = row("b", "b", "/s", 1, more_is_better=True, rounds=[(1, 1)], details=[{"generator_cpu": 0.5}])
    (warning,) = report.warnings([busy, calm])
    assert warning.startswith("a: ")


def test_rows_of_clusters_have_a_section_of_the_page(report: Any, row: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(report, "PAGE", tmp_path / "page.md")
    report.PAGE.write_text("# Benchmarks\n\nbefore\n")
    facts = {"date": "2026-01-01", "python": "3.11", "kernels": "compiled", "cores": 2}
    details = [{"load_average": 1.5}, {"load_average": 4.0}]
    for ours in (30, 20):
        rows = [row("cluster-launch", "launch", "s", 0.3, more_is_better=False, rounds=[(ours, 100)], details=details)]
        report.write_cluster_docs(rows, facts)
    text = report.PAGE.read_text()
    assert "| launch | 20.0 s | 100 s | 0.20 | ≤ 0.3 |  |" in text
    assert "load average 1.5 to 4 before" in text
    assert text.count("## Clusters beside Apache Kafka") == 1
