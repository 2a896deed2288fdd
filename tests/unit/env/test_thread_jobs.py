"""Jobs on threads: work elsewhere, completions on the owner's thread, delayed actions in their order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import pytest

from tailrace.env.real import RealClock, ThreadJobs
from tailrace.sim import SimClock


@pytest.fixture
def jobs() -> Iterator[ThreadJobs]:
    made = ThreadJobs(RealClock(), workers=2)
    yield made
    made.close()


def test_work_elsewhere_and_done_here(jobs: ThreadJobs) -> None:
    here = threading.current_thread()
    seen: list[tuple[str, bool]] = []

    def work() -> tuple[str, bool]:
        thread = threading.current_thread()
        return thread.name, thread is here

    jobs.run("no completion", lambda: None)
    jobs.run("a-name", work, seen.append)
    jobs.run_until(lambda: bool(seen))
    assert seen == [("a-name", False)]


def test_work_runs_in_parallel(jobs: ThreadJobs) -> None:
    meeting = threading.Barrier(2, timeout=30)
    done: list[int] = []
    for _ in range(2):
        jobs.run("meet", meeting.wait, done.append)
    jobs.run_until(lambda: len(done) == 2)


def test_failures_reach_the_owner(jobs: ThreadJobs) -> None:
    def fail() -> None:
        raise OSError(5, "broken")

    seen: list[Exception] = []
    jobs.run("told", fail, failed=seen.append)
    jobs.run_until(lambda: bool(seen))
    assert isinstance(seen[0], OSError)
    jobs.run("untold", fail)
    with pytest.raises(OSError, match="broken"):
        jobs.run_until(lambda: False)


def test_delayed_actions_wait_for_their_time() -> None:
    clock = SimClock()
    woken: list[bool] = []
    jobs = ThreadJobs(clock, workers=1, wake=lambda: woken.append(True))
    seen: list[str] = []
    assert jobs.due_ms is None
    jobs.later("second", 20, lambda: seen.append("second"))
    jobs.later("first", 10, lambda: seen.append("first"))
    jobs.later("never", 2**63 - 1, lambda: seen.append("never"))
    assert jobs.due_ms == 10
    jobs.step()
    assert seen == []
    clock.advance(10)
    jobs.step()
    assert seen == ["first"]
    clock.advance(100)
    jobs.step()
    assert seen == ["first", "second"]
    assert len(woken) == 3
    jobs.close()
    assert jobs.due_ms is None


def test_a_completion_wakes_the_owner() -> None:
    woken = threading.Event()
    jobs = ThreadJobs(RealClock(), workers=1, wake=woken.set)
    done: list[int] = []
    jobs.run("job", lambda: 5, done.append)
    assert woken.wait(30)
    assert done == []
    jobs.step()
    assert done == [5]
    jobs.close()


def test_an_action_ends_the_waiting(jobs: ThreadJobs) -> None:
    seen: list[bool] = []
    jobs.later("soon", 1, lambda: seen.append(True))
    jobs.run_until(lambda: bool(seen))
    jobs.run_until(lambda: True)


def test_what_can_wait_lets_the_others_pass() -> None:
    jobs = ThreadJobs(RealClock(), workers=1)
    begun, go_on = threading.Event(), threading.Event()
    order: list[str] = []

    def block() -> None:
        begun.set()
        go_on.wait(10)

    jobs.run("block", block)
    assert begun.wait(10)
    for number in range(3):
        jobs.run("patient", partial(order.append, f"patient {number}"), can_wait=True)
    for number in range(2):
        jobs.run("pressing", partial(order.append, f"pressing {number}"))
    go_on.set()
    ended: list[bool] = []
    jobs.run("end", lambda: None, lambda _: ended.append(True), can_wait=True)
    jobs.run_until(lambda: bool(ended))
    jobs.close()
    assert order == ["pressing 0", "pressing 1", "patient 0", "patient 1", "patient 2"]
