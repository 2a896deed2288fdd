"""The judge of groups is judged: a history without fault passes, and each fault planted in it is found."""

from __future__ import annotations

import pytest

from support.coordinators.group_history import GIVES_UP, HANDLED, KILLED, LEAVES, OWNS, Event, faults, owned

COUNTS = {0: 3, 1: 2}
GOOD = (
    Event(10, "a", OWNS, (0, 1)),
    Event(11, "a", HANDLED, (0,), 0),
    Event(12, "a", HANDLED, (1,), 0),
    Event(13, "a", GIVES_UP, (1,)),
    Event(14, "b", OWNS, (1,)),
    Event(15, "b", HANDLED, (1,), 1),
    Event(16, "a", HANDLED, (0,), 1),
    Event(17, "a", KILLED),
    Event(18, "b", OWNS, (0,)),
    Event(19, "b", HANDLED, (0,), 1),
    Event(20, "b", HANDLED, (0,), 2),
)


def without(at_ns: int) -> list[Event]:
    return [event for event in GOOD if event.at_ns != at_ns]


def test_a_history_without_fault() -> None:
    assert faults(GOOD, COUNTS) == []
    assert faults(reversed(GOOD), COUNTS) == []


def test_who_owns_what_in_the_end() -> None:
    assert owned(GOOD[:6]) == {"a": {0}, "b": {1}}
    assert owned(GOOD) == {"b": {0, 1}}
    assert owned([*GOOD, Event(21, "b", LEAVES)]) == {}


@pytest.mark.parametrize(
    ("events", "fault"),
    [
        (without(13), "b was given [1], which a still owned"),
        (without(14), "partition 1 offset 1: handled by b, which did not own it"),
        (without(11), "partition 0 offset 1: handled by a, and nobody handled 0 to 0"),
        (without(20), "partition 0: 2 of 3 records were handled"),
        ([*GOOD, Event(21, "b", HANDLED, (1,), 1)], "partition 1 offset 1: handled by b although b had handled it"),
        (
            [*GOOD, Event(21, "b", LEAVES), Event(22, "c", OWNS, (0,)), Event(23, "c", HANDLED, (0,), 2)],
            "partition 0 offset 2: handled by c although b had handled it",
        ),
        (
            [*GOOD, Event(21, "b", LEAVES), Event(22, "b", HANDLED, (1,), 2)],
            "partition 1 offset 2: handled by b, which did not own it",
        ),
    ],
    ids=["two owners", "no owner", "a gap", "too few", "twice", "twice by others", "after leaving"],
)
def test_a_planted_fault_is_found(events: list[Event], fault: str) -> None:
    assert fault in faults(events, COUNTS)
