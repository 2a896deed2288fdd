from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import spec
import spec_results

PLUGIN_FOLDER = Path(spec_results.__file__).parent
TOOLS = Path(spec.__file__).parent

CHECKLIST = """\
## AA · Group
| id | behaviour |
|---|---|
| AA-01 | one |
| AA-02 | two |
| AA-03 | three |
"""

TESTS = """
    import pytest

    @pytest.mark.spec("AA-01", "AA-02")
    def test_passes():
        pass

    @pytest.mark.spec("AA-01")
    @pytest.mark.parametrize("value", [1, pytest.param(2, marks=pytest.mark.spec("AA-03"))])
    def test_fails_for_two(value):
        assert value == 1

    @pytest.mark.spec("AA-03")
    class TestInherited:
        def test_skipped(self):
            pytest.skip("not here")

        @pytest.mark.xfail(strict=True)
        def test_expected_to_fail(self):
            assert False

    @pytest.fixture
    def breaks_afterwards():
        yield
        assert False

    @pytest.mark.spec("AA-03")
    def test_teardown_fails(breaks_afterwards):
        pass

    def test_unmarked():
        pass
"""

OUTCOMES = {
    "test_it.py::TestInherited::test_expected_to_fail": {"outcome": "skipped", "ids": ["AA-03"]},
    "test_it.py::TestInherited::test_skipped": {"outcome": "skipped", "ids": ["AA-03"]},
    "test_it.py::test_fails_for_two[1]": {"outcome": "passed", "ids": ["AA-01"]},
    "test_it.py::test_fails_for_two[2]": {"outcome": "failed", "ids": ["AA-01", "AA-03"]},
    "test_it.py::test_passes": {"outcome": "passed", "ids": ["AA-01", "AA-02"]},
    "test_it.py::test_teardown_fails": {"outcome": "failed", "ids": ["AA-03"]},
}


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project of its own with this plugin, a checklist and a few marked tests."""
    pytester.mkdir("docs").joinpath("spec-checklist.md").write_text(CHECKLIST, encoding="utf-8")
    pytester.makeini(f"[pytest]\nmarkers = spec(*ids): proven items\npythonpath = {PLUGIN_FOLDER} {TOOLS}\n")
    pytester.makeconftest("pytest_plugins = ['spec_results']")
    pytester.makepyfile(test_it=TESTS)
    return pytester


def recorded(project: pytest.Pytester, name: str = "test") -> Any:
    return json.loads((project.path / spec.RESULTS / f"{name}.json").read_text())["tests"]


@pytest.mark.parametrize("processes", [[], ["-n", "2"]], ids=["one process", "xdist"])
def test_records_the_outcome_of_every_marked_test(project: pytest.Pytester, processes: list[str]) -> None:
    project.runpytest_inprocess("--spec-results=test", *processes)
    assert recorded(project) == OUTCOMES


def test_a_run_without_the_option_records_nothing(project: pytest.Pytester) -> None:
    project.runpytest_inprocess()
    assert not (project.path / spec.RESULTS).exists()


def test_a_run_replaces_the_results_of_its_own_kind_only(project: pytest.Pytester) -> None:
    project.runpytest_inprocess("--spec-results=test-long")
    project.runpytest_inprocess("--spec-results=test")
    project.makepyfile(test_it="import pytest\n@pytest.mark.spec('AA-02')\ndef test_other(): pass\n")
    project.runpytest_inprocess("--spec-results=test")
    assert recorded(project) == {"test_it.py::test_other": {"outcome": "passed", "ids": ["AA-02"]}}
    assert recorded(project, "test-long") == OUTCOMES


@pytest.mark.parametrize("cut", [["-x"], ["-x", "-n1"], ["--collect-only"], ["-k", "nothing"]], ids=" ".join)
def test_a_run_cut_short_keeps_the_earlier_results(project: pytest.Pytester, cut: list[str]) -> None:
    project.runpytest_inprocess("--spec-results=test")
    project.runpytest_inprocess("--spec-results=test", *cut)
    assert recorded(project) == OUTCOMES


@pytest.mark.parametrize("processes", [[], ["-n1"]], ids=["one process", "xdist"])
def test_a_collection_error_keeps_the_earlier_results(project: pytest.Pytester, processes: list[str]) -> None:
    project.runpytest_inprocess("--spec-results=test")
    project.makepyfile(test_broken="import no_such_module_anywhere")
    assert project.runpytest_inprocess("--spec-results=test", *processes).ret != pytest.ExitCode.OK
    assert recorded(project) == OUTCOMES


@pytest.mark.parametrize(
    ("mark", "processes"),
    [("'AA-01', 'AA-99'", []), ("'AA-01', 'AA-99'", ["-n1"]), ("['AA-01']", []), ("", []), ("item='AA-01'", [])],
)
def test_a_wrong_mark_is_a_collection_error(project: pytest.Pytester, mark: str, processes: list[str]) -> None:
    project.makepyfile(test_it=f"import pytest\n@pytest.mark.spec({mark})\ndef test_it(): pass\n")
    result = project.runpytest_inprocess(*processes)
    assert result.ret != pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*test_it: spec mark not in docs/spec-checklist.md: *"])
    result.assert_outcomes(errors=1)
