"""Members of consumer groups: joining, following the assignment, being fenced, leaving."""

from __future__ import annotations

import pytest

from support.coordinators.consumer import Consumer, ConsumerRig, owned_of, topic_id
from tailrace.coordinator.consumer.member import MemberState
from tailrace.coordinator.outcome import Outcome
from tailrace.model.errors import (
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    RefusedRequestError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
    UnsupportedVersionError,
)

T = topic_id("t")
SESSION_MS = 45_000


def everything(count: int = 4) -> dict[bytes, frozenset[int]]:
    return {T: frozenset(range(count))}


# Joining


@pytest.mark.spec("CO-05")
def test_the_first_member_is_given_everything() -> None:
    rig = ConsumerRig()
    answer = rig.enter("a", "t")
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("a", 2, 5_000)
    assert owned_of(answer) == everything()
    assert rig.consumers.state_name == "Stable"


def test_a_member_that_brings_no_id_is_given_one() -> None:
    answer = ConsumerRig().enter("", "t", version=0)
    assert len(answer.member_id or "") == 22


def test_a_member_of_no_topics_is_a_member() -> None:
    rig = ConsumerRig()
    answer = rig.enter("a")
    assert (answer.member_epoch, owned_of(answer)) == (1, {})
    assert rig.consumers.state_name == "Stable"


def test_topics_that_do_not_exist_are_waited_for() -> None:
    rig = ConsumerRig({})
    assert owned_of(rig.enter("a", "t")) == {}
    rig.create("t", 4)
    assert owned_of(rig.beat("a", 2)) == everything()


@pytest.mark.parametrize(
    "fields",
    [
        {"rebalance_timeout_ms": -1},
        {"owned": None},
        {"owned": {T: [0]}},
        {"subscribed_topic_names": None},
        {"instance_id": " "},
        {"rack_id": ""},
        {"group_id": ""},
    ],
)
def test_a_join_has_to_say_everything(fields: dict[str, object]) -> None:
    whole = {"rebalance_timeout_ms": 1_000, "owned": {}, "subscribed_topic_names": ["t"], **fields}
    assert ConsumerRig().refused("a", 0, **whole) is RefusedRequestError


@pytest.mark.parametrize(
    ("member_id", "epoch", "version"), [("", 0, 1), ("", 1, 0), ("", -1, 0), ("a", -3, 1), ("a", -2, 1)]
)
def test_requests_that_no_group_accepts(member_id: str, epoch: int, version: int) -> None:
    fields = {"rebalance_timeout_ms": 1_000, "owned": {}, "subscribed_topic_names": ["t"]}
    assert ConsumerRig().refused(member_id, epoch, version=version, **fields) is RefusedRequestError


def test_an_assignor_that_is_not_there_is_refused() -> None:
    rig = ConsumerRig()
    fields = {"rebalance_timeout_ms": 1_000, "owned": {}, "subscribed_topic_names": ["t"]}
    assert rig.refused("a", 0, server_assignor="best", **fields) is UnsupportedAssignorError


def test_the_assignor_that_most_members_ask_for_is_used() -> None:
    rig = ConsumerRig({"t": 2, "u": 2})
    for member_id in "ab":
        rig.enter(member_id, "t", "u", server_assignor="range")
    rig.beat("a", 2, owned={})
    assert rig.consumers.targets["a"] == {T: frozenset({0}), topic_id("u"): frozenset({0})}
    assert rig.describe().assignor_name == "range"


def test_a_group_has_only_so_many_members() -> None:
    rig = ConsumerRig(group_consumer_max_size="1")
    rig.enter("a", "t")
    fields = {"rebalance_timeout_ms": 1_000, "owned": {}, "subscribed_topic_names": ["t"]}
    assert rig.refused("b", 0, **fields) is GroupMaxSizeReachedError
    assert rig.beat("a", 2).member_epoch == 2


def test_heartbeats_to_nobody() -> None:
    rig = ConsumerRig()
    assert rig.refused("a", 1) is GroupIdNotFoundError
    assert rig.refused("a", -1) is GroupIdNotFoundError
    rig.enter("a", "t")
    assert rig.refused("b", 1) is UnknownMemberIdError
    assert rig.refused("b", -1) is UnknownMemberIdError


