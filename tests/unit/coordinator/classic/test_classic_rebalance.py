"""The course of a rebalance: delays, timeouts, and who is out."""

from __future__ import annotations

import pytest

from support.coordinators.classic import DELAY_MS, REBALANCE_MS, SESSION_MS, TWO_STEPS, ClassicRig
from tailrace.coordinator.classic.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS
from tailrace.model.errors import (
    IllegalGenerationError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)

pytestmark = pytest.mark.spec("CO-04")


def test_the_first_rebalance_is_put_off_as_long_as_members_come() -> None:
    rig = ClassicRig()
    joins = [rig.join()]
    for _ in range(3):
        rig.pass_time(DELAY_MS - 1)
        joins.append(rig.join())
        rig.pass_time(1)
        assert not joins[0].is_there
    rig.pass_time(DELAY_MS)
    assert [join.answer.generation_id for join in joins] == [1, 1, 1, 1]


def test_the_first_rebalance_is_put_off_at_most_for_the_rebalance_timeout() -> None:
    rig = ClassicRig()
    join = rig.join(rebalance_ms=7_000)
    waited_ms = 0
    while not join.is_there:
        rig.join(rebalance_ms=7_000)
        rig.pass_time(1_000)
        waited_ms += 1_000
    assert waited_ms == 7_000


def test_a_rebalance_without_a_delay_begins_at_once() -> None:
    rig = ClassicRig(group_initial_rebalance_delay_ms="0")
    join = rig.join()
    rig.pass_time(0)
    assert join.answer.generation_id == 1


def test_members_that_do_not_join_in_time_are_out() -> None:
    rig = ClassicRig()
    leader, follower = rig.stable()
    newcomer = rig.join()
    again = rig.join(follower)
    for _ in range(5):
        rig.pass_time(SESSION_MS - 1)
        assert rig.heartbeat(leader, 1) == RebalanceInProgressError.code  # it lives, and does not join
    assert not again.is_there
    rig.pass_time(SESSION_MS)
    assert newcomer.answer.generation_id == again.answer.generation_id == 2
    assert again.answer.leader in (follower, newcomer.answer.member_id)
    assert leader not in rig.group.members
    assert rig.heartbeat(leader, 1) == UnknownMemberIdError.code


