from __future__ import annotations

import pytest

from tailrace.model.listeners import Listeners
from tailrace.model.noop import noop


class Recorder:
    def __init__(self, name: str, calls: list[tuple[str, int]]) -> None:
        self.name = name
        self.calls = calls

    def notified(self, value: int) -> None:
        self.calls.append((self.name, value))


def test_listeners_are_called_in_the_order_in_which_they_were_added() -> None:
    calls: list[tuple[str, int]] = []
    listeners: Listeners[int] = Listeners()
    for name in "cab":
        listeners.add(Recorder(name, calls).notified)
    listeners(1)
    listeners(2)
    assert calls == [("c", 1), ("a", 1), ("b", 1), ("c", 2), ("a", 2), ("b", 2)]


def test_an_event_has_the_arguments_that_it_is_called_with() -> None:
    calls: list[tuple[object, ...]] = []
    pairs: Listeners[int, str] = Listeners()
    nothing: Listeners[()] = Listeners()
    pairs.add(lambda number, text: calls.append((number, text)))
    nothing.add(lambda: calls.append(()))
    pairs(1, "x")
    nothing()
    assert calls == [(1, "x"), ()]


def test_without_listeners_the_tuple_is_empty_and_an_event_has_no_effect() -> None:
    listeners: Listeners[int] = Listeners()
    assert listeners.listeners == ()
    listeners(1)
    listeners.add(noop)
    assert listeners.listeners == (noop,)


def test_a_bound_method_can_be_removed() -> None:
    calls: list[tuple[str, int]] = []
    listeners: Listeners[int] = Listeners()
    first, second = Recorder("first", calls), Recorder("second", calls)
    listeners.add(first.notified)
    listeners.add(second.notified)
    listeners.remove(first.notified)
    listeners(1)
    assert calls == [("second", 1)]
    listeners.remove(second.notified)
    assert listeners.listeners == ()


def test_remove_of_an_unknown_listener_changes_nothing() -> None:
    calls: list[tuple[str, int]] = []
    listeners: Listeners[int] = Listeners()
    listeners.add(Recorder("kept", calls).notified)
    listeners.remove(Recorder("kept", calls).notified)
    listeners(1)
    assert calls == [("kept", 1)]


def test_a_listener_that_was_added_twice_is_called_twice_and_removed_once() -> None:
    calls: list[int] = []
    listeners: Listeners[int] = Listeners()
    listeners.add(calls.append)
    listeners.add(calls.append)
    listeners(1)
    listeners.remove(calls.append)
    listeners(2)
    assert calls == [1, 1, 2]


def test_clear_removes_all() -> None:
    calls: list[int] = []
    listeners: Listeners[int] = Listeners()
    listeners.add(calls.append)
    listeners.add(lambda value: calls.append(-value))
    listeners.clear()
    listeners(1)
    assert calls == []


def test_a_listener_may_remove_itself_during_an_event() -> None:
    calls: list[str] = []
    listeners: Listeners[()] = Listeners()

    def once() -> None:
        calls.append("once")
        listeners.remove(once)

    listeners.add(once)
    listeners.add(lambda: calls.append("always"))
    listeners()
    listeners()
    assert calls == ["once", "always", "always"]


def test_a_listener_that_is_removed_during_an_event_is_not_called_any_longer() -> None:
    calls: list[str] = []
    listeners: Listeners[()] = Listeners()

    def second() -> None:
        calls.append("second")

    def first() -> None:
        calls.append("first")
        listeners.remove(second)

    for each in (first, second, lambda: calls.append("third")):
        listeners.add(each)
    listeners()
    assert calls == ["first", "third"]


def test_a_listener_that_is_added_during_an_event_is_first_called_for_the_next_one() -> None:
    calls: list[str] = []
    listeners: Listeners[()] = Listeners()

    def late() -> None:
        calls.append("late")

    def first() -> None:
        calls.append("first")
        if late not in listeners.listeners:
            listeners.add(late)

    listeners.add(first)
    listeners.add(lambda: calls.append("last"))
    listeners()
    assert calls == ["first", "last"]
    listeners()
    assert calls == ["first", "last", "first", "last", "late"]


def test_an_event_within_an_event_reaches_all() -> None:
    calls: list[tuple[str, int]] = []
    listeners: Listeners[int] = Listeners()

    def again(value: int) -> None:
        if value:
            listeners(value - 1)

    listeners.add(again)
    listeners.add(Recorder("last", calls).notified)
    listeners(2)
    assert calls == [("last", 0), ("last", 1), ("last", 2)]


def test_an_exception_of_a_listener_reaches_the_caller() -> None:
    calls: list[int] = []
    listeners: Listeners[int] = Listeners()

    def fail(value: int) -> None:
        raise RuntimeError(f"refused {value}")

    listeners.add(calls.append)
    listeners.add(fail)
    listeners.add(calls.append)
    with pytest.raises(RuntimeError, match="refused 1"):
        listeners(1)
    assert calls == [1]


def test_noop_takes_any_arguments() -> None:
    noop()
    noop(1, "x", None)