# The assignment


@pytest.mark.spec("CO-05")
def test_a_partition_is_given_to_its_next_owner_when_the_last_one_has_given_it_up() -> None:
    rig = ConsumerRig()
    a, b = Consumer(rig, "a", "t"), Consumer(rig, "b", "t")
    a.beat()
    b.beat()
    assert (a.epoch, b.epoch) == (2, 3)
    assert b.owned == {}
    assert rig.consumers.members["b"].state is MemberState.UNRELEASED_PARTITIONS
    assert rig.consumers.state_name == "Reconciling"

    answer = rig.beat("a", 2, owned=a.owned)
    kept = owned_of(answer)
    assert (answer.member_epoch, sum(map(len, kept.values()))) == (2, 2)
    assert rig.consumers.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    b.beat()
    assert b.owned == {}

    assert rig.beat("a", 2, owned=a.owned).assignment is None  # it still says that it owns all
    answer = rig.beat("a", 2, owned=kept)
    assert (answer.member_epoch, answer.assignment) == (3, None)
    b.beat()
    assert b.owned == {T: frozenset(range(4)) - kept[T]}
    assert rig.consumers.state_name == "Stable"


def test_an_answer_without_news_does_not_repeat_the_assignment() -> None:
    rig = ConsumerRig()
    rig.enter("a", "t")
    written = rig.written
    assert rig.beat("a", 2).assignment is None
    assert rig.written == written
    full = rig.beat("a", 2, owned=everything(), rebalance_timeout_ms=30_000, subscribed_topic_names=["t"])
    assert owned_of(full) == everything()
    assert rig.written == written


def test_new_partitions_are_given_out() -> None:
    rig = ConsumerRig()
    rig.enter("a", "t")
    rig.extend("t", 6)
    assert owned_of(rig.beat("a", 2, owned=everything())) == everything(6)


def test_partitions_of_a_deleted_topic_are_given_up() -> None:
    rig = ConsumerRig({"t": 4, "u": 1})
    rig.enter("a", "t", "u")
    rig.delete("u")
    assert owned_of(rig.beat("a", 2, owned={**everything(), topic_id("u"): [0]})) == everything()
    assert rig.beat("a", 2, owned=everything()).member_epoch == 3


def test_a_topic_that_is_dropped_from_the_subscription_is_given_up_at_once() -> None:
    rig = ConsumerRig({"t": 4, "u": 1}, group_consumer_assignment_interval_ms="10000")
    rig.enter("a", "t", "u")
    answer = rig.beat("a", 2, subscribed_topic_names=["t"])
    assert owned_of(answer) == everything()
    assert rig.consumers.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    assert rig.consumers.assignment_epoch == 2  # it is too early for a new one


def test_assignments_are_made_no_more_often_than_is_set() -> None:
    rig = ConsumerRig(group_consumer_assignment_interval_ms="1000")
    rig.enter("a", "t")
    rig.enter("b", "t")
    assert (rig.consumers.epoch, rig.consumers.assignment_epoch) == (3, 2)
    assert rig.consumers.state_name == "Assigning"
    rig.pass_time(1_000)
    rig.beat("b", 2)
    assert rig.consumers.assignment_epoch == 3


# Fencing


def test_a_lost_answer_is_forgiven() -> None:
    rig = ConsumerRig()
    a = Consumer(rig, "a", "t")
    a.beat()
    rig.extend("t", 6)
    a.beat(loses_answer=True)
    assert rig.consumers.members["a"].epoch == 3
    answer = rig.beat("a", 2, owned=a.owned)
    assert answer.member_epoch == 3


@pytest.mark.spec("CO-05")
def test_members_that_are_behind_or_ahead_are_fenced() -> None:
    rig = ConsumerRig()
    a = Consumer(rig, "a", "t")
    a.beat()
    rig.extend("t", 5)
    a.beat()
    rig.extend("t", 6)
    a.beat()
    assert a.epoch == 4
    assert rig.refused("a", 5, owned=a.owned) is FencedMemberEpochError
    assert rig.refused("a", 2, owned=a.owned) is FencedMemberEpochError
    assert rig.refused("a", 3) is FencedMemberEpochError  # the epoch before, but it does not say what it owns
    assert rig.refused("a", 3, owned={T: [17]}) is FencedMemberEpochError
    assert owned_of(rig.enter("a", "t")) == everything(6)


