"""JoinGroup: who becomes a member, under which id, and who is refused."""

from __future__ import annotations

import re

import pytest

from support.coordinators.classic import DELAY_MS, GROUP, REBALANCE_MS, SESSION_MS, TWO_STEPS, ClassicRig
from tailrace.config.log import LogConfig
from tailrace.coordinator.classic.joining import protocols_of
from tailrace.model.errors import (
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    MemberIdRequiredError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    UnknownServerError,
)
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

pytestmark = pytest.mark.spec("CO-04")

UUID = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


def test_a_newcomer_waits_for_others_and_then_leads() -> None:
    rig = ClassicRig()
    join = rig.join(protocols={"range": b"mine"})
    assert rig.group.state_name == "PreparingRebalance"
    rig.pass_time(DELAY_MS - 1)
    assert not join.is_there
    rig.pass_time(1)
    answer = join.answer
    assert (answer.error_code, answer.generation_id) == (0, 1)
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert re.fullmatch(f"me-{UUID}", answer.member_id)
    assert answer.leader == answer.member_id
    assert not answer.skip_assignment
    ((member_id, instance_id, metadata),) = (
        (each.member_id, each.group_instance_id, each.metadata) for each in answer.members
    )
    assert (member_id, instance_id, metadata) == (answer.member_id, None, b"mine")


def test_only_the_leader_hears_of_the_members() -> None:
    rig = ClassicRig()
    first, second = rig.join(), rig.join()
    rig.pass_time(2 * DELAY_MS)
    assert first.answer.leader == second.answer.leader == first.answer.member_id
    assert len(first.answer.members) == 2
    assert second.answer.members == []


def test_newer_clients_are_given_their_id_before_they_join() -> None:
    rig = ClassicRig()
    asked = rig.join(version=TWO_STEPS)
    assert asked.code == MemberIdRequiredError.code
    member_id = asked.answer.member_id
    assert re.fullmatch(f"me-{UUID}", member_id)
    assert rig.group.state_name == "Empty"
    assert rig.group.pending_joins == {member_id}
    join = rig.join(member_id, version=TWO_STEPS)
    assert rig.group.pending_joins == set()
    rig.pass_time(DELAY_MS)
    assert (join.code, join.answer.member_id) == (0, member_id)


def test_an_id_that_was_given_out_lasts_for_a_session() -> None:
    rig = ClassicRig()
    member_id = rig.join(version=TWO_STEPS).answer.member_id
    rig.pass_time(SESSION_MS - 1)
    assert rig.group.pending_joins == {member_id}
    rig.pass_time(1)
    assert rig.group.pending_joins == set()
    assert rig.join(member_id, version=TWO_STEPS).code == UnknownMemberIdError.code


def test_a_rebalance_waits_for_those_who_were_given_an_id() -> None:
    rig = ClassicRig()
    (member_id,) = rig.stable(1)
    pending = rig.join(version=TWO_STEPS).answer.member_id
    again = rig.join(member_id)
    assert not again.is_there
    joined = rig.join(pending, version=TWO_STEPS)
    assert again.answer.generation_id == joined.answer.generation_id == 2


def test_a_rebalance_goes_on_when_somebody_who_was_given_an_id_does_not_come() -> None:
    rig = ClassicRig()
    (member_id,) = rig.stable(1)
    rig.join(version=TWO_STEPS)
    again = rig.join(member_id)
    rig.pass_time(SESSION_MS)
    assert again.answer.generation_id == 2


def test_an_id_that_was_never_given_out_is_unknown() -> None:
    rig = ClassicRig()
    assert rig.join("stranger").code == UnknownMemberIdError.code
    assert rig.written == 0  # there is still no group
    rig.stable(1)
    assert rig.join("stranger").code == UnknownMemberIdError.code
    assert rig.join("stranger").answer.member_id == "stranger"


def test_a_new_group_is_written_down_before_it_has_members() -> None:
    rig = ClassicRig()
    rig.join(version=TWO_STEPS)
    assert rig.written == 1
    assert rig.group.protocol_type == ""


def test_a_group_that_cannot_be_written_down_is_forgotten() -> None:
    rig = ClassicRig(log_config=LogConfig(max_message_bytes=80))
    join = rig.join()
    assert join.code == UnknownServerError.code
    assert rig.pair.leader.machine.groups == {}
    assert len(rig.pair.leader.machine.shard.timers) == 1  # that of expiring offsets


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("", {"range": b""}), ("consumer", {}), ("", {})],
)
def test_who_speaks_nothing_is_refused(protocol_type: str, protocols: dict[str, bytes]) -> None:
    rig = ClassicRig()
    join = rig.join(protocol_type=protocol_type, protocols=protocols)
    assert join.code == InconsistentGroupProtocolError.code
    assert rig.group.members == {}


def test_who_speaks_another_language_is_refused() -> None:
    rig = ClassicRig()
    rig.stable(2, protocols={"range": b"", "sticky": b""})
    assert rig.join(protocols={"other": b""}).code == InconsistentGroupProtocolError.code
    assert rig.join(protocol_type="connect").code == InconsistentGroupProtocolError.code
    assert rig.group.state_name == "Stable"


