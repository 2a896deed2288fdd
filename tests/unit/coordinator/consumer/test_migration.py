"""Groups that change between the protocols, and groups with members of both."""

from __future__ import annotations

from typing import Any

import pytest

from support.coordinators.classic import DELAY_MS, SESSION_MS
from support.coordinators.classic_consumer import ClassicConsumer, assigned, indexes_of, subscription
from support.coordinators.consumer import Consumer, ConsumerRig, topic_id
from tailrace.coordinator.classic.group import ClassicGroup
from tailrace.coordinator.consumer.embedded import assignment_bytes, assignment_of, subscription_of, version_of
from tailrace.coordinator.consumer.group import ConsumerGroup
from tailrace.coordinator.consumer.member import MemberState
from tailrace.model.errors import (
    CorruptMessageError,
    FencedInstanceIdError,
    GroupIdNotFoundError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    MemberIdRequiredError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    UnknownServerError,
)

T = topic_id("t")


def classic_pair(rig: ConsumerRig, **options: Any) -> list[ClassicConsumer]:
    """Two members of a stable classic group, each with half of the topic."""
    members = rig.stable(2, protocols={"range": subscription()}, **options)
    found = []
    for place, member_id in enumerate(members):
        member = ClassicConsumer(rig, member_id, instance_id=rig.group.members[member_id].instance_id)
        member.generation = 1
        member.owned = {2 * place, 2 * place + 1}
        rig.group.members[member_id].assignment = assigned(*member.owned)
        found.append(member)
    return found


# What members tell each other


def test_versions_of_what_members_tell_each_other() -> None:
    assert subscription_of(subscription({1}, rack="r", version=3)).rack_id == "r"
    assert subscription_of(subscription({1}, version=0)).topics == ["t"]
    assert version_of((99).to_bytes(2, "big")) == 3
    for data in (b"", b"\0", b"\xff\xff", b"\0\0", b"\0\1\0\0\0\1"):
        with pytest.raises(CorruptMessageError):
            subscription_of(data)


def test_assignments_are_written_in_the_version_that_the_member_speaks() -> None:
    rig = ConsumerRig()
    for version in range(4):
        data = assignment_bytes({T: frozenset({2, 0}), bytes(16): frozenset({1})}, rig.pair.image, version)
        assert version_of(data) == version
        (row,) = assignment_of(data).assigned_partitions
        assert (row.topic, row.partitions) == ("t", [0, 2])


# Upgrade


@pytest.mark.spec("CO-05")
def test_a_classic_group_becomes_a_consumer_group_under_its_members() -> None:
    rig = ConsumerRig()
    first, second = classic_pair(rig)
    new = Consumer(rig, "new", "t")
    assert new.beat() is None
    group = rig.consumers
    assert (group.classic_member_count, len(group.members)) == (2, 3)
    assert group.members[first.member_id].owned == {T: {0: 1, 1: 1}}
    assert new.owned == {}

    for _ in range(3):
        first.beat()
        second.beat()
        new.beat()
    assert group.state_name == "Stable"
    owned = [first.owned, second.owned, {index for _, index in new.partitions}]
    assert sorted(map(len, owned)) == [1, 1, 2]
    assert set().union(*owned) == {0, 1, 2, 3}
    assert first.beat() == 0
    assert {member.member_type for member in rig.describe().members} == {0, 1}


def test_another_coordinator_knows_a_group_of_both_protocols() -> None:
    rig = ConsumerRig()
    first, _ = classic_pair(rig)
    Consumer(rig, "new", "t").beat()
    first.beat()
    before = rig.consumers
    rig.reload()
    after = rig.consumers
    assert (after.members, after.targets) == (before.members, before.targets)
    assert after.classic_protocols == before.classic_protocols
    assert after.classic_member_count == 2


def test_who_waits_in_a_rebalance_joins_the_group_that_it_became() -> None:
    rig = ConsumerRig()
    first, second = classic_pair(rig)
    joining = rig.join(first.member_id, protocols={"range": subscription(set(), "t", "u")})
    assert not joining.is_there
    assert Consumer(rig, "new", "t").beat() is None
    assert joining.code == RebalanceInProgressError.code
    assert second.beat() == RebalanceInProgressError.code


def test_a_group_that_has_not_had_a_generation_yet_can_be_upgraded() -> None:
    rig = ConsumerRig()
    joining = rig.join(protocols={"range": subscription()})
    assert Consumer(rig, "new", "t").beat() is None
    assert joining.code == RebalanceInProgressError.code
    assert len(rig.consumers.members) == 2


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_classic_group_stays_one_where_upgrades_are_off(policy: str) -> None:
    rig = ConsumerRig(group_consumer_migration_policy=policy)
    classic_pair(rig)
    assert isinstance(Consumer(rig, "new", "t").beat(), GroupIdNotFoundError)
    assert rig.group.state_name == "Stable"


