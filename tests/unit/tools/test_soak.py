"""The soak: how it divides its work, what it reports, and one that is very short."""

from __future__ import annotations

from collections import Counter

import pytest

import soak
from soak import Figures, Piece, plan, rows

WEIGHTS = {"batches": 3, "directories": 1}


def test_a_plan_has_as_much_as_was_asked_for_and_no_input_twice() -> None:
    asked = {"kills": 250, "compaction crash points": 30_000, "crash points": 120_000}
    pieces = plan(asked, 1_000_001, 5, WEIGHTS)
    for target, wanted in asked.items():
        ours = [piece for piece in pieces if piece.target == target]
        assert sum(piece.inputs for piece in ours) == wanted
        assert len({piece.seed for piece in ours}) == len(ours) > 1
    for target, weight in WEIGHTS.items():
        ours = [piece for piece in pieces if piece.target == target]
        assert sum(piece.inputs for piece in ours) >= 1_000_001 * weight / 4
        assert [piece.first for piece in ours[1:]] == [piece.first + piece.inputs for piece in ours[:-1]]
    assert {piece.target for piece in pieces if piece.is_interpreted} == {"batches"}


def test_nothing_is_planned_for_nothing() -> None:
    assert plan({"kills": 0, "crash points": 0}, 0, 5, WEIGHTS) == []


def test_rows_say_what_was_run_and_found() -> None:
    figures = Figures(
        crash_points={"crash points": 1200},
        kills=Counter(kills=30, in_a_clean=20, acknowledged=4000),
        copiers=Counter(kills=5, killed_starts=1, copied=7000, committed=200, aborted=20),
        quorums=Counter(seeds=50, simulated_s=3960, events=900_000, faults=1000),
        inputs={"batches": 3000, "codecs": 500},
        interpreted=40,
        slowest_ms=7,
    )
    crashes, kills, copiers, quorums, inputs = rows(figures, 61.4, 9, "2026-01-02")
    assert crashes == "| 2026-01-02 | crash points | 1,200; no findings; seed 9, 61 s in all |"
    assert kills.startswith(
        "| 2026-01-02 | kills | 30, 20 of them in a clean, 0 in retention, 0 while logs were opened;"
    )
    assert copiers == (
        "| 2026-01-02 | copier kills | 5, 1 of them during a start; 7,000 records copied in 200 transactions, "
        "20 others aborted; no findings; seed 9, 61 s in all |"
    )
    assert quorums == (
        "| 2026-01-02 | quorums | 50 seeds, 1.1 simulated hours, 900,000 events, 1,000 faults; no findings; seed 9, "
        "61 s in all |"
    )
    assert inputs.startswith("| 2026-01-02 | hostile inputs | 3,500 (batches 3,000, codecs 500; 40 of them with interp")
    figures.findings.append("one")
    assert all("1 findings" in row for row in rows(figures, 1, 9, "2026-01-02"))


def test_a_process_that_dies_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "PATHS", str(soak.ROOT / "nowhere"))
    moved: list[int] = []
    running = soak.Soak(1, lambda _, count: moved.append(count))
    running.run([Piece("batches", 1, 0, 10)])
    assert sum(moved) == 10
    assert "No module named" in running.figures.findings[0]


@pytest.mark.long
def test_a_very_short_soak(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "shares", lambda: {"codecs": 2, "checkpoints": 1})
    unwanted = (
        "kills",
        "copier-kills",
        "spark-kills",
        "table-kills",
        "requests",
        "compaction-crash-points",
        "crash-points",
    )
    none = [word for name in unwanted for word in (f"--{name}", "0")]
    assert soak.main([*none, "--quorums", "1", "--storms", "1", "--inputs", "300", "--seed", "4", "--jobs", "1"]) == 0
    printed = capsys.readouterr().out
    assert "| group storms | 1 seeds; no findings;" in printed
    assert "| transaction storms | 1 seeds; no findings;" in printed
    assert "| quorums | 1 seeds, 0.0 simulated hours, " in printed
    assert "| hostile inputs | 300 (codecs 200, checkpoints 100; 0 of them" in printed
