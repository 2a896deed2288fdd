from __future__ import annotations

import pytest

from tailrace.env import InlineJobs, Jobs


def test_work_runs_at_once_and_its_value_reaches_done() -> None:
    seen: list[int] = []
    jobs: Jobs = InlineJobs()
    jobs.run("count", lambda: 42, seen.append)
    assert seen == [42]


def test_done_is_optional() -> None:
    ran: list[str] = []
    InlineJobs().run("plain", lambda: ran.append("work"))
    assert ran == ["work"]


def test_a_failure_reaches_failed_and_not_done() -> None:
    done: list[object] = []
    failures: list[Exception] = []

    def work() -> int:
        raise OSError(5, "broken")

    InlineJobs().run("broken", work, done.append, failures.append)
    assert done == []
    assert [type(failure) for failure in failures] == [OSError]


def test_without_failed_the_failure_is_raised() -> None:
    def work() -> int:
        raise OSError(5, "broken")

    with pytest.raises(OSError, match="broken"):
        InlineJobs().run("broken", work)


def test_a_failure_in_done_is_not_given_to_failed() -> None:
    failures: list[Exception] = []

    def done(value: int) -> None:
        raise RuntimeError(f"cannot use {value}")

    with pytest.raises(RuntimeError, match="cannot use 1"):
        InlineJobs().run("job", lambda: 1, done, failures.append)
    assert failures == []


def test_delayed_actions_wait_until_asked_for() -> None:
    ran: list[str] = []
    jobs = InlineJobs()
    jobs.later("first", 60_000, lambda: ran.append("first"))
    jobs.later("second", 10, lambda: jobs.later("third", 5, lambda: ran.append("third")))
    assert ran == []
    assert jobs.waiting == [("first", 60_000), ("second", 10)]
    jobs.run_due()
    assert ran == ["first"]
    assert jobs.waiting == [("third", 5)]
    jobs.run_due()
    assert ran == ["first", "third"]
