from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from run_record import Times
from suite import scheduler
from suite.scheduler import Lanes, LaneScheduling, known_times, plan

COMPUTES, WAITS = 1.0, 0.1  # CPU time as a share of the seconds


def times(**seconds_and_share: tuple[float, float]) -> dict[str, Times]:
    return {f"{name}.py": Times(seconds, seconds * share) for name, (seconds, share) in seconds_and_share.items()}


class Node:
    """A worker that remembers what it was given."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.given: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, positions: Sequence[int]) -> None:
        self.given += positions

    def shutdown(self) -> None:
        self.shutting_down = True


def started(scheduling: LaneScheduling, collection: list[str], count: int) -> list[Node]:
    nodes = [Node(f"gw{number}") for number in range(count)]
    for node in nodes:
        scheduling.add_node(node)
    for node in nodes:
        scheduling.add_node_collection(node, collection)
    scheduling.schedule()
    return nodes


def test_plan_keeps_files_whole_and_puts_the_longest_first() -> None:
    collection = ["a.py::one", "a.py::two", "b.py::one", "c.py::one"]
    groups = plan(collection, times(a=(1, COMPUTES), b=(5, WAITS), c=(3, COMPUTES)))
    assert [(group.name, group.tests, group.waits) for group in groups] == [
        ("b.py", (2,), True),
        ("c.py", (3,), False),
        ("a.py", (0, 1), False),
    ]


def test_plan_estimates_files_without_a_duration_by_their_tests() -> None:
    groups = plan(["a.py::one", *(f"b.py::{number}" for number in range(100))], {})
    assert [(group.name, group.seconds) for group in groups] == [("b.py", 5.0), ("a.py", 0.05)]


@pytest.mark.parametrize(("kind", "seconds"), [("test", 1), ("test-long", 9), (None, 9)])
def test_times_of_the_same_kind_of_run_win(kind: str | None, seconds: float) -> None:
    durations = {"test": {"a.py": Times(1), "b.py": Times(2)}, "test-long": {"a.py": Times(9)}}
    assert known_times(durations, kind) == {"a.py": Times(seconds), "b.py": Times(2)}


def test_plan_keeps_a_folder_with_a_shared_fixture_together() -> None:
    collection = ["spark/a.py::one", "b.py::one", "spark/c.py::one"]
    groups = plan(collection, {}, shared=("spark",))
    assert [(group.name, group.tests) for group in groups] == [("spark 0", (0, 2)), ("b.py", (1,))]


def test_plan_splits_a_shared_folder_that_takes_too_long_into_equal_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "MAX_GROUP_SECONDS", 10)
    seconds = {f"spark/{name}.py": Times(length, 0) for name, length in zip("abcd", (9, 6, 3, 1), strict=True)}
    groups = plan([f"{file}::test" for file in seconds], seconds, shared=("spark",))
    assert [(group.seconds, group.tests) for group in groups] == [(10, (0, 3)), (9, (1, 2))]


def test_plan_makes_no_more_than_two_parts_of_a_folder() -> None:
    seconds = {f"spark/{name}.py": Times(500, 0) for name in "abcd"}
    groups = plan([f"{file}::test" for file in seconds], seconds, shared=("spark",))
    assert [group.seconds for group in groups] == [1000, 1000]


def test_a_worker_takes_groups_of_the_other_lane_when_its_own_is_empty() -> None:
    lanes = Lanes(plan(["a.py::t", "b.py::t", "c.py::t"], times(a=(3, COMPUTES), b=(2, WAITS), c=(1, COMPUTES))))
    assert [lanes.take(prefers_waiting=True).name for _ in range(3)] == ["b.py", "a.py", "c.py"]
    assert not lanes


def test_half_of_the_workers_start_with_groups_that_wait() -> None:
    collection = [f"{name}.py::{number}" for name in "abcdef" for number in range(3)]
    kinds = dict.fromkeys("ace", (1.0, WAITS)) | dict.fromkeys("bdf", (1.0, COMPUTES))
    nodes = started(LaneScheduling(4, times(**kinds)), collection, 4)
    assert [collection[node.given[0]][0] for node in nodes] == ["b", "a", "d", "c"]


def test_every_test_runs_once_and_every_worker_can_always_go_on() -> None:
    collection = [f"{name}.py::{number}" for name in "abcdefg" for number in range(ord(name) - ord("a") + 1)]
    scheduling = LaneScheduling(3, {})
    nodes = started(scheduling, collection, 3)
    done: Counter[int] = Counter()
    finished = [0] * len(nodes)
    while scheduling.has_pending:
        for number, node in enumerate(nodes):
            if finished[number] < len(node.given):
                # A worker needs to know the next test, or that there is none.
                assert finished[number] + 1 < len(node.given) or node.shutting_down
                done[node.given[finished[number]]] += 1
                scheduling.mark_test_complete(node, node.given[finished[number]])
                finished[number] += 1
    assert done == Counter(range(len(collection)))
    assert scheduling.tests_finished


def test_others_take_over_the_tests_of_a_crashed_worker() -> None:
    collection = [f"{name}.py::{number}" for name in "ab" for number in range(4)]
    scheduling = LaneScheduling(2, {})
    first, second = started(scheduling, collection, 2)
    scheduling.mark_test_complete(first, first.given[0])
    assert scheduling.remove_node(first) == collection[first.given[1]]
    replacement = Node("gw2")
    scheduling.add_node(replacement)
    scheduling.add_node_collection(replacement, collection)
    scheduling.schedule()
    assert sorted(first.given[:2] + second.given + replacement.given) == list(range(len(collection)))


def test_workers_with_different_collections_are_refused() -> None:
    scheduling = LaneScheduling(2, {})
    scheduling.add_node(one := Node("gw0"))
    scheduling.add_node(other := Node("gw1"))
    scheduling.add_node_collection(one, ["a.py::one"])
    with pytest.raises(pytest.UsageError, match="gw1"):
        scheduling.add_node_collection(other, ["a.py::two"])


TESTS = """
    import os, pytest

    @pytest.mark.parametrize("number", range(5))
    def test_it(number):
        if number == 2 and {crashes}:
            os._exit(1)
"""


def test_a_crashed_worker_costs_one_test_of_a_real_run(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("pytest_plugins = ['suite.spec_marks', 'suite.recorder', 'suite.scheduler']")
    pytester.mkdir("docs").joinpath("spec-checklist.md").write_text("", encoding="utf-8")
    root = Path(__file__).resolve().parents[3]
    paths = f"{root / 'tests'} {root / 'tools'}"
    pytester.makeini(f"[pytest]\nmarkers = spec(*ids): proven items\npythonpath = {paths}\n")
    pytester.makepyfile(test_a=TESTS.format(crashes=True), test_b=TESTS.format(crashes=False))
    result = pytester.runpytest_subprocess("-n2", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=9, failed=1)
    result.stdout.fnmatch_lines(["*crashed while running 'test_a.py::test_it*2*'*"])