def test_the_members_vote_for_a_protocol_that_all_speak() -> None:
    rig = ClassicRig()
    joins = [
        rig.join(protocols={"a": b"", "b": b"", "c": b""}),
        rig.join(protocols={"b": b"", "c": b"", "a": b""}),
        rig.join(protocols={"d": b"", "c": b"", "b": b""}),
    ]
    rig.pass_time(2 * DELAY_MS)
    rig.pass_time(DELAY_MS)
    assert {join.answer.protocol_name for join in joins} == {"b"}  # two for b, one for c; a is not known to all


def test_a_lost_answer_is_given_again() -> None:
    rig = ClassicRig()
    join = rig.join()
    rig.pass_time(DELAY_MS)
    member_id = join.answer.member_id
    assert rig.join(member_id).answer == join.answer
    assert rig.group.generation == 1


def test_a_follower_of_a_stable_group_joins_again_without_a_rebalance() -> None:
    rig = ClassicRig()
    leader, follower = rig.stable()
    answer = rig.join(follower).answer
    assert (answer.error_code, answer.generation_id, answer.leader, answer.members) == (0, 1, leader, [])
    assert rig.group.state_name == "Stable"


def test_the_leader_can_ask_for_a_rebalance() -> None:
    rig = ClassicRig()
    leader, follower = rig.stable()
    join = rig.join(leader)
    assert rig.heartbeat(follower, 1) == RebalanceInProgressError.code
    again = rig.join(follower)
    assert join.answer.generation_id == again.answer.generation_id == 2


@pytest.mark.parametrize("is_syncing", [False, True])
def test_other_metadata_is_a_reason_for_a_rebalance(is_syncing: bool) -> None:
    rig = ClassicRig()
    if is_syncing:
        joins = [rig.join(), rig.join()]
        rig.pass_time(2 * DELAY_MS)
        leader, follower = (join.answer.member_id for join in joins)
        waiting = rig.sync(follower, 1)
    else:
        leader, follower = rig.stable()
    rig.join(follower, protocols={"range": b"more"})
    assert rig.group.state_name == "PreparingRebalance"
    if is_syncing:
        assert waiting.code == RebalanceInProgressError.code
    answer = rig.join(leader).answer
    assert sorted(each.metadata for each in answer.members) == [b"more", b"subscription"]


def test_whoever_joins_again_while_it_waits_is_answered_once() -> None:
    rig = ClassicRig()
    leader, follower = rig.stable()
    first = rig.join(leader)
    second = rig.join(leader)
    assert first.code == RebalanceInProgressError.code
    assert not second.is_there
    rig.join(follower)
    assert second.answer.generation_id == 2
    assert len(first.answers) == 1


def test_a_group_may_be_full() -> None:
    rig = ClassicRig(group_max_size="2")
    first, second, third = rig.join(), rig.join(), rig.join()
    assert third.code == GroupMaxSizeReachedError.code
    assert third.answer.member_id == ""
    rig.pass_time(2 * DELAY_MS)
    assert (first.code, second.code) == (0, 0)
    assert rig.join().code == GroupMaxSizeReachedError.code
    assert rig.join(version=TWO_STEPS).code == GroupMaxSizeReachedError.code
    assert rig.join(second.answer.member_id).code == 0


def test_ids_that_are_given_out_are_limited() -> None:
    rig = ClassicRig(group_max_size="2")
    codes = {rig.join(version=TWO_STEPS).code for _ in range(100)}
    assert codes == {MemberIdRequiredError.code}
    assert rig.join(version=TWO_STEPS).code == GroupMaxSizeReachedError.code
    assert len(rig.group.pending_joins) == 100


def test_a_group_that_grew_too_large_while_size_was_lowered_keeps_those_who_come_first() -> None:
    rig = ClassicRig()
    members = rig.stable(3)
    rig.pair.config = type(rig.pair.config).single_node({"log.dirs": "/data1", "node.id": "1", "group.max.size": "2"})
    first = rig.join(members[0])
    second = rig.join(members[1])
    assert rig.join(members[2]).code == GroupMaxSizeReachedError.code
    rig.pass_time(REBALANCE_MS)
    assert first.answer.generation_id == second.answer.generation_id == 2
    assert set(rig.group.members) == set(members[:2])


def test_a_name_given_out_to_a_dynamic_member_is_no_static_one() -> None:
    rig = ClassicRig()
    member_id = rig.join(version=TWO_STEPS).answer.member_id
    assert rig.join(member_id, instance_id="i", version=5).code == UnknownServerError.code


def test_of_protocols_with_one_name_the_first_counts() -> None:
    twice = [JoinGroupRequestProtocol(name="range", metadata=data) for data in (b"1", b"2")]
    assert protocols_of(JoinGroupRequest(protocols=twice)) == {"range": b"1"}


def test_a_group_may_have_any_name() -> None:
    rig = ClassicRig()
    name = "ü" * 10_000
    join = rig.join(group_id=name)
    rig.pass_time(DELAY_MS)
    assert join.code == 0
    assert rig.pair.leader.machine.groups[name].state_name == "CompletingRebalance"
    assert GROUP not in rig.pair.leader.machine.groups
