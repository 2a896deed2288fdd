"""Deadlines of a shard: when they are due, what moving and ending them does, and what they leave behind."""

from __future__ import annotations

from collections.abc import Hashable

from tailrace.coordinator.timers import Command, Timers
from tailrace.sim import World


class Clockwork:
    def __init__(self) -> None:
        self.world = World(directories=("/data",))
        self.ran: list[Hashable] = []
        self.timers = Timers(self.world.env, self._run)

    def _run(self, key: Hashable, command: Command) -> None:
        self.ran.append(key)
        command()

    def schedule(self, key: Hashable, delay_ms: int) -> None:
        self.timers.schedule(key, delay_ms, lambda: None)

    def pass_time(self, ms: int) -> None:
        self.world.jobs.tick(self.world.clock.now_ms() + ms)
        self.world.jobs.run_all()


def test_a_deadline_is_run_once_and_in_time() -> None:
    clockwork = Clockwork()
    clockwork.schedule("late", 20)
    clockwork.schedule("early", 10)
    clockwork.pass_time(9)
    assert clockwork.ran == []
    clockwork.pass_time(1)
    assert clockwork.ran == ["early"]
    clockwork.pass_time(100)
    assert clockwork.ran == ["early", "late"]


def test_a_deadline_that_was_moved_is_due_at_its_new_time_only() -> None:
    clockwork = Clockwork()
    clockwork.schedule("a", 10)
    clockwork.schedule("a", 30)
    clockwork.schedule("b", 30)
    clockwork.schedule("b", 10)
    clockwork.pass_time(10)
    assert clockwork.ran == ["b"]
    clockwork.pass_time(20)
    assert clockwork.ran == ["b", "a"]


def test_ended_deadlines_leave_nothing_behind() -> None:
    """Members that come and go at once have their sessions ended long before they are due."""
    clockwork = Clockwork()
    clockwork.schedule("stays", 60_000)
    for number in range(20_000):
        clockwork.schedule(number, 300_000)
        clockwork.timers.cancel(number)
    assert len(clockwork.timers._heap) < 3_000
    assert len(clockwork.timers._queued) < 3_000
    clockwork.schedule("soon", 10)
    clockwork.timers.cancel("soon")
    clockwork.schedule("soon", 20)
    clockwork.pass_time(300_000)
    assert clockwork.ran == ["soon", "stays"]