def test_groups_that_cannot_be_understood_are_not_upgraded() -> None:
    rig = ConsumerRig()
    rig.stable(1)  # what its member says is no subscription
    written = rig.written
    assert isinstance(Consumer(rig, "new", "t").beat(), GroupIdNotFoundError)

    rig = ConsumerRig()
    first, _ = classic_pair(rig)
    rig.group.members[first.member_id].assignment = assigned(0, user_data=b"kept by the assignor")
    assert isinstance(Consumer(rig, "new", "t").beat(), GroupIdNotFoundError)

    rig = ConsumerRig()
    rig.stable(1, protocol_type="connect")
    assert isinstance(Consumer(rig, "new", "t").beat(), GroupIdNotFoundError)
    assert rig.written == written

    rig = ConsumerRig(group_consumer_max_size="1")
    classic_pair(rig)
    assert isinstance(Consumer(rig, "new", "t").beat(), GroupIdNotFoundError)


def test_an_empty_classic_group_gives_way() -> None:
    rig = ConsumerRig(group_consumer_migration_policy="disabled")
    (member,) = rig.stable(1)
    rig.leave((member, None))
    assert Consumer(rig, "new", "t").beat() is None
    assert rig.consumers.epoch == 2


def test_an_empty_consumer_group_gives_way() -> None:
    rig = ConsumerRig()
    new = Consumer(rig, "new", "t")
    new.beat()
    new.leave()
    joining = rig.join(protocols={"range": subscription()})
    rig.pass_time(DELAY_MS)
    assert joining.answer.generation_id == 1
    assert isinstance(rig.pair.leader.machine.groups["g"], ClassicGroup)


# Members of the classic protocol in a consumer group


def mixed(rig: ConsumerRig) -> tuple[Consumer, ClassicConsumer]:
    """One of each, in a consumer group; the second has joined and not synced."""
    new, old = Consumer(rig, "new", "t"), ClassicConsumer(rig)
    new.beat()
    assert old.join() == 0
    return new, old


@pytest.mark.spec("CO-05")
def test_a_classic_member_joins_a_consumer_group() -> None:
    rig = ConsumerRig()
    new, old = mixed(rig)
    assert old.sync() == 0
    assert old.owned == set()  # all of it is still the other's
    assert old.beat() == 0
    new.settle()
    assert old.beat() == RebalanceInProgressError.code
    assert len(old.owned) == 2
    assert not {(T, index) for index in old.owned} & new.partitions
    assert rig.consumers.state_name == "Stable"


def test_a_classic_member_gives_up_before_it_goes_on() -> None:
    rig = ConsumerRig()
    new, old = mixed(rig)
    old.sync()
    new.settle()
    old.beat()
    third = Consumer(rig, "third", "t")
    third.beat()
    rig.extend("t", 8)
    for _ in range(4):
        for member in (new, third, old):
            member.beat()
    assert rig.consumers.state_name == "Stable"
    assert sum(map(len, (old.owned, new.partitions, third.partitions))) == 8


def test_a_newcomer_of_the_classic_protocol_is_given_its_id_first() -> None:
    rig = ConsumerRig()
    Consumer(rig, "new", "t").beat()
    answer = rig.join(protocols={"range": subscription()}, version=4).answer
    assert (answer.error_code, len(answer.member_id)) == (MemberIdRequiredError.code, 22)
    assert len(rig.consumers.members) == 1
    answer = rig.join(answer.member_id, protocols={"range": subscription()}, version=4).answer
    assert (answer.error_code, answer.protocol_name, answer.leader, answer.members) == (0, "range", "", [])


def test_what_the_classic_members_of_a_consumer_group_are_refused() -> None:
    rig = ConsumerRig()
    new, old = mixed(rig)
    assert rig.heartbeat(old.member_id, old.generation + 1) == IllegalGenerationError.code
    assert rig.heartbeat("x", 1) == UnknownMemberIdError.code
    assert rig.heartbeat("new", new.epoch) == UnknownMemberIdError.code
    assert rig.heartbeat(old.member_id, old.generation, instance_id="i") == UnknownMemberIdError.code
    assert rig.sync(old.member_id, old.generation + 1).code == IllegalGenerationError.code
    assert rig.sync(old.member_id, old.generation, protocol_type="connect").code == InconsistentGroupProtocolError.code
    assert rig.sync(old.member_id, old.generation, protocol_name="other").code == InconsistentGroupProtocolError.code
    assert rig.join(protocols={"other": subscription()}).code == InconsistentGroupProtocolError.code
    assert rig.join(protocols={}).code == InconsistentGroupProtocolError.code
    assert rig.join(protocols={"range": b"?"}).code == UnknownServerError.code
    assert (
        rig.join(protocols={"range": subscription()}, protocol_type="connect").code
        == InconsistentGroupProtocolError.code
    )
    rig.extend("t", 5)
    new.settle()
    assert rig.sync(old.member_id, old.generation).code == RebalanceInProgressError.code


