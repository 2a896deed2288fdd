"""What of classic groups survives: a restart, another coordinator, and what does not."""

from __future__ import annotations

import pytest

from support.coordinators.classic import DELAY_MS, GROUP, SESSION_MS, TWO_STEPS, ClassicRig
from tailrace.coordinator.classic.group import ClassicGroup
from tailrace.coordinator.classic.state import ClassicState
from tailrace.coordinator.outcome import Outcome
from tailrace.model.errors import (
    FencedInstanceIdError,
    NotCoordinatorError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)

pytestmark = pytest.mark.spec("CO-04")


def moved(rig: ClassicRig) -> ClassicGroup:
    """The group as the other broker knows it, that coordinates it now."""
    rig.pair.replicate()
    rig.pair.fail_over()
    return rig.group


def test_a_stable_group_goes_on_at_another_coordinator() -> None:
    rig = ClassicRig(in_sync=(1, 2))
    joins = [rig.join(instance_id="i0", client_id="a"), rig.join(client_id="b")]
    rig.pass_time(2 * DELAY_MS)
    rig.pair.replicate()
    leader, follower = (join.answer.member_id for join in joins)
    rig.sync(leader, 1, {leader: b"1", follower: b"2"}, instance_id="i0")
    rig.pair.replicate()
    before = rig.group
    group = moved(rig)
    assert group is not before
    assert before.state is ClassicState.DEAD
    assert (group.state_name, group.generation, group.leader_id) == ("Stable", 1, leader)
    assert (group.protocol_type, group.protocol_name) == ("consumer", "range")
    assert group.static_members == {"i0": leader}
    member = group.members[follower]
    assert (member.client_id, member.client_host) == ("b", "/10.0.0.1")
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (SESSION_MS, 60_000)
    assert rig.heartbeat(leader, 1, instance_id="i0") == 0
    assert rig.heartbeat("other", 1, instance_id="i0") == FencedInstanceIdError.code
    assert rig.sync(follower, 1).answer.assignment == b"2"
    assert rig.join(leader, instance_id="i0").is_there is False
    assert rig.join(follower).answer.generation_id == 2


def test_sessions_begin_anew() -> None:
    rig = ClassicRig(in_sync=(1, 2))
    join = rig.join()
    rig.pass_time(DELAY_MS)
    rig.pair.replicate()
    rig.sync(join.answer.member_id, 1)
    rig.pair.replicate()
    rig.pass_time(SESSION_MS - 1)
    group = moved(rig)
    rig.pass_time(SESSION_MS - 1)
    assert group.members
    rig.pass_time(1)
    assert not group.members


def test_whoever_waits_is_told_to_look_for_the_coordinator() -> None:
    rig = ClassicRig(in_sync=(1, 2))
    first, second = rig.join(), rig.join()
    rig.pair.replicate()
    rig.pass_time(2 * DELAY_MS)
    waiting = rig.sync(second.answer.member_id, 1)
    moved(rig)
    assert waiting.code == NotCoordinatorError.code
    assert first.code == 0


def test_whoever_waits_for_others_is_told_too_and_the_rebalance_is_forgotten() -> None:
    rig = ClassicRig(in_sync=(1, 2))
    first = rig.join()
    group = moved(rig)
    assert first.code == NotCoordinatorError.code
    assert first.answer.member_id != ""
    assert (group.state_name, group.generation, group.members) == ("Empty", 0, {})
    assert rig.join(first.answer.member_id).code == UnknownMemberIdError.code
    rig.pass_time(DELAY_MS)
    assert group.state_name == "Empty"


def test_a_rebalance_that_is_interrupted_brings_the_generation_before_back() -> None:
    rig = ClassicRig(in_sync=(1, 2))
    first = rig.join()
    rig.pass_time(DELAY_MS)
    rig.pair.replicate()
    member_id = first.answer.member_id
    rig.sync(member_id, 1, {member_id: b"1"})
    rig.pair.replicate()
    second = rig.join()
    rig.join(member_id)
    assert second.answer.generation_id == 2
    moved(rig)
    assert rig.heartbeat(member_id, 2) == 22
    assert rig.heartbeat(member_id, 1) == 0
    assert rig.heartbeat(second.answer.member_id, 2) == UnknownMemberIdError.code
    assert rig.join(member_id).answer.generation_id == 2


