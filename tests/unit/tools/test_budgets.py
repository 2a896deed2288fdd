from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import budgets
import run_record
import slow
import summary

TABLE = """\
[test]
"tests/a" = 10
"tests/a/inner" = 1
"tests/b" = 2
"""


def entry(seconds: float, outcome: str = "passed", **more: Any) -> dict[str, Any]:
    return {"outcome": outcome, "ids": [], "seconds": seconds, "cpu": seconds / 2, **more}


def make_tree(root: Path, tests: dict[str, dict[str, Any]]) -> Path:
    (root / "tests").mkdir()
    (root / budgets.BUDGETS).write_text(TABLE)
    (root / run_record.FOLDER).mkdir()
    run = {"seconds": 30.0, "load": [0.5, 2.25], "workers": 4}
    record = {"run": run, "fixtures": {"tests/a::broker": [2, 0.7]}, "tests": tests}
    (root / run_record.FOLDER / "test.json").write_text(json.dumps(record))
    return root


def test_sums_setup_call_and_teardown_of_each_folder(tmp_path: Path) -> None:
    tests = {"tests/a/test_x.py::one": entry(1), "tests/a/test_x.py::two": entry(2), "tests/a/inner/t.py::t": entry(4)}
    [run] = run_record.read_all(make_tree(tmp_path, tests))
    rows = budgets.rows_of(run, budgets.read_budgets(tmp_path)["test"])
    assert [(row.folder, row.times.seconds) for row in rows] == [("tests/a", 3), ("tests/a/inner", 4), ("tests/b", 0)]


@pytest.mark.parametrize(
    ("seconds", "verdict", "exit_code"), [(3.0, "ok", 0), (3.01, "warn", 0), (6.0, "warn", 0), (6.01, "FAIL", 1)]
)
def test_warns_above_one_and_a_half_and_fails_above_three_times_the_budget(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seconds: float, verdict: str, exit_code: int
) -> None:
    root = make_tree(tmp_path, {"tests/b/test_x.py::one": entry(seconds)})
    assert budgets.main(["--json"], root) == exit_code
    out, err = capsys.readouterr()
    assert {row["folder"]: row["verdict"] for row in json.loads(out)}["tests/b"] == verdict
    assert ("tests/b takes 3.0 times its budget" in err) == (exit_code == 1)


def test_a_test_without_a_budget_is_an_error_with_a_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_tree(tmp_path, {"tests/c/test_x.py::one": entry(1)})
    assert budgets.main([], root) == 1
    assert capsys.readouterr().err == (
        "error: no budget for tests/c/test_x.py\nhint: add its folder to tests/budgets.toml\n"
    )


def test_every_folder_with_tests_has_a_budget() -> None:
    table = budgets.read_budgets()
    for path in (run_record.ROOT / "tests").rglob("test_*.py"):
        file = str(path.relative_to(run_record.ROOT))
        budgets.folder_of(file, table["test"])
        if "mark.long" in path.read_text(encoding="utf-8"):
            budgets.folder_of(file, table["test-long"])


PLANNED = {
    "test": {"tests/cluster": 60, "tests/security": 30, "tests/tiered": 30},
    "test-long": {"tests/cluster": 300, "tests/compat/clusters": 360, "tests/security": 300, "tests/tiered": 240},
}


def test_planned_folders_have_a_budget() -> None:
    table = budgets.read_budgets()
    assert {run: {folder: table[run].get(folder) for folder in folders} for run, folders in PLANNED.items()} == PLANNED


def test_every_other_folder_with_a_budget_exists() -> None:
    for run, folders in budgets.read_budgets().items():
        missing = {folder for folder in folders if not (run_record.ROOT / folder).is_dir()}
        assert missing <= PLANNED[run].keys()


def test_without_a_recorded_run_there_is_an_error_with_a_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / budgets.BUDGETS).write_text(TABLE)
    assert budgets.main([], tmp_path) == 1
    assert capsys.readouterr().err == "error: no test run is recorded\nhint: run make test first\n"


def test_durations_are_committed_per_run_and_file(tmp_path: Path) -> None:
    root = make_tree(tmp_path, {"tests/a/test_x.py::one": entry(1.04), "tests/a/test_x.py::two": entry(2)})
    run_record.write_durations(run_record.read_all(root), root)
    assert run_record.read_durations(root) == {"test": {"tests/a/test_x.py": run_record.Times(3.0, 1.5)}}


def test_slow_lists_the_slowest_tests_files_and_fixtures_first(tmp_path: Path) -> None:
    tests = {"tests/a/test_x.py::one": entry(1), "tests/a/test_x.py::two": entry(2), "tests/b/test_y.py::t": entry(2.5)}
    [run] = run_record.read_all(make_tree(tmp_path, tests))
    lines = [line.split() for line in slow.render(run).splitlines()]
    names = [words[-1] for words in lines if words and words[-1].startswith("tests/")]
    assert names == [
        *("tests/b/test_y.py::t", "tests/a/test_x.py::two", "tests/a/test_x.py::one"),
        *("tests/a/test_x.py", "tests/b/test_y.py"),
        "tests/a::broker",
    ]


def test_the_summary_has_counts_failures_and_reasons_of_skips(tmp_path: Path) -> None:
    tests = {
        "tests/a/test_x.py::one": entry(1),
        "tests/a/test_x.py::two": entry(2, "failed"),
        "tests/b/test_y.py::t": entry(0, "skipped", reason="needs kcat"),
        "tests/b/test_y.py::u": entry(0, "skipped", reason="needs kcat"),
        "tests/b/test_y.py::v": entry(0, "skipped"),
    }
    [run] = run_record.read_all(make_tree(tmp_path, tests))
    assert summary.render(run) == [
        "make test: 1 passed, 1 failed, 3 skipped in 30 s on 4 workers, load average 0.5 to 2.2",
        "  failed   tests/a/test_x.py::two",
        "  skipped  2 × needs kcat",
        "  skipped  1 × no reason",
        "     3.0 s tests/a/test_x.py",
        "     0.0 s tests/b/test_y.py",
    ]
