from __future__ import annotations

import random

import pytest

from tailrace.env import Jobs
from tailrace.model.invariant import InvariantError
from tailrace.sim import SimClock, SimJobs, SimulatedCrash


@pytest.fixture
def clock() -> SimClock:
    return SimClock(1_000)


@pytest.fixture
def jobs(clock: SimClock) -> SimJobs:
    return SimJobs(clock)


def broken() -> int:
    raise OSError(5, "broken")


def test_clock_moves_only_when_told(clock: SimClock) -> None:
    assert (clock.now_ms(), clock.monotonic_ms()) == (1_000, 0)
    clock.advance(5)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1_005, 5)
    clock.set(10)
    assert (clock.now_ms(), clock.monotonic_ms()) == (10, 5)
    with pytest.raises(InvariantError):
        clock.advance(-1)


def test_work_and_done_are_two_steps(jobs: SimJobs) -> None:
    as_jobs: Jobs = jobs
    log: list[object] = []
    as_jobs.run("a", lambda: log.append("work") or 3, log.append)
    assert log == []
    assert jobs.pending == ["a"]
    assert jobs.run_one()
    assert log == ["work"]
    assert jobs.pending == ["a: done"]
    assert jobs.run_one()
    assert log == ["work", 3]
    assert not jobs.run_one()


def test_failures(jobs: SimJobs) -> None:
    failures: list[Exception] = []
    jobs.run("handled", broken, None, failures.append)
    jobs.run_all()
    assert [str(failure) for failure in failures] == ["[Errno 5] broken"]
    jobs.run("unhandled", broken)
    assert jobs.run_one()
    with pytest.raises(OSError, match="broken"):
        jobs.run_one()
    assert jobs.pending == []


def test_a_crash_in_work_is_no_failure_of_the_job(jobs: SimJobs) -> None:
    def crash() -> int:
        raise SimulatedCrash

    failures: list[Exception] = []
    jobs.run("crashing", crash, None, failures.append)
    with pytest.raises(SimulatedCrash):
        jobs.run_all()
    assert failures == []


def test_run_all_includes_what_jobs_start(jobs: SimJobs) -> None:
    log: list[int] = []
    jobs.run("outer", lambda: 1, lambda value: jobs.run("inner", lambda: value + 1, log.append))
    jobs.run_all()
    assert log == [2]


def orders(seed: int | None) -> tuple[str, ...]:
    jobs = SimJobs(SimClock())
    log: list[str] = []
    for name in "abc":
        jobs.run(name, lambda name=name: log.append(name) or name.upper(), log.append)
    jobs.run_all(None if seed is None else random.Random(seed))
    return tuple(log)


def test_order_is_first_in_first_out_or_any() -> None:
    assert orders(None) == ("a", "b", "c", "A", "B", "C")
    seen = {orders(seed) for seed in range(400)}
    assert {order[0] for order in seen} == {"a", "b", "c"}
    assert {order[-1] for order in seen} == {"A", "B", "C"}
    assert len(seen) > 50
    assert all(order.index(name) < order.index(name.upper()) for order in seen for name in "abc")
    assert orders(3) == orders(3)


def test_delayed_actions_run_at_their_own_moment(jobs: SimJobs, clock: SimClock) -> None:
    log: list[tuple[str, int]] = []
    jobs.later("late", 50, lambda: log.append(("late", clock.now_ms())))
    jobs.later("early", 10, lambda: jobs.later("nested", 15, lambda: log.append(("nested", clock.now_ms()))))
    jobs.later("same", 50, lambda: log.append(("same", clock.now_ms())))
    jobs.later("never", 500, lambda: log.append(("never", clock.now_ms())))
    assert jobs.waiting == [("early", 10), ("late", 50), ("same", 50), ("never", 500)]
    jobs.tick(1_049)
    assert log == [("nested", 1_025)]
    assert clock.now_ms() == 1_049
    jobs.tick(1_100)
    assert log == [("nested", 1_025), ("late", 1_050), ("same", 1_050)]
    assert clock.now_ms() == 1_100
    assert jobs.waiting == [("never", 400)]
    with pytest.raises(InvariantError):
        jobs.tick(1_099)


def test_tick_without_time_runs_what_is_due(jobs: SimJobs, clock: SimClock) -> None:
    log: list[str] = []
    jobs.later("a", 10, lambda: log.append("a"))
    jobs.tick()
    assert log == []
    clock.set(0)
    clock.advance(10)
    jobs.tick()
    assert log == ["a"]


def test_forget(jobs: SimJobs) -> None:
    log: list[str] = []
    jobs.run("a", lambda: log.append("a"))
    jobs.later("b", 0, lambda: log.append("b"))
    jobs.forget()
    jobs.run_all()
    jobs.tick()
    assert log == []
    assert (jobs.pending, jobs.waiting) == ([], [])
