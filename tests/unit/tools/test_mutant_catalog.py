"""The list of mutants: its file format, and where a mutant is in a tree."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import mutants
from mutation_testing import catalog
from mutation_testing.catalog import KINDS, Catalog, CatalogError, InapplicableError, Mutant, Rejected

SOURCE = '''\
"""A module."""

LIMIT = 3


class Log:
    def append(self, size):
        if size > LIMIT:
            raise ValueError
        self.end += size

        def written():
            self.end += size

    def trim(self):
        self.end -= 1
        self.end -= 1


def append(size):
    return size > LIMIT
'''

MUTANT = Mutant(7, "comparison", "tailrace.storage.log", "Log.append", "if size > LIMIT:", "if size >= LIMIT:")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    module = tmp_path / "tailrace" / "storage" / "log.py"
    module.parent.mkdir(parents=True)
    module.write_text(SOURCE)
    (module.parent / "__init__.py").write_text("def f():\n    pass\n")
    return tmp_path


def test_rendered_list_is_read_back(tmp_path: Path) -> None:
    quotes = replace(MUTANT, number=8, old="say('a \\ b', \"é\")", new="pass", kind="removed")
    written = Catalog(20, (MUTANT, quotes), (Rejected("m", "f", "a < b", "a <= b", "equivalent"),))
    path = tmp_path / "mutants.toml"
    path.write_text(catalog.render(written), encoding="utf-8")
    assert catalog.read(path) == written


@pytest.mark.parametrize(
    "second",
    [replace(MUTANT, new="if True:"), replace(MUTANT, number=8), replace(MUTANT, number=8, kind="renamed", new="pass")],
    ids=["number", "change", "kind"],
)
def test_ambiguous_list_is_refused(tmp_path: Path, second: Mutant) -> None:
    path = tmp_path / "mutants.toml"
    path.write_text(catalog.render(Catalog(20, (MUTANT, second))))
    with pytest.raises(CatalogError):
        catalog.read(path)


def test_mutant_is_located_in_its_own_function(source: Path) -> None:
    location = catalog.locate(MUTANT, source)
    assert location == (source / "tailrace" / "storage" / "log.py", 8)
    assert catalog.mutated(SOURCE, location, MUTANT) == SOURCE.replace("if size > LIMIT:", "if size >= LIMIT:")


def test_line_of_an_inner_function_belongs_to_that_function(source: Path) -> None:
    outer = replace(MUTANT, old="self.end += size", new="pass")
    assert catalog.locate(outer, source).line == 10
    assert catalog.locate(replace(outer, name="Log.append.written"), source).line == 13


def test_package_module_is_its_init_file(source: Path) -> None:
    mutant = replace(MUTANT, module="tailrace.storage", name="f", old="pass", new="return 1")
    assert catalog.locate(mutant, source).path.name == "__init__.py"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"module": "tailrace.storage.segment"}, "there is no module tailrace.storage.segment"),
        ({"name": "Log.write"}, "tailrace.storage.log has no function Log.write"),
        ({"old": "if size < LIMIT:"}, "tailrace.storage.log.Log.append has no lines with the old text"),
        ({"name": "Log.trim", "old": "self.end -= 1"}, "tailrace.storage.log.Log.trim has 2 lines with the old text"),
    ],
    ids=["module", "function", "line", "two lines"],
)
def test_mutant_that_no_longer_applies_says_why(source: Path, change: dict[str, str], reason: str) -> None:
    mutant = replace(MUTANT, **change)  # type: ignore[arg-type]
    with pytest.raises(InapplicableError, match=reason):
        catalog.locate(mutant, source)
    assert catalog.locate_all([MUTANT, replace(mutant, number=9)], source) == (
        {7: catalog.locate(MUTANT, source)},
        {9: reason},
    )


def test_committed_list_covers_every_package_and_kind() -> None:
    committed = catalog.read(mutants.LIST)
    assert len(committed.mutants) == 120
    kinds = Counter(mutant.kind for mutant in committed.mutants)
    assert set(kinds) == set(KINDS)
    assert min(kinds.values()) >= 10
    packages = {path.parent.name for path in (mutants.ROOT / "src" / "tailrace").glob("*/__init__.py")}
    assert packages <= {mutant.package for mutant in committed.mutants}
    assert not {mutant.key for mutant in committed.mutants} & {entry.key for entry in committed.rejected}