def test_no_classic_member_joins_where_migration_is_off() -> None:
    rig = ConsumerRig(group_consumer_migration_policy="disabled")
    Consumer(rig, "new", "t").beat()
    assert ClassicConsumer(rig).join() == InconsistentGroupProtocolError.code


@pytest.mark.parametrize("late_for", ["session", "sync", "join"])
def test_a_classic_member_that_is_late_is_out(late_for: str) -> None:
    rig = ConsumerRig(group_consumer_migration_policy="upgrade")
    new, old = mixed(rig)
    if late_for != "sync":
        assert old.sync() == 0
    if late_for == "session":
        rig.pass_time(SESSION_MS)
    else:
        new.settle()
        for _ in range(8):
            rig.pass_time(SESSION_MS - 1)
            new.beat()
            rig.heartbeat(old.member_id, old.generation)
    assert list(rig.consumers.members) == ["new"]


# Downgrade


@pytest.mark.spec("CO-05")
def test_a_group_is_classic_again_when_the_last_consumer_member_has_left() -> None:
    rig = ConsumerRig()
    first, second = classic_pair(rig)
    new = Consumer(rig, "new", "t")
    new.beat()
    for _ in range(3):
        first.beat()
        second.beat()
        new.beat()
    epoch = rig.consumers.epoch
    new.leave()
    group = rig.group
    assert (group.generation, group.state_name) == (epoch, "PreparingRebalance")
    assert set(group.members) == {first.member_id, second.member_id}
    assert indexes_of(group.members[first.member_id].assignment) == first.owned
    assert rig.heartbeat(first.member_id, epoch) == RebalanceInProgressError.code
    joins = [rig.join(each.member_id, protocols={"range": subscription(each.owned)}) for each in (first, second)]
    assert [each.answer.generation_id for each in joins] == [epoch + 1] * 2


def test_the_end_of_the_last_session_downgrades_too() -> None:
    rig = ConsumerRig()
    first, second = classic_pair(rig, session_ms=100_000)
    Consumer(rig, "new", "t").beat()
    rig.pass_time(45_000)
    assert set(rig.group.members) == {first.member_id, second.member_id}


def test_a_static_member_that_comes_back_with_the_classic_protocol_downgrades() -> None:
    rig = ConsumerRig()
    new = Consumer(rig, "new", "t", instance_id="one")
    new.beat()
    back = ClassicConsumer(rig, instance_id="one")
    assert back.join() == 0
    group = rig.group
    assert (list(group.members), group.static_members) == ([back.member_id], {"one": back.member_id})
    assert (group.state_name, group.generation) == ("Stable", back.generation)
    assert back.sync() == 0
    assert back.owned == {0, 1, 2, 3}
    assert back.beat() == 0
    rig.reload()
    assert back.beat() == 0


def test_a_static_member_that_wants_other_topics_downgrades_with_a_rebalance() -> None:
    rig = ConsumerRig({"t": 4, "u": 2})
    Consumer(rig, "new", "t", instance_id="one").beat()
    answer = rig.join(protocols={"range": subscription(set(), "u")}, instance_id="one").answer
    assert answer.error_code == 0
    assert rig.group.state_name == "PreparingRebalance"


@pytest.mark.parametrize("policy", ["upgrade", "disabled"])
def test_a_group_stays_a_consumer_group_where_downgrades_are_off(policy: str) -> None:
    rig = ConsumerRig()
    new, old = mixed(rig)
    rig.pair.config = type(rig.pair.config).single_node(
        {"log.dirs": "/data1", "node.id": "1", "group.consumer.migration.policy": policy}
    )
    new.leave()
    assert list(rig.consumers.members) == [old.member_id]


def test_classic_members_leave_a_consumer_group() -> None:
    rig = ConsumerRig()
    new, old = mixed(rig)
    static = ClassicConsumer(rig, instance_id="one")
    assert static.join() == 0
    assert rig.leave(("x", None), ("x", "one"), ("", "two")) == [
        UnknownMemberIdError.code,
        FencedInstanceIdError.code,
        UnknownMemberIdError.code,
    ]
    assert rig.leave((old.member_id, None), ("", "one")) == [0, 0]
    assert list(rig.consumers.members) == ["new"]
    new.settle()
    assert len(new.partitions) == 4


def test_a_consumer_takes_the_place_of_a_static_classic_member() -> None:
    rig = ConsumerRig()
    static = ClassicConsumer(rig, instance_id="one")
    Consumer(rig, "new", "t").beat()
    assert static.join() == 0
    took = Consumer(rig, "took", "t", instance_id="one")
    assert took.beat() is None
    assert isinstance(rig.consumers, ConsumerGroup)
    assert rig.consumers.classic_member_count == 0
    assert set(rig.consumers.members) == {"new", "took"}
    assert rig.consumers.members["took"].state is MemberState.UNRELEASED_PARTITIONS
