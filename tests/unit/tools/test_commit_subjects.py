"""Commit subjects: the form, the length, and which commits the rule applies to."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from commit_subjects import main, problems
from language import ROOT, STYLE, read_style

PAGE = """\
### Phrases
| phrase | write instead |
|---|---|
| `red fish` | a number |

### Names
| name | write instead | allowed |
|---|---|---|
"""


@pytest.mark.parametrize(
    ("subject", "problem"),
    [
        ("storage: Sync the directory before renaming the swap file", None),
        ("cli, docs: Describe every option", None),
        ("tests/sim: Measure memory", None),
        ("docs: Add " + "x" * 62, None),
        ("docs: Add " + "x" * 63, "73 characters"),
        ("Sync the directory", "area"),
        ("Storage: Sync the directory", "area"),
        ("storage: sync the directory", "verb"),
        ("storage: Sync", "verb"),
        ("storage: Sync the directory.", "period"),
        ("storage: Sync red fish directories", "a number"),
        ("", "area"),
        ('Revert "Sync the directory"', None),
    ],
)
def test_form_of_a_subject(subject: str, problem: str | None) -> None:
    found = problems(subject, read_style(PAGE))
    assert bool(found) is (problem is not None)
    assert problem is None or any(problem in line for line in found)


def test_hook_checks_the_first_line_of_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = tmp_path / "message"
    message.write_text("# a comment\n\ndocs: Add a page\n\nany body it likes\n")
    assert main([str(message)], ROOT) == 0
    message.write_text("Add a page\n")
    assert main([str(message)], ROOT) == 1
    assert "message: Add a page" in capsys.readouterr().out


def test_rule_applies_after_the_commit_of_the_style_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def commit(subject: str, path: str, text: str) -> None:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        for words in (["add", "."], [*identity, "commit", "-qm", subject]):
            subprocess.run(["git", "-C", str(tmp_path), *words], check=True)

    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    commit("Old subject", "a", "1")
    commit("Another old subject", STYLE, PAGE)
    assert main([], tmp_path) == 0
    commit("docs: Add a page", "b", "1")
    assert main([], tmp_path) == 0
    commit("Add a page", "c", "1")
    commit("docs: Add another page", "c", "2")
    assert main([], tmp_path) == 1
    assert [line.split(": ", 1)[1] for line in capsys.readouterr().out.splitlines()[::2]] == ["Add a page"]


def test_tree_without_a_repository_has_no_subjects(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / STYLE).write_text(PAGE)
    assert main([], tmp_path) == 0
