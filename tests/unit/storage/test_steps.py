"""Work in steps: on the caller's thread, as jobs, and called off at any moment."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tailrace.env.real.clock import RealClock
from tailrace.env.real.jobs import ThreadJobs
from tailrace.sim import World
from tailrace.storage.steps import CalledOffError, JobRun, Steps, run_inline, to_the_end


class Recorder:
    """What happened, in order."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def work(self, name: str) -> Any:
        def run() -> str:
            self.seen.append(name)
            return name.upper()

        return run

    def steps(self, count: int) -> Steps[str]:
        try:
            for n in range(count):
                value = yield self.work(f"step {n}")
                self.seen.append(value)
        except CalledOffError:
            self.seen.append("cleaned up")
            raise
        return "result"


def failing() -> None:
    raise ValueError("no")


def test_inline() -> None:
    recorder = Recorder()
    assert run_inline(recorder.steps(2)) == "result"
    assert recorder.seen == ["step 0", "STEP 0", "step 1", "STEP 1"]


def test_what_a_step_raises_is_raised_at_its_yield() -> None:
    def steps() -> Steps[str]:
        try:
            yield failing
        except ValueError as error:
            return f"caught {error}"
        return "not reached"

    assert run_inline(steps()) == "caught no"
    ended: list[Any] = []
    world = World(0)
    JobRun("work", steps(), world.jobs, ended.append, ended.append).start()
    world.jobs.run_all()
    assert ended == ["caught no"]


def test_steps_without_work() -> None:
    def steps() -> Steps[int]:
        return 5
        yield

    ended: list[Any] = []
    JobRun("work", steps(), World(0).jobs, ended.append, ended.append).start()
    assert ended == [5]


@pytest.mark.parametrize("turns", range(7))
def test_called_off_at_any_moment(turns: int) -> None:
    world, recorder = World(0), Recorder()
    ended: list[Any] = []
    run = JobRun("work", recorder.steps(3), world.jobs, ended.append, ended.append)
    run.start()
    for _ in range(min(turns, 5)):
        world.jobs.run_one()
    reason = CalledOffError("not wanted")
    run.call_off(reason)
    seen = list(recorder.seen)
    world.jobs.run_all()
    assert recorder.seen == seen  # nothing runs any more
    if turns < 5:
        assert ended == [reason]
        assert seen[-1] == "cleaned up"
    else:
        assert ended == ["result"]  # the last step had run
    told = [each for each in seen if each.isupper()]
    assert told == [each.upper() for each in seen if each.startswith("step")]


@pytest.mark.parametrize("turns", range(5))
def test_what_must_be_brought_to_its_end(turns: int) -> None:
    world, recorder = World(0), Recorder()
    ended: list[Any] = []
    run = JobRun("work", to_the_end(recorder.steps(3)), world.jobs, ended.append, ended.append)
    run.start()
    for _ in range(turns):
        world.jobs.run_one()
    reason = CalledOffError("not wanted")
    run.call_off(reason)
    assert recorder.seen == [f"{word} {n}" for n in range(3) for word in ("step", "STEP")]
    assert ended == [reason]


def test_to_the_end_passes_errors_of_the_work_through() -> None:
    def steps() -> Steps[None]:
        yield failing

    with pytest.raises(ValueError, match="no"):
        run_inline(to_the_end(steps()))


def test_a_pause_between_steps_and_a_call_off_in_it() -> None:
    def steps() -> Steps[None]:
        yield lambda: 1000
        yield lambda: 1000

    world = World(0)
    moved: list[int] = []
    ended: list[Any] = []

    def pace(moved_bytes: int) -> int:
        moved.append(moved_bytes)
        return 50

    run = JobRun("work", steps(), world.jobs, ended.append, ended.append, pace)
    run.start()
    world.jobs.run_all()
    assert moved == [1000]
    assert world.jobs.waiting == [("work", 50)]
    run.call_off(CalledOffError("not wanted"))
    world.jobs.tick(world.clock.now_ms() + 100)
    world.jobs.run_all()
    assert moved == [1000]
    assert len(ended) == 1


def test_calling_off_waits_for_the_step_that_a_thread_is_at() -> None:
    jobs = ThreadJobs(RealClock(), 1)
    has_begun, may_end = threading.Event(), threading.Event()
    seen: list[str] = []

    def slow() -> None:
        has_begun.set()
        may_end.wait(10)
        seen.append("step")

    def steps() -> Steps[None]:
        yield slow
        yield lambda: seen.append("never")

    ended: list[Any] = []
    run = JobRun("work", steps(), jobs, ended.append, ended.append)
    run.start()
    assert has_begun.wait(10)
    threading.Timer(0.01, may_end.set).start()
    run.call_off(CalledOffError("not wanted"))
    assert seen == ["step"]
    assert len(ended) == 1
    jobs.close()