def test_the_slowest_member_says_how_long_a_rebalance_may_take() -> None:
    rig = ClassicRig()
    leader, follower = rig.stable()
    newcomer = rig.join(rebalance_ms=2 * REBALANCE_MS)
    rig.join(follower)
    for _ in range(2 * REBALANCE_MS // 5_000 - 1):
        rig.pass_time(5_000)
        assert rig.heartbeat(leader, 1) == RebalanceInProgressError.code
    assert not newcomer.is_there
    rig.pass_time(5_000)
    assert newcomer.answer.generation_id == 2


def test_a_member_without_a_sign_of_life_is_out_after_its_session() -> None:
    rig = ClassicRig()
    leader, follower = rig.stable()
    rig.pass_time(SESSION_MS - 1)
    assert rig.heartbeat(leader, 1) == 0
    rig.pass_time(1)
    assert set(rig.group.members) == {leader}
    assert rig.heartbeat(leader, 1) == RebalanceInProgressError.code
    assert rig.heartbeat(follower, 1) == UnknownMemberIdError.code
    assert rig.join(leader).answer.generation_id == 2


def test_the_last_member_that_is_gone_leaves_an_empty_group() -> None:
    rig = ClassicRig()
    rig.stable()
    written = rig.written
    rig.pass_time(SESSION_MS)
    assert rig.group.state_name == "Empty"
    assert rig.group.generation == 2
    assert rig.group.protocol_name is None
    assert rig.written == written + 1
    assert rig.group.protocol_type == "consumer"


def test_a_commit_is_a_sign_of_life() -> None:
    rig = ClassicRig()
    leader, follower = rig.stable()
    rig.pass_time(SESSION_MS - 1)
    rig.group.committed_by(leader)
    rig.group.committed_by("stranger")
    rig.pass_time(1)
    assert set(rig.group.members) == {leader}
    assert follower not in rig.group.members


def test_whoever_waits_for_the_others_needs_no_heartbeats() -> None:
    rig = ClassicRig()
    leader, follower = rig.stable()
    again = rig.join(follower, protocols={"range": b"more"})
    for _ in range(3):
        rig.pass_time(SESSION_MS - 1)
        rig.heartbeat(leader, 1)
    assert follower in rig.group.members
    rig.join(leader)
    assert again.code == 0
    rig.pass_time(SESSION_MS - 1)  # from here on it needs them again
    assert follower in rig.group.members
    rig.pass_time(1)
    assert follower not in rig.group.members


def test_a_newcomer_that_waits_very_long_is_asked_to_try_again() -> None:
    """Its client has most likely given the request up, and nobody would ever send heartbeats for it."""
    rig = ClassicRig()
    long_ms = 2 * NEW_MEMBER_JOIN_TIMEOUT_MS
    (member_id,) = rig.stable(1, rebalance_ms=long_ms, session_ms=long_ms)
    newcomer = rig.join()
    rig.pass_time(NEW_MEMBER_JOIN_TIMEOUT_MS - 1)
    assert not newcomer.is_there
    rig.pass_time(1)
    assert newcomer.code == UnknownMemberIdError.code
    assert set(rig.group.members) == {member_id}


def test_members_that_do_not_ask_for_their_assignment_are_out() -> None:
    rig = ClassicRig()
    first, second = rig.join(), rig.join()
    rig.pass_time(2 * DELAY_MS)
    leader, follower = first.answer.member_id, second.answer.member_id
    rig.sync(leader, 1, {leader: b"1", follower: b"2"})
    for _ in range(REBALANCE_MS // 5_000 - 1):
        rig.pass_time(5_000)
        assert rig.heartbeat(leader, 1) == 0
        assert rig.heartbeat(follower, 1) == 0
    rig.pass_time(5_000)
    assert set(rig.group.members) == {leader}
    assert rig.heartbeat(leader, 1) == RebalanceInProgressError.code


def test_a_leader_that_brings_no_assignments_is_out() -> None:
    rig = ClassicRig()
    first, second = rig.join(), rig.join()
    rig.pass_time(2 * DELAY_MS)
    leader, follower = first.answer.member_id, second.answer.member_id
    waiting = rig.sync(follower, 1)
    for _ in range(REBALANCE_MS // 5_000 - 1):
        rig.pass_time(5_000)
        assert rig.heartbeat(leader, 1) == 0
    assert not waiting.is_there
    rig.pass_time(5_000)
    assert waiting.code == RebalanceInProgressError.code
    assert rig.join(follower).answer.leader == follower


def test_who_has_asked_for_its_assignment_is_not_asked_twice() -> None:
    rig = ClassicRig()
    members = rig.stable()
    for _ in range(2 * REBALANCE_MS // 5_000):
        rig.pass_time(5_000)
        assert [rig.heartbeat(each, 1) for each in members] == [0, 0]
    assert rig.group.generation == 1


def test_heartbeats_of_strangers_and_of_the_past_are_refused() -> None:
    rig = ClassicRig()
    assert rig.heartbeat("nobody", 0) == UnknownMemberIdError.code
    leader, _ = rig.stable()
    assert rig.heartbeat(leader, 0) == IllegalGenerationError.code
    assert rig.heartbeat(leader, 2) == IllegalGenerationError.code
    assert rig.heartbeat("nobody", 1) == UnknownMemberIdError.code
    assert rig.heartbeat("", 1) == UnknownMemberIdError.code


def test_a_newcomer_that_goes_while_the_first_rebalance_is_put_off() -> None:
    rig = ClassicRig()
    member_id = rig.join(version=TWO_STEPS).answer.member_id
    join = rig.join(member_id, version=TWO_STEPS)
    assert rig.leave((member_id, None)) == [0]
    assert join.code == UnknownMemberIdError.code
    assert rig.group.state_name == "PreparingRebalance"
    rig.pass_time(DELAY_MS)
    assert rig.group.state_name == "Empty"
    assert rig.group.generation == 1


def test_an_empty_group_begins_anew_with_a_delay() -> None:
    rig = ClassicRig()
    (member_id,) = rig.stable(1)
    rig.leave((member_id, None))
    join = rig.join(protocol_type="connect", protocols={"default": b""})
    assert not join.is_there
    rig.pass_time(DELAY_MS)
    assert join.answer.generation_id == 3  # the second was the empty one
    assert rig.group.protocol_type == "connect"
