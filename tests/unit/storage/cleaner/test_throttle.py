"""Several workers share one rate."""

from __future__ import annotations

import sys

import pytest

from tailrace.sim.clock import SimClock
from tailrace.storage.cleaner.throttle import Throttle


@pytest.mark.spec("LM-25")
def test_all_together_stay_below_the_rate() -> None:
    clock = SimClock()
    throttle = Throttle(clock, 1000)
    began = clock.monotonic_ms()
    waits = [throttle.wait_ms(500), throttle.wait_ms(250)]  # by two workers at the same moment
    assert waits == [500, 750]
    clock.advance(750)
    assert throttle.wait_ms(1000) == 1000
    clock.advance(1000)
    assert (500 + 250 + 1000) / (clock.monotonic_ms() - began) == 1.0


@pytest.mark.spec("LM-25")
def test_small_pieces_add_up() -> None:
    clock = SimClock()
    throttle = Throttle(clock, 1_000_000)
    assert [throttle.wait_ms(400) for _ in range(5)] == [0, 0, 1, 1, 2]


@pytest.mark.spec("LM-25")
def test_a_rest_gives_no_right_to_hurry() -> None:
    clock = SimClock()
    throttle = Throttle(clock, 1000)
    clock.advance(60_000)
    assert throttle.wait_ms(1000) == 1000


def test_without_a_bound_nobody_waits() -> None:
    throttle = Throttle(SimClock(), sys.float_info.max)
    assert throttle.wait_ms(10**12) == 0