def test_offsets_are_committed_only_by_members_in_their_epoch() -> None:
    rig = ConsumerRig()
    rig.enter("a", "t")
    rig.extend("t", 5)
    rig.beat("a", 2, owned=everything())
    group = rig.consumers

    def check(member_id: str, epoch: int, version: int = 9, **options: bool) -> object:
        return group.check_commit(
            member_id, None, epoch, is_transactional=options.get("is_transactional", False), api_version=version
        )

    assert check("a", 3) is None
    with pytest.raises(UnknownMemberIdError):
        check("x", 3)
    with pytest.raises(UnknownMemberIdError):
        check("", -1)
    with pytest.raises(StaleMemberEpochError):
        check("a", 4)
    with pytest.raises(UnsupportedVersionError):
        check("a", 3, version=8)
    assert check("a", 3, version=3, is_transactional=True) is None
    assert check("", -1, is_transactional=True) is None

    behind = check("a", 2)
    assert callable(behind)
    behind("t", T, 0)
    with pytest.raises(StaleMemberEpochError):
        behind("t", T, 4)  # given to it in epoch 3
    with pytest.raises(StaleMemberEpochError):
        behind("t", T, 17)
    with pytest.raises(StaleMemberEpochError):
        behind("u", bytes(16), 0)

    group.check_fetch("a", 3, 9)
    group.check_fetch(None, -1, 9)
    with pytest.raises(StaleMemberEpochError):
        group.check_fetch("a", 2, 9)
    with pytest.raises(UnknownMemberIdError):
        group.check_fetch("x", 2, 9)


# Leaving, and being late


@pytest.mark.spec("CO-05")
def test_what_a_member_owned_is_free_when_it_has_left() -> None:
    rig = ConsumerRig()
    a, b = Consumer(rig, "a", "t"), Consumer(rig, "b", "t")
    for each in (a, b, a, a, b):
        each.beat()
    answer = rig.beat("a", -1)
    assert (answer.member_id, answer.member_epoch, answer.assignment) == ("a", -1, None)
    b.beat()
    assert b.owned == everything()
    rig.beat("b", -1)
    assert rig.consumers.state_name == "Empty"


def test_a_member_without_heartbeats_is_out() -> None:
    rig = ConsumerRig()
    rig.enter("a", "t")
    rig.pass_time(SESSION_MS - 1)
    rig.beat("a", 2)
    rig.pass_time(SESSION_MS - 1)
    assert "a" in rig.consumers.members
    rig.pass_time(1)
    assert rig.consumers.is_empty
    assert rig.refused("a", 2) is UnknownMemberIdError


def test_a_member_that_gives_nothing_up_is_out() -> None:
    rig = ConsumerRig()
    a, b = Consumer(rig, "a", "t"), Consumer(rig, "b", "t")
    a.beat()
    b.beat()
    rig.beat("a", 2, owned=a.owned)
    for _ in range(3):
        rig.pass_time(10_000)
        rig.send("a", 2, owned=a.owned)
        b.beat()
    assert list(rig.consumers.members) == ["b"]
    assert b.owned == everything()


def test_a_member_that_gives_up_in_time_stays() -> None:
    rig = ConsumerRig()
    a, b = Consumer(rig, "a", "t"), Consumer(rig, "b", "t")
    a.beat()
    b.beat()
    a.settle()
    rig.pass_time(40_000)
    assert set(rig.consumers.members) == {"a", "b"}


def test_a_group_has_settings_of_its_own() -> None:
    rig = ConsumerRig(group_consumer_min_session_timeout_ms="1000")
    rig.pair.image.configs[32, "g"] = {
        "consumer.session.timeout.ms": "2000",
        "consumer.heartbeat.interval.ms": "6000",
    }
    assert rig.enter("a", "t").heartbeat_interval_ms == 6_000
    rig.pass_time(2_000)
    assert rig.consumers.is_empty


# Static members


