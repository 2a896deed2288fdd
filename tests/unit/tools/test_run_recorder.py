from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import run_record
import spec
from suite import recorder

TESTS_FOLDER = Path(recorder.__file__).parents[1]
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
    "test_it.py::TestInherited::test_expected_to_fail": ("skipped", ["AA-03"]),
    "test_it.py::TestInherited::test_skipped": ("skipped", ["AA-03"]),
    "test_it.py::test_fails_for_two[1]": ("passed", ["AA-01"]),
    "test_it.py::test_fails_for_two[2]": ("failed", ["AA-01", "AA-03"]),
    "test_it.py::test_passes": ("passed", ["AA-01", "AA-02"]),
    "test_it.py::test_teardown_fails": ("failed", ["AA-03"]),
    "test_it.py::test_unmarked": ("passed", []),
}


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project of its own with this plugin, a checklist and a few marked tests."""
    pytester.mkdir("docs").joinpath("spec-checklist.md").write_text(CHECKLIST, encoding="utf-8")
    pytester.makeini(f"[pytest]\nmarkers = spec(*ids): proven items\npythonpath = {TESTS_FOLDER} {TOOLS}\n")
    pytester.makeconftest("pytest_plugins = ['suite.spec_marks', 'suite.recorder']")
    pytester.makepyfile(test_it=TESTS)
    return pytester


def record(project: pytest.Pytester, name: str = "test") -> Any:
    return json.loads((project.path / run_record.FOLDER / f"{name}.json").read_text())


def recorded(project: pytest.Pytester, name: str = "test") -> dict[str, tuple[str, list[str]]]:
    return {test: (entry["outcome"], entry["ids"]) for test, entry in record(project, name)["tests"].items()}


@pytest.mark.parametrize("processes", [[], ["-n", "2"]], ids=["one process", "xdist"])
def test_records_the_outcome_of_every_test(project: pytest.Pytester, processes: list[str]) -> None:
    project.runpytest_inprocess("--spec-results=test", *processes)
    assert recorded(project) == OUTCOMES


TIMED = """
    import subprocess
    import sys
    import threading
    import time

    import pytest

    SPIN = "import time\\nwhile time.process_time() < 0.2: pass"

    @pytest.fixture(scope="module")
    def slow():
        threading.Event().wait(0.1)
        yield
        threading.Event().wait(0.1)

    def test_waits(slow):
        threading.Event().wait(0.1)

    def test_computes(slow):
        subprocess.run([sys.executable, "-c", SPIN], check=True)

    def test_is_skipped():
        pytest.skip("no such program")
"""


@pytest.mark.parametrize("processes", [[], ["-n", "1"]], ids=["one process", "xdist"])
def test_records_seconds_with_setup_and_teardown_and_cpu_with_children(
    project: pytest.Pytester, processes: list[str]
) -> None:
    project.makepyfile(test_it=TIMED)
    project.runpytest_inprocess("--spec-results=test", *processes)
    run = run_record.parse("test", record(project))
    results = {result.test.removeprefix("test_it.py::"): result for result in run.results}
    assert results["test_waits"].seconds >= 0.2
    assert results["test_waits"].cpu < 0.2
    assert results["test_computes"].cpu >= 0.2
    assert results["test_is_skipped"].reason == "no such program"
    assert results["test_is_skipped"].seconds >= 0.1, "the fixture of the module is torn down after it"
    setups, seconds = run.fixtures["test_it.py::slow"]
    assert setups == 1
    assert seconds >= 0.1


def test_a_run_without_the_option_records_nothing(project: pytest.Pytester) -> None:
    project.runpytest_inprocess()
    assert not (project.path / run_record.FOLDER).exists()


def test_a_run_replaces_the_results_of_its_own_kind_only(project: pytest.Pytester) -> None:
    project.runpytest_inprocess("--spec-results=test-long")
    project.runpytest_inprocess("--spec-results=test")
    project.makepyfile(test_it="import pytest\n@pytest.mark.spec('AA-02')\ndef test_other(): pass\n")
    project.runpytest_inprocess("--spec-results=test")
    assert recorded(project) == {"test_it.py::test_other": ("passed", ["AA-02"])}
    assert recorded(project, "test-long") == OUTCOMES


@pytest.mark.parametrize("cut", [["-x"], ["-x", "-n1"], ["--collect-only"], ["-k", "nothing"]], ids=" ".join)
def test_a_run_cut_short_keeps_the_earlier_results(project: pytest.Pytester, cut: list[str]) -> None:
    project.runpytest_inprocess("--spec-results=test")
    project.runpytest_inprocess("--spec-results=test", *cut)
    assert recorded(project) == OUTCOMES


CRASHES = """
    import os

    def test_crashes():
        os._exit(1)

    def test_other():
        pass
"""


def test_a_test_that_ends_its_worker_is_recorded_as_failed(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=CRASHES)
    project.runpytest_inprocess("--spec-results=test", "-n1")
    assert recorded(project) == {"test_it.py::test_crashes": ("failed", []), "test_it.py::test_other": ("passed", [])}


def test_a_run_that_ends_because_workers_crash_keeps_the_earlier_results(project: pytest.Pytester) -> None:
    project.runpytest_inprocess("--spec-results=test")
    project.makepyfile(test_it=CRASHES)
    project.runpytest_inprocess("--spec-results=test", "-n1", "--max-worker-restart=0")
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
