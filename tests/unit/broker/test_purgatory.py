from __future__ import annotations

from tailrace.broker.purgatory import Operation, Purgatory, Watched
from tailrace.model.listeners import Listeners
from tailrace.sim.clock import SimClock


class Thing:
    def __init__(self) -> None:
        self.on_moved: Listeners[Thing] = Listeners()
        self.value = 0

    def move(self, value: int) -> None:
        self.value = value
        self.on_moved(self)


class Waits(Operation):
    kind = "Fetch"

    def __init__(self, things: list[Thing], needed: int) -> None:
        self.things = things
        self.needed = needed
        self.outcome: list[str] = []

    def try_complete(self, moved: Watched | None) -> bool:
        if sum(thing.value for thing in self.things) < self.needed:
            return False
        self.outcome.append("completed")
        return True

    def expire(self) -> None:
        self.outcome.append("expired")


def test_what_is_true_already_does_not_wait() -> None:
    purgatory, thing = Purgatory(SimClock()), Thing()
    operation = Waits([thing], 0)
    purgatory.wait(operation, [thing], 1000)
    assert operation.outcome == ["completed"]
    assert len(purgatory) == 0
    assert thing.on_moved.listeners == ()


def test_it_completes_when_enough_has_moved() -> None:
    purgatory, first, second = Purgatory(SimClock()), Thing(), Thing()
    operation = Waits([first, second], 3)
    purgatory.wait(operation, [first, second], 1000)
    first.move(2)
    assert operation.outcome == []
    second.move(1)
    assert operation.outcome == ["completed"]
    assert (first.on_moved.listeners, second.on_moved.listeners) == ((), ())


def test_it_expires_at_its_deadline_and_not_before() -> None:
    clock = SimClock()
    purgatory, thing = Purgatory(clock), Thing()
    operation = Waits([thing], 1)
    purgatory.wait(operation, [thing], 500)
    due_ms = purgatory.due_ms
    assert due_ms == clock.monotonic_ms() + 500
    purgatory.expire_due(due_ms - 1)
    assert operation.outcome == []
    purgatory.expire_due(due_ms)
    assert operation.outcome == ["expired"]
    thing.move(1)
    assert operation.outcome == ["expired"]
    assert purgatory.due_ms is None


def test_who_left_is_not_answered() -> None:
    purgatory, thing = Purgatory(SimClock()), Thing()
    operation = Waits([thing], 1)
    purgatory.wait(operation, [thing], 500)
    purgatory.abandon(operation)
    thing.move(1)
    purgatory.expire_due(10**9)
    assert operation.outcome == []
    assert len(purgatory) == 0


def test_two_wait_for_one_thing() -> None:
    purgatory, thing = Purgatory(SimClock()), Thing()
    one, other = Waits([thing], 1), Waits([thing], 2)
    purgatory.wait(one, [thing], 500)
    purgatory.wait(other, [thing], 500)
    thing.move(1)
    assert (one.outcome, other.outcome) == (["completed"], [])
    thing.move(2)
    assert (one.outcome, other.outcome) == (["completed"], ["completed"])


def test_ended_operations_with_far_deadlines_do_not_pile_up() -> None:
    purgatory, thing = Purgatory(SimClock()), Thing()
    for _ in range(10_000):
        operation = Waits([thing], 1)
        thing.value = 0
        purgatory.wait(operation, [thing], 2**31 - 1)
        thing.move(1)
    assert len(purgatory._deadlines) < 2_000


def test_other_listeners_stay_when_the_last_watcher_leaves() -> None:
    purgatory, thing = Purgatory(SimClock()), Thing()
    moved: list[Thing] = []
    thing.on_moved.add(moved.append)
    first, second = Waits([thing], 1), Waits([thing], 2)
    purgatory.wait(first, [thing], 500)
    purgatory.wait(second, [thing], 500)
    assert len(thing.on_moved.listeners) == 2  # one for the purgatory, regardless of the number of watchers
    thing.move(2)
    assert (first.outcome, second.outcome, moved) == (["completed"], ["completed"], [thing])
    assert thing.on_moved.listeners == (moved.append,)
