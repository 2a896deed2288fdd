"""Static members: they come back under their instance id without a rebalance, and fence whoever had it before."""

from __future__ import annotations

import pytest

from support.coordinators.classic import DELAY_MS, LATEST, REBALANCE_MS, SESSION_MS, ClassicRig
from tailrace.coordinator.classic.group import ClassicGroup
from tailrace.model.errors import (
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)

pytestmark = pytest.mark.spec("CO-04")


def test_a_static_member_is_named_after_its_instance_and_joins_in_one_step() -> None:
    rig = ClassicRig()
    join = rig.join(instance_id="i1", version=LATEST)
    rig.pass_time(DELAY_MS)
    assert join.answer.member_id.startswith("i1-")
    assert join.answer.members[0].group_instance_id == "i1"


@pytest.mark.parametrize("is_leader", [True, False])
@pytest.mark.parametrize("version", [5, LATEST])
def test_it_comes_back_to_a_stable_group_without_a_rebalance(is_leader: bool, version: int) -> None:
    rig = ClassicRig()
    leader, follower = rig.stable(static=True)
    old = leader if is_leader else follower
    instance_id = rig.group.members[old].instance_id
    written = rig.written
    answer = rig.join(instance_id=instance_id, version=version).answer
    new = answer.member_id
    assert (answer.error_code, answer.generation_id) == (0, 1)
    assert new != old
    assert rig.group.state_name == "Stable"
    assert rig.written == written + 1
    assert rig.heartbeat(new, 1, instance_id=instance_id) == 0
    assert rig.sync(new, 1, instance_id=instance_id).answer.assignment == f"of {old}".encode()
    if is_leader and version == LATEST:
        assert answer.skip_assignment
        assert answer.leader == new
        assert {each.member_id for each in answer.members} == {new, follower}
    else:
        assert not answer.skip_assignment
        assert answer.leader == leader  # an old leader must not believe that it leads: it would assign
        assert answer.members == []


def test_who_had_the_instance_before_is_fenced() -> None:
    rig = ClassicRig()
    leader, _ = rig.stable(static=True)
    rig.join(instance_id="i0")
    assert rig.heartbeat(leader, 1, instance_id="i0") == FencedInstanceIdError.code
    assert rig.sync(leader, 1, instance_id="i0").code == FencedInstanceIdError.code
    assert rig.join(leader, instance_id="i0").code == FencedInstanceIdError.code
    assert rig.leave((leader, "i0")) == [FencedInstanceIdError.code]
    assert rig.heartbeat(leader, 1) == UnknownMemberIdError.code
    assert rig.heartbeat(leader, 1, instance_id="i9") == UnknownMemberIdError.code


def test_who_waits_under_the_old_id_is_fenced_at_once() -> None:
    rig = ClassicRig()
    waiting = rig.join(instance_id="i0")
    again = rig.join(instance_id="i0")
    assert waiting.code == FencedInstanceIdError.code
    rig.pass_time(DELAY_MS)
    assert again.answer.generation_id == 1
    assert len(rig.group.members) == 1


def test_it_comes_back_while_assignments_are_awaited() -> None:
    """The leader may be assigning to its old member id."""
    rig = ClassicRig()
    first, second = rig.join(instance_id="i0"), rig.join(instance_id="i1")
    rig.pass_time(2 * DELAY_MS)
    old = second.answer.member_id
    waiting = rig.sync(old, 1, instance_id="i1")
    again = rig.join(instance_id="i1")
    assert waiting.code == FencedInstanceIdError.code
    assert not again.is_there
    assert rig.heartbeat(first.answer.member_id, 1) == RebalanceInProgressError.code
    assert rig.join(first.answer.member_id, instance_id="i0").answer.generation_id == 2
    assert again.answer.generation_id == 2


def test_with_another_protocol_it_begins_a_rebalance() -> None:
    rig = ClassicRig()
    (leader,) = rig.stable(1, static=True, protocols={"a": b"", "b": b""})
    join = rig.join(instance_id="i0", protocols={"b": b""})
    assert join.answer.generation_id == 2
    assert join.answer.protocol_name == "b"
    assert rig.heartbeat(leader, 1, instance_id="i0") == FencedInstanceIdError.code


def test_other_metadata_alone_begins_no_rebalance() -> None:
    rig = ClassicRig()
    rig.stable(static=True)
    answer = rig.join(instance_id="i1", protocols={"range": b"more"}).answer
    assert (answer.error_code, answer.generation_id) == (0, 1)


def test_it_stays_in_the_group_while_it_does_not_join() -> None:
    rig = ClassicRig()
    leader, follower = rig.stable(static=True, session_ms=10 * REBALANCE_MS)
    newcomer = rig.join()
    rig.join(leader, instance_id="i0")
    rig.pass_time(REBALANCE_MS)
    assert newcomer.answer.generation_id == 2
    assert follower in rig.group.members


