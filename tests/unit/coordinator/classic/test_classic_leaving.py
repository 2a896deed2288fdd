"""LeaveGroup: by themselves, or taken out by an administrator."""

from __future__ import annotations

import pytest

from support.coordinators.classic import DELAY_MS, SESSION_MS, TWO_STEPS, ClassicRig
from tailrace.model.errors import FencedInstanceIdError, RebalanceInProgressError, UnknownMemberIdError
from tailrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

pytestmark = pytest.mark.spec("CO-04")


def test_whoever_leaves_is_gone_at_once() -> None:
    rig = ClassicRig()
    leader, follower = rig.stable()
    assert rig.leave((leader, None)) == [0]
    assert rig.heartbeat(leader, 1) == UnknownMemberIdError.code
    assert rig.heartbeat(follower, 1) == RebalanceInProgressError.code
    assert rig.join(follower).answer.leader == follower


def test_the_last_one_leaves_an_empty_group() -> None:
    rig = ClassicRig()
    members = rig.stable(3)
    assert rig.leave(*((each, None) for each in members)) == [0, 0, 0]
    assert rig.group.state_name == "Empty"
    assert rig.group.generation == 2
    assert len(rig.pair.leader.machine.shard.timers) == 1  # no session is left, only the expiry of offsets


def test_an_administrator_names_instances() -> None:
    rig = ClassicRig()
    leader, _ = rig.stable(static=True)
    codes = rig.leave(("", "i1"), ("", "i9"), ("", None), ("stranger", None), (leader, "i1"), ("stranger", "i0"))
    unknown, fenced = UnknownMemberIdError.code, FencedInstanceIdError.code
    assert codes == [0, unknown, unknown, unknown, unknown, fenced]
    assert set(rig.group.members) == {leader}


def test_who_has_only_been_given_an_id_may_leave() -> None:
    rig = ClassicRig()
    member_id = rig.join(version=TWO_STEPS).answer.member_id
    assert rig.leave((member_id, None)) == [0]
    assert rig.group.pending_joins == set()
    assert rig.join(member_id, version=TWO_STEPS).code == UnknownMemberIdError.code


def test_the_others_go_on_without_somebody_who_was_awaited() -> None:
    rig = ClassicRig()
    leader, follower = rig.stable()
    pending = rig.join(version=TWO_STEPS).answer.member_id
    again = rig.join(leader)
    rig.leave((pending, None))
    assert not again.is_there
    rig.leave((follower, None))
    assert again.answer.generation_id == 2


def test_who_leaves_while_assignments_are_awaited_begins_a_rebalance() -> None:
    rig = ClassicRig()
    first, second = rig.join(), rig.join()
    rig.pass_time(2 * DELAY_MS)
    waiting = rig.sync(second.answer.member_id, 1)
    rig.leave((first.answer.member_id, None))
    assert waiting.code == RebalanceInProgressError.code
    assert rig.join(second.answer.member_id).answer.generation_id == 2


def test_nobody_leaves_a_group_that_is_not_there() -> None:
    rig = ClassicRig()
    request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="me")])
    answer = rig.submit(lambda machine: machine.classic.leave(request))
    assert answer.code == UnknownMemberIdError.code


def test_nobody_leaves_twice() -> None:
    rig = ClassicRig()
    leader, follower = rig.stable()
    assert rig.leave((leader, None), (leader, None)) == [0, UnknownMemberIdError.code]
    rig.pass_time(SESSION_MS)
    assert follower not in rig.group.members
