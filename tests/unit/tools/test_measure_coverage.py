"""`make coverage`: figures out of Coverage's report, per package, and compared with an earlier run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import measure_coverage
from measure_coverage import Count, Figures

LOG = "tailrace/storage/log.py"
FILES = {
    "tailrace/__init__.py": Figures(Count(3, 4), Count(0, 0)),
    LOG: Figures(Count(90, 100), Count(8, 10)),
    "tailrace/storage/cleaner/state.py": Figures(Count(10, 10), Count(2, 2)),
    "tailrace/env/clock.py": Figures(Count(5, 6), Count(1, 2)),
}


def test_figures_are_taken_from_the_report_by_path_below_the_source() -> None:
    summary = {
        "covered_lines": 90,
        "num_statements": 100,
        "covered_branches": 8,
        "num_branches": 10,
        "missing_lines": 10,
    }
    report = {"files": {f"/tree/src/{LOG}": {"summary": summary}}}
    assert measure_coverage.figures_of(report, "/tree/src") == {LOG: FILES[LOG]}


def test_packages_are_summed_with_all_that_is_below_them() -> None:
    assert measure_coverage.by_package(FILES) == {
        "tailrace": Figures(Count(3, 4), Count(0, 0)),
        "tailrace.env": Figures(Count(5, 6), Count(1, 2)),
        "tailrace.storage": Figures(Count(100, 110), Count(10, 12)),
    }


def test_json_is_read_back() -> None:
    document = json.loads(json.dumps(measure_coverage.to_json(FILES)))
    assert document["total"]["lines"] == {"covered": 108, "of": 120, "percent": 90.0}
    assert document["packages"]["tailrace"]["branches"] == {"covered": 0, "of": 0, "percent": 100.0}
    assert measure_coverage.from_json(document) == FILES


def test_table_has_a_row_per_package_and_the_total() -> None:
    rows = [line.split() for line in measure_coverage.table(FILES).splitlines()]
    assert rows == [
        ["lines", "branches"],
        ["tailrace", "75.00", "%", "3/4", "100.00", "%", "0/0"],
        ["tailrace.env", "83.33", "%", "5/6", "50.00", "%", "1/2"],
        ["tailrace.storage", "90.91", "%", "100/110", "83.33", "%", "10/12"],
        ["total", "90.00", "%", "108/120", "78.57", "%", "11/14"],
    ]


def test_comparison_shows_points_and_the_files_that_lost() -> None:
    now = {
        **FILES,
        LOG: Figures(Count(84, 100), Count(8, 10)),
        "tailrace/tiered/tier.py": Figures(Count(1, 2), Count()),
    }
    lines = measure_coverage.table(now, FILES).splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines}
    assert rows["tailrace.storage"] == ["85.45", "%", "94/110", "-5.45", "83.33", "%", "10/12", "+0.00"]
    assert rows["tailrace.tiered"] == ["50.00", "%", "1/2", "100.00", "%", "0/0"]
    assert rows["total"][3] == "-5.57"
    assert lines[-1] == f"{LOG}: 10 lines, 2 branches → 16 lines, 2 branches not covered"


@pytest.mark.parametrize(
    ("lines", "branches", "drop"),
    [(90, 8, 0.0), (84, 8, 5.0), (84, 1, 50.0), (96, 10, 0.0)],
    ids=["equal", "lines", "branches", "rise"],
)
def test_greatest_drop_is_that_of_lines_or_of_branches(lines: int, branches: int, drop: float) -> None:
    before = {"a": Figures(Count(108, 120), Count(11, 14))}
    now = {"a": Figures(Count(lines + 18, 120), Count(branches + 3, 14))}
    assert max(0.0, measure_coverage.greatest_drop(now, before)) == pytest.approx(drop)


@pytest.mark.parametrize(("covered", "status"), [(1000, 0), (998, 0), (997, 1)])
def test_exit_status_tells_a_drop_beyond_the_tolerance(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], covered: int, status: int
) -> None:
    before = tmp_path / "before.json"
    before.write_text(json.dumps(measure_coverage.to_json({LOG: Figures(Count(1000, 1000), Count(2, 2))})))
    (tmp_path / measure_coverage.RESULTS).mkdir()
    now = {LOG: Figures(Count(covered, 1000), Count(2, 2))}
    monkeypatch.setattr(measure_coverage, "measure", lambda *_: now)
    assert measure_coverage.main(["--tree", str(tmp_path), "--against", str(before), "--json"]) == status
    written = (tmp_path / measure_coverage.RESULTS / "coverage.json").read_text()
    assert capsys.readouterr().out == written
    assert measure_coverage.from_json(json.loads(written)) == now


def test_earlier_result_that_cannot_be_read_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert measure_coverage.main(["--tree", str(tmp_path), "--against", str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err