def test_another_one_leads_when_the_leader_does_not_join() -> None:
    rig = ClassicRig()
    leader, follower = rig.stable(static=True, session_ms=10 * REBALANCE_MS)
    again = rig.join(follower, instance_id="i1", protocols={"range": b"more"})
    rig.pass_time(REBALANCE_MS)
    assert again.answer.leader == follower
    assert leader in rig.group.members


def test_a_rebalance_without_anybody_waits_for_the_sessions() -> None:
    rig = ClassicRig()
    members = rig.stable(static=True, session_ms=3 * REBALANCE_MS)
    newcomer = rig.join()
    rig.leave((next(each for each in rig.group.members if each not in members), None))
    assert newcomer.code == UnknownMemberIdError.code
    rig.pass_time(REBALANCE_MS)
    assert rig.group.state_name == "PreparingRebalance"
    rig.pass_time(2 * REBALANCE_MS)
    assert rig.group.state_name == "Empty"


def test_its_session_ends_like_any_other() -> None:
    rig = ClassicRig()
    rig.stable(static=True)
    rig.pass_time(SESSION_MS)
    assert rig.group.members == {}
    assert rig.group.static_members == {}


def test_a_return_that_cannot_be_kept_is_taken_back() -> None:
    rig = ClassicRig(in_sync=(1, 2), offsets_commit_timeout_ms="5000")
    first, second = rig.join(instance_id="i0"), rig.join(instance_id="i1")
    rig.pair.replicate()
    rig.pass_time(2 * DELAY_MS)
    leader, follower = first.answer.member_id, second.answer.member_id
    rig.sync(leader, 1, {leader: b"1", follower: b"2"}, instance_id="i0")
    rig.pair.replicate()
    again = rig.join(instance_id="i1", protocols={"range": b"more"})
    assert not again.is_there
    rig.pass_time(5_000)
    answer = again.answer
    assert answer.error_code == CoordinatorNotAvailableError.code
    assert (answer.member_id, answer.leader, answer.generation_id) == ("", leader, 1)
    assert set(rig.group.members) == {leader, follower}
    assert rig.group.members[follower].protocols == {"range": b"subscription"}
    assert rig.group.static_members == {"i0": leader, "i1": follower}
    rig.pass_time(SESSION_MS)
    assert rig.group.members == {}  # the sessions of both run


def test_its_session_is_as_long_as_it_says_when_it_comes_back() -> None:
    rig = ClassicRig()
    rig.stable(1, static=True)
    new = rig.join(instance_id="i0", session_ms=5 * SESSION_MS).answer.member_id
    rig.pass_time(4 * SESSION_MS)
    assert rig.heartbeat(new, 1, instance_id="i0") == 0
    rig.pass_time(5 * SESSION_MS)
    assert rig.group.members == {}


def test_its_session_runs_when_its_return_was_long_in_coming() -> None:
    rig = ClassicRig(in_sync=(1, 2), offsets_commit_timeout_ms=str(3 * SESSION_MS))
    first = rig.join(instance_id="i0")
    rig.pair.replicate()
    rig.pass_time(DELAY_MS)
    leader = first.answer.member_id
    rig.sync(leader, 1, {leader: b"1"}, instance_id="i0")
    rig.pair.replicate()
    again = rig.join(instance_id="i0")
    rig.pass_time(2 * SESSION_MS)
    rig.pair.replicate()
    assert again.answer.error_code == 0
    rig.pass_time(SESSION_MS)
    rig.pair.replicate()
    assert rig.group.members == {}


def test_who_comes_back_is_not_awaited_under_its_old_id() -> None:
    """It had not asked for its assignment yet; under its new id it has."""
    rig = ClassicRig()
    first, second = rig.join(instance_id="i0", session_ms=600_000), rig.join(instance_id="i1", session_ms=600_000)
    rig.pass_time(2 * DELAY_MS)
    leader, follower = first.answer.member_id, second.answer.member_id
    rig.sync(leader, 1, {leader: b"1", follower: b"2"}, instance_id="i0")
    new = rig.join(instance_id="i1", session_ms=600_000).answer.member_id
    assert rig.sync(new, 1, instance_id="i1").answer.assignment == b"2"
    rig.pass_time(REBALANCE_MS)
    assert rig.group.state_name == "Stable"


def test_a_rebalance_without_anybody_does_not_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ClassicRig()
    rig.stable(1, static=True)
    rig.join(instance_id="i0", session_ms=600_000, rebalance_ms=0)
    attempts: list[str] = []

    def elect(group: ClassicGroup) -> bool:
        attempts.append(group.group_id)
        assert len(attempts) < 20
        return False

    monkeypatch.setattr(ClassicGroup, "elect_joined_leader", elect)
    rig.join(instance_id="i1")
    rig.leave(("", "i1"))
    rig.pass_time(REBALANCE_MS)
    rig.pass_time(5_000)
    assert attempts
