"""The warm set: the coldest goes first, the bound holds, forgotten ones are not cooled."""

from __future__ import annotations

import threading
from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.model.invariant import InvariantError
from tailrace.storage.warm import WarmSet


class Thing:
    def __init__(self) -> None:
        self.is_open = False
        self.cooled = 0

    def use(self, warm: WarmSet) -> None:
        self.is_open = True
        warm.touch(self)

    def cool(self) -> None:
        self.is_open = False
        self.cooled += 1


def test_the_one_unused_for_longest_is_cooled() -> None:
    warm = WarmSet(2)
    a, b, c = Thing(), Thing(), Thing()
    a.use(warm)
    b.use(warm)
    a.use(warm)
    c.use(warm)
    assert (a.is_open, b.is_open, c.is_open) == (True, False, True)
    b.use(warm)
    assert (a.is_open, b.is_open, c.is_open) == (False, True, True)
    assert (len(warm), warm.capacity) == (2, 2)


def test_a_forgotten_one_makes_room_and_is_not_cooled() -> None:
    warm = WarmSet(1)
    a, b = Thing(), Thing()
    a.use(warm)
    warm.forget(a)
    warm.forget(a)
    b.use(warm)
    assert (a.cooled, b.cooled) == (0, 0)
    a.use(warm)
    assert (a.cooled, b.cooled) == (0, 1)


def test_the_latest_that_was_forgotten_counts_again_when_used() -> None:
    warm = WarmSet(1)
    a, b = Thing(), Thing()
    a.use(warm)
    warm.forget(a)
    a.use(warm)
    b.use(warm)
    assert a.cooled == 1


def test_a_warm_set_without_room_is_refused() -> None:
    with pytest.raises(InvariantError):
        WarmSet(0)


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=60))
def test_exactly_the_last_used_are_open(capacity: int, steps: list[tuple[int, bool]]) -> None:
    warm = WarmSet(capacity)
    things = [Thing() for _ in range(10)]
    model: OrderedDict[int, None] = OrderedDict()
    for number, is_use in steps:
        if is_use:
            things[number].use(warm)
            model.pop(number, None)
            model[number] = None
            while len(model) > capacity:
                model.popitem(last=False)
        else:
            things[number].is_open = False
            warm.forget(things[number])
            model.pop(number, None)
        assert [n for n, thing in enumerate(things) if thing.is_open] == sorted(model)
        assert len(warm) == len(model)


def test_the_bound_holds_under_many_threads() -> None:
    warm = WarmSet(3)
    things = [Thing() for _ in range(12)]

    def use_all(first: int) -> None:
        for turn in range(500):
            things[(first + turn) % 12].use(warm)

    threads = [threading.Thread(target=use_all, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(warm) == 3
