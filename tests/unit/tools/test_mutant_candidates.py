"""The generator of mutants: what it changes, what it leaves alone, and how it chooses."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path

import pytest

import mutants
from mutation_testing import candidates, catalog
from mutation_testing.catalog import Mutant, Rejected


def changes(body: str, head: str = "def f(a, b):") -> set[tuple[str, str, str]]:
    indented = "".join(f"    {line}\n" for line in body.splitlines())
    found = candidates.candidates("tailrace.m", f"{head}\n{indented}")
    return {(mutant.kind, mutant.old, mutant.new) for mutant in found}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return a < b", {("comparison", "return a < b", "return a <= b")}),
        ("return a.c() is not None", {("comparison", "return a.c() is not None", "return a.c() is None")}),
        ("return (a) not in (b)", {("comparison", "return (a) not in (b)", "return (a) in (b)")}),
        ("return é < b", {("comparison", "return é < b", "return é <= b")}),
        ("a.b = b", {("removed", "a.b = b", "pass")}),
        ("a[b] = b", {("removed", "a[b] = b", "pass")}),
        ("a += b", {("removed", "a += b", "pass")}),
        ("return 7", {("constant", "return 7", "return 8")}),
        ("return True", {("constant", "return True", "return False")}),
        ("return b.c(a, b, k=a)", {("swapped", "return b.c(a, b, k=a)", "return b.c(b, a, k=a)")}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_kind_of_change_is_a_candidate(line: str, expected: set[tuple[str, str, str]]) -> None:
    assert changes(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        "raise ValueError(1)",
        "assert a < b",
        "invariant(a < b, a, b)",
        "_log.info(a, b)",
        'return f"{a < b}"',
        "return a < b < a",
        "return max(a, b)",
        "return c(a, 'b')",
        "return c(a, a)",
        "return a",
    ],
)
def test_line_that_tests_are_not_about_has_no_candidate(line: str) -> None:
    assert changes(line) == set()


def test_line_that_occurs_twice_in_a_function_is_no_candidate() -> None:
    assert changes("a += b\na += b") == set()


@pytest.mark.parametrize("head", ["@functools.cache\ndef f(a, b):", "def __repr__(a, b):"])
def test_function_that_runs_once_or_only_for_people_has_no_candidate(head: str) -> None:
    assert changes("return a < b", head) == set()


def test_generated_module_has_no_candidate_and_no_weight() -> None:
    text = "# Made by tools/make_messages.py. Change that.\ndef f(a):\n    a += 1\n"
    assert list(candidates.candidates("tailrace.m", text)) == []
    assert candidates.statements(text) == 0
    assert candidates.statements(text.partition("\n")[2]) == 1


def test_line_outside_functions_is_no_candidate() -> None:
    assert list(candidates.candidates("tailrace.m", "A = 1 < 2\n\n\nclass C:\n    b = 3\n")) == []


def test_every_candidate_of_a_real_module_is_located_and_compiles() -> None:
    source = mutants.ROOT / "src"
    text = (source / "tailrace" / "storage" / "append_set.py").read_text(encoding="utf-8")
    found = list(candidates.candidates("tailrace.storage.append_set", text))
    assert {mutant.kind for mutant in found} == set(catalog.KINDS)
    for mutant in found:
        changed = catalog.mutated(text, catalog.locate(mutant, source), mutant)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))


def test_quotas_follow_the_weights_and_give_every_package_one() -> None:
    assert candidates.quotas({"a": 900, "b": 90, "c": 9, "d": 1, "none": 0}, 100) == {"a": 89, "b": 9, "c": 1, "d": 1}
    assert candidates.quotas({"a": 5, "b": 5}, 5) == {"a": 3, "b": 2}
    with pytest.raises(ValueError, match="2 mutants cannot cover 3 packages"):
        candidates.quotas({"a": 1, "b": 1, "c": 1}, 2)


def pool() -> list[Mutant]:
    return [
        Mutant(0, kind, "tailrace.m", f"f{number}", f"{kind} {number}", "pass")
        for kind in catalog.KINDS
        for number in range(20)
    ]


def test_choice_depends_on_the_seed_alone() -> None:
    first = candidates.choose(pool(), 14, "20/storage", ())
    assert first == candidates.choose(pool()[::-1], 14, "20/storage", ())
    assert first != candidates.choose(pool(), 14, "21/storage", ())


def test_choice_has_every_kind_and_one_mutant_per_function() -> None:
    chosen = candidates.choose(pool(), 14, "20/storage", ())
    assert {mutant.kind for mutant in chosen} == set(catalog.KINDS)
    assert len({mutant.name for mutant in chosen}) == 14


def test_choice_ends_where_candidates_end() -> None:
    assert len(candidates.choose(pool()[:5], 14, "20/storage", ())) == 5


@pytest.fixture
def source(tmp_path: Path) -> Path:
    package = tmp_path / "tailrace" / "storage"
    package.mkdir(parents=True)
    for number in range(6):
        (package / f"log{number}.py").write_text("def f(a):\n    return a < b\n\n\ndef g(a):\n    return a.b(7)\n")
    return tmp_path


def rejection(mutant: Mutant) -> Rejected:
    return Rejected(mutant.module, mutant.name, mutant.old, mutant.new, "equivalent")


def test_rejected_candidate_is_not_generated_again(source: Path) -> None:
    first = candidates.generate(source, 20, 4)
    rejected = [rejection(mutant) for mutant in first.mutants]
    second = candidates.generate(source, 20, 4, rejected)
    assert second.rejected == (*rejected,)
    assert [mutant.number for mutant in second.mutants] == [1, 2, 3, 4]
    assert not {mutant.key for mutant in first.mutants} & {mutant.key for mutant in second.mutants}


def test_refill_replaces_what_is_rejected_or_gone_and_keeps_the_rest(source: Path) -> None:
    old = candidates.generate(source, 20, 4)
    gone, bad, *kept = old.mutants
    assert gone.module != bad.module
    (source / "tailrace" / "storage" / f"{gone.module.rpartition('.')[2]}.py").unlink()
    kept = [mutant for mutant in kept if mutant.module != gone.module]
    new = candidates.refill(source, dataclasses.replace(old, rejected=(rejection(bad),)))
    assert [mutant.number for mutant in new.mutants] == [1, 2, 3, 4]
    assert set(kept) <= set(new.mutants)
    assert new.mutants[1].key != bad.key
    assert new.mutants[0].kind == gone.kind
    assert catalog.locate_all(new.mutants, source)[1] == {}
    assert len({(mutant.module, mutant.name) for mutant in new.mutants}) == 4


def test_refill_of_a_list_that_applies_changes_nothing(source: Path) -> None:
    old = candidates.generate(source, 20, 4)
    assert candidates.refill(source, old) == old


def test_refill_without_candidates_fails(source: Path) -> None:
    old = candidates.generate(source, 20, 12)
    for path in source.rglob("log1.py"):
        path.unlink()
    with pytest.raises(ValueError, match="no candidate is left for mutant"):
        candidates.refill(source, old)
