from __future__ import annotations

import re
from pathlib import Path

import pytest

from suite import seeds

ROOT = Path(__file__).resolve().parents[3]

PROPERTY = """
    from hypothesis import given, settings, strategies
    from suite.seeds import examples, parametrized_seeds

    drawn = []

    @given(strategies.integers())
    @settings(max_examples=examples(20))
    def test_property(number):
        drawn.append(number)

    def test_prints():
        print("drawn", len(drawn), hash(tuple(drawn)))

    @parametrized_seeds(core=1, fresh=2)
    def test_stress(seed):
        print("seed", seed)
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (seeds.BASE_SEED, seeds.PROFILE, seeds.STRESS_SEEDS, "CI"):
        monkeypatch.delenv(name, raising=False)


def test_ci_derives_its_seeds_from_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(seeds, "_seed_of_tree", lambda: 1234)
    first = seeds.seeds()
    monkeypatch.delenv(seeds.BASE_SEED)
    assert seeds.seeds() == first, "the same tree gives the same run"
    monkeypatch.delenv(seeds.BASE_SEED)
    monkeypatch.setattr(seeds, "_seed_of_tree", lambda: 1235)
    other = seeds.seeds()
    assert other[: seeds.CORE] == first[: seeds.CORE] == list(range(seeds.CORE))
    assert not set(other[seeds.CORE :]) & set(first[seeds.CORE :])


def test_without_git_ci_has_a_fixed_seed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert seeds.base_seed() == 0


def test_outside_a_checkout_ci_has_a_fixed_seed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setattr(seeds, "ROOT", tmp_path)
    assert seeds.base_seed() == 0


def test_the_header_names_the_tree_only_as_the_origin_of_its_own_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(seeds, "_seed_of_tree", lambda: 1234)
    assert seeds.pytest_report_header() == "seed: 1234 (from the tree), profile ci; repeat with TAILRACE_SEED=1234"
    monkeypatch.setenv(seeds.BASE_SEED, "5")
    assert seeds.pytest_report_header() == "seed: 5, profile ci; repeat with TAILRACE_SEED=5"


def test_a_base_seed_that_is_not_an_integer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(seeds.BASE_SEED, "five")
    with pytest.raises(pytest.UsageError, match="TAILRACE_SEED=five: a seed is an integer"):
        seeds.base_seed()


def test_development_tries_others_in_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    first = seeds.seeds()
    assert seeds.seeds() == first, "all processes of a run have the same seeds"
    monkeypatch.delenv(seeds.BASE_SEED)
    assert seeds.seeds() != first


def test_the_profile_decides_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {}
    for name in seeds.PROFILES:
        monkeypatch.setenv(seeds.PROFILE, name)
        counts[name] = (seeds.examples(300), seeds.examples(4), len(seeds.seeds(core=2, fresh=3)))
    assert counts == {"development": (150, 4, 5), "ci": (300, 4, 5), "soak": (3000, 40, 32)}


def test_an_unknown_profile_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(seeds.PROFILE, "nightly")
    with pytest.raises(pytest.UsageError, match="the profiles are development, ci, soak"):
        seeds.profile()


@pytest.mark.parametrize(("chosen", "expected"), [("17", [17]), ("3:6", [3, 4, 5])])
def test_seeds_can_be_chosen(monkeypatch: pytest.MonkeyPatch, chosen: str, expected: list[int]) -> None:
    monkeypatch.setenv(seeds.STRESS_SEEDS, chosen)
    assert seeds.seeds() == expected


def test_every_property_takes_its_number_of_examples_from_the_profile() -> None:
    """Also one that does not say how many: the default is the profile's."""
    fixed = re.compile(r"max_examples=(?!examples\()")
    files = [path for path in (ROOT / "tests").rglob("*.py") if path not in (Path(__file__), Path(seeds.__file__))]
    found = [path.name for path in files if fixed.search(path.read_text(encoding="utf-8"))]
    assert found == []


def test_a_failure_says_how_to_repeat_it() -> None:
    with pytest.raises(ValueError, match="lost") as raised, seeds.reproducible(7, ["first", "second"], __file__):
        raise ValueError("lost")
    file = Path(__file__).relative_to(ROOT)
    assert raised.value.__notes__ == [f"first\nsecond\nrepeat with: TAILRACE_SEEDS=7 python -m pytest {file}"]


def test_a_run_repeats_with_its_base_seed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makeconftest("pytest_plugins = ['suite.seeds']")
    pytester.makeini(f"[pytest]\npythonpath = {ROOT / 'tests'} {ROOT / 'tools'}\n")
    pytester.makepyfile(test_it=PROPERTY)

    def drawn(seed: str) -> list[str]:
        monkeypatch.setenv(seeds.BASE_SEED, seed)
        result = pytester.runpytest_subprocess("-s", "-p", "no:cacheprovider", "-p", "no:xdist")
        result.assert_outcomes(passed=5)
        result.stdout.fnmatch_lines([f"seed: {seed}, profile development; repeat with TAILRACE_SEED={seed}"])
        return re.findall(r"\.(drawn .*|seed .*)", result.stdout.str())

    first = drawn("5")
    assert first[0].startswith("drawn 10 ")
    assert drawn("5") == first
    assert drawn("6") != first
