"""The command that runs the tests a change can affect: what it shows, what it runs, and what it evaluates."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from small_repository import LOG, TEST, Repository

import changed_tests
from changed_tests import arguments_of, describe, evaluate, explain, read_durations
from selection import rules
from selection.selection import Item
from selection.trees import FactsCache, Tree

SOURCES_BY_PATTERN = re.compile(r"""["'](?:\w+/)*[\w-]*\*[\w-]*\.(?:py|md)["']""").search
SOURCES = "*" + ".py"
NEEDS_NO_RULE = {
    "tests/unit/docs/test_formats.py",  # reads the pages that it names
    "tests/suite/early_imports.py",  # imports test files ahead of time; no result depends on it
}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_description_names_changes_files_and_reasons(repository: Repository) -> None:
    repository.change(LOG, "self.records[-1]", "self.records[0]")
    assert describe(repository.find()) == [
        "1 changed file",
        f"  {LOG}: Log.newest",
        "1 of 1 test files selected, 1 of 3 tests",
        f"  {TEST} (1): {LOG}: Log.newest",
    ]


def test_explanation_shows_the_way_to_the_change(repository: Repository) -> None:
    repository.change(LOG, "record[:LIMIT]", "record[1:]")
    lines = explain(repository.find(), TEST)
    assert lines[0] == f"{TEST}::test_append"
    assert lines[-1] == f"  {LOG}: check"
    assert "  tests/support/logs/builders.py: filled" in lines
    assert explain(repository.find(), "tests/unit/test_none.py") == ["tests/unit/test_none.py: no test is selected"]


def test_arguments_name_whole_files_where_every_test_is_selected(repository: Repository) -> None:
    repository.change(LOG, "self.records[-1]", "self.records[0]")
    found = repository.find()
    assert arguments_of(found.selection, found.selector.tests) == [f"{TEST}::test_newest"]
    repository.change(LOG, "LIMIT = 10", "print(LIMIT := 10)")
    found = repository.find()
    assert arguments_of(found.selection, found.selector.tests) == [TEST]


def test_evaluation_adds_the_recorded_seconds(repository: Repository, tmp_path: Path) -> None:
    repository.change(LOG, "self.records[-1]", "self.records[0]")
    repository.commit()
    seconds = {f"{TEST}::test_newest[a]": 3, f"{TEST}::test_newest[b]": 3, f"{TEST}::test_name": 9}
    tests = {test: {"outcome": "passed", "ids": [], "seconds": each, "cpu": 0} for test, each in seconds.items()}
    record = tmp_path / "test.json"
    record.write_text(json.dumps({"run": {"seconds": 15, "load": [], "workers": 1}, "fixtures": {}, "tests": tests}))
    durations = read_durations(record)
    assert durations == {Item(TEST, "test_newest"): 6, Item(TEST, "test_name"): 9}
    lines = evaluate(repository.git, FactsCache(tmp_path / "cache"), 1, durations)
    assert lines[0].startswith("    6.0 s    1 files     1 tests    0 unrecorded  ")
    assert lines[1] == "median 6.0 s of 15.0 s"


def test_cache_is_kept_and_survives_damage(repository: Repository) -> None:
    cache = FactsCache(repository.root / "cache")
    tree = Tree.of_working_tree(repository.git)
    facts = cache.facts(tree)
    cache.save()
    assert FactsCache(repository.root / "cache").facts(tree) == facts
    (repository.root / "cache").write_bytes((repository.root / "cache").read_bytes()[:100])
    assert FactsCache(repository.root / "cache").facts(tree) == facts


def test_file_that_cannot_be_parsed_is_an_error(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(changed_tests, "ROOT", repository.root)
    repository.write({LOG: "def (:\n"})
    assert changed_tests.main([]) == 1
    assert LOG in capsys.readouterr().err


def test_selected_tests_are_run(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(changed_tests, "ROOT", repository.root)
    repository.write({"tests/unit/test_new.py": "def test_new(): assert 0\n"})
    assert changed_tests.main(["--run", "--", "-q", "-p", "no:cacheprovider"]) == 1
    assert "FAILED tests/unit/test_new.py::test_new" in capfd.readouterr().out
    repository.write({"tests/unit/test_new.py": "def test_new(): ...\n"})
    assert changed_tests.main(["--run", "--", "-q", "-p", "no:cacheprovider", "-k", "nothing"]) == 0
    repository.commit()
    assert changed_tests.main(["--run"]) == 0


def test_this_repository_has_rules_for_what_reads_sources() -> None:
    """A test that lists sources by a pattern depends on files that it does not import."""
    root = changed_tests.ROOT
    paths = [path for folder in ("tests", "tools") for path in (root / folder).rglob(SOURCES)]
    listing = {path.relative_to(root).as_posix() for path in paths if SOURCES_BY_PATTERN(path.read_text())}
    known = {reader for reader, _ in rules.READERS} | NEEDS_NO_RULE
    assert listing - known == set()
    assert [reader for reader, _ in rules.READERS if not (root / reader).exists()] == []