def test_a_static_member_that_goes_for_a_while_is_given_what_it_had() -> None:
    rig = ConsumerRig()
    a, b = Consumer(rig, "a", "t", instance_id="one"), Consumer(rig, "b", "t")
    for each in (a, b, a, a, b):
        each.beat()
    had = a.owned
    a.leave(-2)
    assert rig.consumers.members["a"].epoch == -2
    b.beat()
    assert len(b.partitions) == 2
    back = rig.enter("a2", "t", instance_id="one")
    assert owned_of(back) == had
    assert "a" not in rig.consumers.members
    assert rig.consumers.static_members == {"one": "a2"}
    assert rig.consumers.epoch == 3  # nothing had to be assigned anew


def test_a_static_member_that_does_not_come_back_is_out() -> None:
    rig = ConsumerRig()
    a = Consumer(rig, "a", "t", instance_id="one")
    a.beat()
    a.leave(-2)
    rig.pass_time(SESSION_MS)
    assert rig.consumers.is_empty


def test_an_instance_belongs_to_one_member() -> None:
    rig = ConsumerRig()
    rig.enter("a", "t", instance_id="one")
    fields = {"rebalance_timeout_ms": 1_000, "owned": {}, "subscribed_topic_names": ["t"]}
    assert rig.refused("b", 0, instance_id="one", **fields) is UnreleasedInstanceIdError
    assert rig.refused("b", 2, instance_id="one") is FencedInstanceIdError
    assert rig.refused("b", -1, instance_id="one") is FencedInstanceIdError
    assert rig.refused("b", -2, instance_id="one") is FencedInstanceIdError
    assert rig.refused("b", 2, instance_id="two") is UnknownMemberIdError
    assert rig.refused("b", -2, instance_id="two") is UnknownMemberIdError
    assert rig.refused("a", 1, instance_id="one") is FencedMemberEpochError


def test_a_static_member_comes_back_under_its_own_id() -> None:
    rig = ConsumerRig()
    a = Consumer(rig, "a", "t", instance_id="one")
    a.beat()
    a.leave(-2)
    assert owned_of(rig.enter("a", "t", instance_id="one")) == everything()
    assert list(rig.consumers.members) == ["a"]


# Another coordinator


@pytest.mark.spec("CO-05")
def test_another_coordinator_goes_on_where_the_first_was() -> None:
    rig = ConsumerRig(in_sync=(1, 2))
    for member_id in "ab":
        answers = rig.send(
            member_id,
            0,
            owned={},
            subscribed_topic_names=["t"],
            rebalance_timeout_ms=30_000,
            instance_id=f"i{member_id}",
        )
        assert not answers.is_there  # not before it is committed
        rig.pair.replicate()
        assert answers.answer.member_epoch
    before = rig.consumers
    rig.reload()
    after = rig.consumers
    assert after is not before
    for name in (
        "epoch", "metadata_hash", "assignment_epoch", "assignment_timestamp_ms", "members", "static_members",
        "targets", "_owner_epochs", "classic_member_count", "state_name",
    ):  # fmt: skip
        assert getattr(after, name) == getattr(before, name), name
    assert after.subscriptions.topics == before.subscriptions.topics == {"t"}
    rig.pass_time(SESSION_MS)
    assert rig.consumers.is_empty


def test_a_description() -> None:
    rig = ConsumerRig()
    a, b = Consumer(rig, "a", "t"), Consumer(rig, "b", "t", rack_id="r", instance_id="one")
    for each in (a, b, a):
        each.beat()
    found = rig.describe()
    assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Reconciling", 3, 3)
    assert found.assignor_name == "uniform"
    first, second = sorted(found.members, key=lambda member: member.member_id)
    (held,) = first.assignment.topic_partitions
    assert (held.topic_name, held.partitions) == ("t", [0, 1, 2, 3])
    assert sum(len(each.partitions) for each in first.target_assignment.topic_partitions) == 2
    assert (second.rack_id, second.instance_id, second.member_type, second.client_host) == ("r", "one", 1, "/10.0.0.1")
    assert second.assignment.topic_partitions == []


def test_an_empty_group_is_deleted_by_its_tombstones() -> None:
    rig = ConsumerRig()
    rig.enter("a", "t")
    rig.beat("a", -1)
    rig.submit(lambda machine: Outcome(machine.groups["g"].tombstones(), "gone"))
    assert "g" not in rig.pair.leader.machine.groups
