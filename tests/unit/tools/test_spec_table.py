from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import run_record
import spec

CHECKLIST = """\
# List
Prose that names AA-01 is no row.

## BB · Second letter first (000)
| id | behaviour |
|---|---|
| BB-02 | out of order |
| BB-01 | a pipe | inside |

## AA · Another
| id | behaviour |
|---|---|
| AA-01 | one |

## Waived, and why
| AA |
"""

RUN = {"seconds": 1.0, "load": [0.5, 1.0], "workers": 2}


def make_tree(root: Path, **results: dict[str, tuple[str, list[str]]]) -> Path:
    (root / "docs").mkdir()
    (root / spec.CHECKLIST).write_text(CHECKLIST, encoding="utf-8")
    (root / run_record.FOLDER).mkdir()
    for name, tests in results.items():
        entries = {
            test: {"outcome": outcome, "ids": ids, "seconds": 0.1, "cpu": 0.1} for test, (outcome, ids) in tests.items()
        }
        (root / run_record.FOLDER / f"{name}.json").write_text(
            json.dumps({"run": RUN, "fixtures": {}, "tests": entries})
        )
    return root


def printed(root: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert spec.main(root) == 0
    return capsys.readouterr().out.splitlines()


def test_the_real_checklist_has_every_item_of_every_group() -> None:
    groups = spec.parse_checklist((spec.ROOT / spec.CHECKLIST).read_text(encoding="utf-8"))
    assert [(group.name, len(group.items)) for group in groups] == [
        ("RF", 19),
        ("NW", 7),
        ("LS", 52),
        ("LM", 48),
        ("RP", 42),
        ("CO", 11),
        ("TS", 49),
        ("CF", 3),
    ]
    for group in groups:
        assert sorted(group.items) == [f"{group.name}-{number:02}" for number in range(1, len(group.items) + 1)]


def test_rows_are_taken_in_the_order_of_the_tables() -> None:
    groups = spec.parse_checklist(CHECKLIST)
    assert [(group.name, list(group.items)) for group in groups] == [("BB", ["BB-02", "BB-01"]), ("AA", ["AA-01"])]
    assert groups[0].items["BB-01"] == "a pipe | inside"


@pytest.mark.parametrize("row", ["| BB-01 | again |", "| CC-01 | of no group |"])
def test_a_row_that_does_not_fit_is_refused(row: str) -> None:
    with pytest.raises(spec.ChecklistError, match=row[2:7]):
        spec.parse_checklist(CHECKLIST.replace("| BB-02 | out of order |", row))


def test_ends_with_one_line_per_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_tree(tmp_path, test={"t.py::a": ("passed", ["BB-01", "AA-01"])})
    assert printed(root, capsys)[-3:] == ["", "BB 1/2", "AA 1/1"]


def test_names_the_proving_tests_and_marks_the_unproven(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_tree(
        tmp_path,
        test={
            "t.py::a[1]": ("passed", ["BB-01"]),
            "t.py::a[2]": ("passed", ["BB-01"]),
            "t.py::b": ("failed", ["BB-01", "BB-02"]),
        },
    )
    text = "\n".join(printed(root, capsys))
    assert re.search(r"BB-01  proven .*\n +t\.py::a \(2 cases\)\n\n", text)
    assert re.search(r"BB-02  UNPROVEN .*\n +failed: t\.py::b\n", text)
    assert "UNPROVEN  one" in text


@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_failed_and_skipped_tests_prove_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], outcome: str
) -> None:
    root = make_tree(tmp_path, test={"t.py::a": (outcome, ["AA-01"])})
    assert printed(root, capsys)[-1] == "AA 0/1"


def test_all_kinds_of_run_count_and_one_passing_is_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_tree(
        tmp_path,
        test={"t.py::a": ("failed", ["AA-01"]), "t.py::b": ("passed", ["BB-01"])},
        long={"t.py::c": ("passed", ["AA-01", "BB-02"])},
    )
    assert printed(root, capsys)[-2:] == ["BB 2/2", "AA 1/1"]


def test_no_results_prove_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(make_tree(tmp_path), capsys)[-2:] == ["BB 0/2", "AA 0/1"]


@pytest.mark.parametrize("damage", ["", "[]", '{"tests": 3}', '{"tests": {"t": {"ids": []}}}'])
def test_damaged_results_are_named_and_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    root = make_tree(tmp_path, test={"t.py::a": ("passed", ["AA-01"])})
    (root / run_record.FOLDER / "broken.json").write_text(damage)
    assert spec.main(root) == 0
    out, err = capsys.readouterr()
    assert out.endswith("AA 1/1\n")
    assert err.startswith("broken.json left out")


def test_runs_as_a_script() -> None:
    result = subprocess.run([sys.executable, spec.__file__], capture_output=True, text=True, check=False)
    assert result.returncode == 0
    assert re.fullmatch(r"RF \d+/19", result.stdout.splitlines()[-8])
