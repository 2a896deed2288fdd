"""What a leader knows of a follower: the two-tier rule of being caught up, and what an election leaves of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.model.offsets import LogOffsetMetadata
from tailrace.replication.replica_state import NEVER_MS, ReplicaState

MAX_LAG_MS = 30_000


def at(offset: int) -> LogOffsetMetadata:
    return LogOffsetMetadata(offset, 0, offset * 10)


@pytest.mark.spec("RP-03")
def test_a_fetch_is_remembered() -> None:
    state = ReplicaState().after_fetch(at(7), 3, leader_end=9, broker_epoch=5, now_ms=1000)
    assert state == ReplicaState(at(7), 3, 9, 1000, NEVER_MS, 5)


@pytest.mark.spec("RP-03")
def test_a_fetch_at_the_leaders_end_catches_up_now() -> None:
    state = ReplicaState().after_fetch(at(9), 0, leader_end=9, broker_epoch=5, now_ms=1000)
    assert state.last_caught_up_ms == 1000


@pytest.mark.spec("RP-03")
def test_a_fetch_at_the_former_end_was_caught_up_at_the_former_fetch() -> None:
    state = ReplicaState().after_fetch(at(5), 0, leader_end=9, broker_epoch=5, now_ms=1000)
    assert state.last_caught_up_ms == NEVER_MS
    state = state.after_fetch(at(9), 0, leader_end=20, broker_epoch=5, now_ms=1500)
    assert state.last_caught_up_ms == 1000


@pytest.mark.spec("RP-03")
def test_a_fetch_below_the_former_end_changes_nothing_in_that() -> None:
    state = ReplicaState().after_fetch(at(9), 0, leader_end=9, broker_epoch=5, now_ms=1000)
    state = state.after_fetch(at(9), 0, leader_end=30, broker_epoch=5, now_ms=2000)
    assert state.last_caught_up_ms == 1000
    state = state.after_fetch(at(29), 0, leader_end=50, broker_epoch=5, now_ms=3000)
    assert state.last_caught_up_ms == 1000


@pytest.mark.spec("RP-03", "RP-32")
def test_a_follower_that_always_trails_a_busy_leader_stays_caught_up() -> None:
    state = ReplicaState().after_fetch(at(0), 0, leader_end=0, broker_epoch=5, now_ms=0)
    for round_number in range(1, 100):
        now_ms = round_number * 1000
        state = state.after_fetch(at((round_number - 1) * 10), 0, round_number * 10, 5, now_ms)
        assert state.end.offset < round_number * 10
        assert state.is_caught_up(round_number * 10, now_ms, MAX_LAG_MS)


@pytest.mark.spec("RP-32")
def test_a_stuck_and_a_slow_follower_are_not_caught_up_any_more() -> None:
    stuck = ReplicaState().after_fetch(at(10), 0, leader_end=10, broker_epoch=5, now_ms=0)
    assert stuck.is_caught_up(11, MAX_LAG_MS, MAX_LAG_MS)
    assert not stuck.is_caught_up(11, MAX_LAG_MS + 1, MAX_LAG_MS)
    slow = stuck
    for second in range(1, 40):  # a little each second, and the leader runs ten times as fast
        slow = slow.after_fetch(at(10 + second), 0, 10 + second * 10, 5, second * 1000)
    assert not slow.is_caught_up(400, 40_000, MAX_LAG_MS)


@pytest.mark.spec("RP-32")
def test_a_follower_at_the_end_is_caught_up_however_long_it_is_silent() -> None:
    state = ReplicaState().after_fetch(at(10), 0, leader_end=10, broker_epoch=5, now_ms=0)
    assert state.is_caught_up(10, 10**12, MAX_LAG_MS)


def test_nobody_is_caught_up_before_a_fetch_even_on_a_machine_just_started() -> None:
    assert not ReplicaState().is_caught_up(5, now_ms=100, max_lag_ms=MAX_LAG_MS)


@pytest.mark.spec("RP-30")
def test_a_new_leader_forgets_what_was_known() -> None:
    old = ReplicaState(at(7), 3, 9, 1000, 900, 5)
    member = old.after_election(20, 5000, is_new_leader=True, is_in_sync=True)
    assert member == ReplicaState(last_caught_up_ms=5000)
    assert old.after_election(20, 5000, is_new_leader=True, is_in_sync=False) == ReplicaState()


@pytest.mark.spec("RP-30")
def test_a_leader_elected_again_keeps_offsets_and_begins_times_anew() -> None:
    old = ReplicaState(at(7), 3, 9, 1000, 900, 5)
    assert old.after_election(20, 5000, is_new_leader=False, is_in_sync=True) == ReplicaState(
        at(7), 3, 20, 5000, 5000, 5
    )
    assert old.after_election(20, 5000, is_new_leader=False, is_in_sync=False) == ReplicaState(
        at(7), 3, 20, NEVER_MS, NEVER_MS, 5
    )


fetches = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 50)), max_size=40)


@pytest.mark.spec("RP-03")
@given(fetches)
def test_the_caught_up_time_is_the_latest_at_which_the_fetch_offset_reached_the_leaders_end(
    steps: list[tuple[int, int, int]],
) -> None:
    """Beside a model that knows the leader's end at every fetch."""
    state, history = ReplicaState(), [(NEVER_MS, -1)]
    leader_end = follower_end = now_ms = 0
    for grown, fetched, pause_ms in steps:
        leader_end += grown
        now_ms += pause_ms
        follower_end = min(follower_end + fetched, leader_end)
        history.append((now_ms, leader_end))
        state = state.after_fetch(at(follower_end), 0, leader_end, 5, now_ms)
        # The rule looks back one fetch only, so it may be late but never too early.
        truth = max(time_ms for time_ms, end in history if end <= follower_end)
        assert state.last_caught_up_ms <= truth
        if follower_end >= leader_end:
            assert state.last_caught_up_ms == now_ms
        elif follower_end >= history[-2][1]:
            assert state.last_caught_up_ms >= history[-2][0]