def test_assignments_that_were_not_replicated_are_lost_and_were_never_handed_out() -> None:
    rig = ClassicRig(in_sync=(1, 2))
    first = rig.join()
    rig.pair.replicate()
    rig.pass_time(DELAY_MS)
    syncing = rig.sync(first.answer.member_id, 1, {})
    rig.pair.fail_over()
    assert syncing.code == NotCoordinatorError.code
    assert rig.group.state_name == "Empty"


def test_a_static_member_that_came_back_is_still_known_by_its_new_id() -> None:
    rig = ClassicRig(in_sync=(1, 2))
    first = rig.join(instance_id="i0")
    rig.pair.replicate()
    rig.pass_time(DELAY_MS)
    old = first.answer.member_id
    rig.sync(old, 1, {old: b"1"}, instance_id="i0")
    rig.pair.replicate()
    again = rig.join(instance_id="i0")
    rig.pair.replicate()
    group = moved(rig)
    assert group.static_members == {"i0": again.answer.member_id}
    assert rig.heartbeat(old, 1, instance_id="i0") == FencedInstanceIdError.code
    assert rig.sync(again.answer.member_id, 1, instance_id="i0").answer.assignment == b"1"


def test_a_loaded_group_takes_newcomers_in() -> None:
    rig = ClassicRig(in_sync=(1, 2))
    first = rig.join(protocols={"range": b"a", "sticky": b"b"})
    rig.pair.replicate()
    rig.pass_time(DELAY_MS)
    member_id = first.answer.member_id
    rig.sync(member_id, 1)
    moved(rig)
    newcomer = rig.join()
    assert rig.heartbeat(member_id, 1) == RebalanceInProgressError.code
    again = rig.join(member_id, protocols={"range": b"a", "sticky": b"b"})
    assert again.answer.protocol_name == "range"
    assert newcomer.answer.generation_id == 2


def test_a_loaded_group_that_is_too_large_is_balanced_anew() -> None:
    rig = ClassicRig(in_sync=(1, 2))
    first, second = rig.join(), rig.join()
    rig.pair.replicate()
    rig.pass_time(2 * DELAY_MS)
    leader, follower = first.answer.member_id, second.answer.member_id
    rig.sync(leader, 1)
    rig.pair.config = type(rig.pair.config).single_node({"log.dirs": "/data1", "node.id": "1", "group.max.size": "1"})
    group = moved(rig)
    assert group.state_name == "PreparingRebalance"
    assert rig.heartbeat(follower, 1) == RebalanceInProgressError.code


def test_an_empty_group_keeps_its_generation_and_since_when_it_is_empty() -> None:
    rig = ClassicRig(in_sync=(1, 2))
    rig.join()
    rig.pair.replicate()
    rig.pass_time(DELAY_MS)
    rig.pass_time(SESSION_MS)
    since_ms = rig.group.state_since_ms
    rig.pass_time(1_000)
    group = moved(rig)
    assert (group.state_name, group.generation) == ("Empty", 2)
    assert group.protocol_type == "consumer"
    assert group.state_since_ms == since_ms


def test_ids_that_were_given_out_are_forgotten() -> None:
    rig = ClassicRig(in_sync=(1, 2))
    member_id = rig.join(version=TWO_STEPS).answer.member_id
    moved(rig)
    assert rig.join(member_id, version=TWO_STEPS).code == UnknownMemberIdError.code


def test_a_deleted_group_stays_deleted() -> None:
    rig = ClassicRig(in_sync=(1, 2))
    rig.join(version=TWO_STEPS)
    rig.pair.replicate()
    tombstones = rig.group.tombstones()
    rig.submit(lambda machine: Outcome(tombstones, "deleted"))
    assert GROUP not in rig.pair.leader.machine.groups
    rig.pair.replicate()
    rig.pair.fail_over()
    assert GROUP not in rig.pair.leader.machine.groups
