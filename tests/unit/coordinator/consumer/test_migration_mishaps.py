"""What goes wrong while a group changes between the protocols, or while members of both are in it."""

from __future__ import annotations

from support.coordinators.classic import REBALANCE_MS
from support.coordinators.classic_consumer import ClassicConsumer, assigned, subscription
from support.coordinators.consumer import Consumer, ConsumerRig
from support.coordinators.refused_appends import refused_appends
from tailrace.coordinator.consumer.group import ConsumerGroup
from tailrace.model.errors import (
    CoordinatorNotAvailableError,
    InvalidRegularExpressionError,
    RebalanceInProgressError,
    TailraceError,
    UnknownMemberIdError,
)

LONG_SESSION_MS = 100_000
COMMIT_TIMEOUT_MS = 5_000


def timers_of(rig: ConsumerRig, member_id: str) -> set[str]:
    """The kinds of clocks of a member that run for its consumer group."""
    timers = rig.pair.leader.machine.shard.timers
    kinds = ("session", "rebalance", "join", "sync")
    return {kind for kind in kinds if timers.is_scheduled((f"consumer {kind}", "g", member_id))}


def classic_members(rig: ConsumerRig, *offers: dict[str, bytes]) -> list[str]:
    """Members of a stable classic group with these protocols; the first of them has the whole topic."""
    ids = rig.stable(len(offers), protocols=offers[0], session_ms=LONG_SESSION_MS)
    rig.group.members[ids[0]].assignment = assigned(0, 1, 2, 3)
    return ids


# Upgrade


def test_a_group_is_upgraded_while_a_newcomer_does_not_speak_its_old_protocol() -> None:
    rig = ConsumerRig()
    classic_members(rig, {"range": subscription(), "sticky": subscription()})
    joining = rig.join(protocols={"sticky": subscription()})
    assert rig.group.state_name == "PreparingRebalance"
    assert Consumer(rig, "new", "t").beat() is None
    assert len(rig.consumers.members) == 3
    assert joining.code == RebalanceInProgressError.code


def test_an_upgrade_that_is_not_written_has_not_happened() -> None:
    rig = ConsumerRig()
    (old,) = classic_members(rig, {"range": subscription()})
    joining = rig.join(protocols={"range": subscription()})
    assert not joining.is_there
    before = rig.group
    with refused_appends():
        assert isinstance(Consumer(rig, "new", "t").beat(), CoordinatorNotAvailableError)
    assert rig.group is before
    assert not joining.is_there  # and goes on to wait
    assert rig.join(old, protocols={"range": subscription()}).answer.generation_id == 2
    assert joining.answer.generation_id == 2


def test_a_stranger_who_is_refused_does_not_disturb_a_classic_group() -> None:
    rig = ConsumerRig()
    classic_members(rig, {"range": subscription()})
    joining = rig.join(protocols={"range": subscription()})
    answer = rig.send(
        "new", 0, owned={}, rebalance_timeout_ms=1, subscribed_topic_names=[], subscribed_topic_regex="("
    ).answer
    assert isinstance(answer, InvalidRegularExpressionError)
    assert not joining.is_there


# Downgrade


def upgraded(rig: ConsumerRig, *offers: dict[str, bytes]) -> tuple[Consumer, list[str]]:
    """A consumer group of one member of the consumer protocol, and of classic ones with these protocols."""
    ids = classic_members(rig, *offers)
    new = Consumer(rig, "new", "t")
    assert new.beat() is None
    return new, ids


def test_a_downgrade_that_is_not_written_has_not_happened() -> None:
    rig = ConsumerRig()
    new, (old,) = upgraded(rig, {"range": subscription()})
    before = rig.consumers
    with refused_appends():
        assert isinstance(rig.send("new", -1).answer, CoordinatorNotAvailableError)
    assert rig.consumers is before
    assert timers_of(rig, old) == timers_of(rig, "new") == {"session"}
    assert new.beat() is None
    assert rig.heartbeat(old, 1) == RebalanceInProgressError.code
    assert rig.join(old, protocols={"range": subscription()}).answer.generation_id == rig.consumers.epoch

    new.leave()
    assert rig.group.state_name == "PreparingRebalance"


def test_a_static_member_whose_downgrade_is_not_written_can_come_again() -> None:
    rig = ConsumerRig()
    Consumer(rig, "new", "t", instance_id="one").beat()
    before = rig.consumers
    back = ClassicConsumer(rig, instance_id="one")
    with refused_appends():
        assert back.join() == CoordinatorNotAvailableError.code
    assert rig.consumers is before
    assert list(before.members) == ["new"]
    assert back.join() == 0
    assert back.sync() == 0
    assert back.owned == {0, 1, 2, 3}


def test_a_session_that_ends_while_nothing_can_be_written_ends_later() -> None:
    rig = ConsumerRig()
    upgraded(rig, {"range": subscription()})
    with refused_appends():
        rig.pass_time(45_000)
    assert isinstance(rig.consumers, ConsumerGroup)
    rig.pass_time(500)
    assert rig.group.state_name == "PreparingRebalance"


def test_a_downgrade_that_is_committed_late_still_balances_the_group_anew() -> None:
    rig = ConsumerRig(in_sync=(1, 2), group_initial_rebalance_delay_ms="0")
    first = rig.join(protocols={"range": subscription()}, session_ms=LONG_SESSION_MS)
    rig.pair.replicate()
    old = first.answer.member_id
    joined = rig.send("new", 0, owned={}, rebalance_timeout_ms=30_000, subscribed_topic_names=["t"])
    rig.pair.replicate()
    assert joined.answer.member_epoch == 2
    left = rig.send("new", -1)
    rig.pass_time(COMMIT_TIMEOUT_MS)
    assert isinstance(left.answer, TailraceError)
    assert list(rig.group.members) == [old]
    assert rig.group.state_name == "PreparingRebalance"


def test_no_clock_of_the_consumer_group_runs_after_a_downgrade() -> None:
    rig = ConsumerRig()
    new, (old,) = upgraded(rig, {"range": subscription()})
    assert rig.heartbeat(old, 1) == RebalanceInProgressError.code
    assert timers_of(rig, old) == {"session", "join"}
    new.leave()
    assert timers_of(rig, old) == timers_of(rig, "new") == set()


def test_a_member_goes_where_the_group_cannot_become_a_classic_one() -> None:
    rig = ConsumerRig()
    new, (old,) = upgraded(rig, {"range": subscription()})
    odd = {"other": subscription(), "range": b"?"}
    assert rig.join(old, protocols={"range": subscription(), "other": subscription()}).code == 0
    assert rig.join(old, protocols={"range": b"?", "other": subscription()}).code != 0
    assert rig.join(protocols=odd).code == 0
    assert rig.join(old, protocols={"range": subscription()}).code == 0
    new.leave()
    assert "new" not in rig.consumers.members
    assert len(rig.consumers.members) == 2


# Members of both protocols


def test_classic_members_alone_share_what_the_last_consumer_member_had() -> None:
    rig = ConsumerRig(group_consumer_migration_policy="upgrade")
    new, old = Consumer(rig, "new", "t"), ClassicConsumer(rig)
    new.beat()
    assert old.join() == 0
    assert old.sync() == 0
    new.settle()
    old.beat()
    assert len(old.owned) == 2
    new.leave()
    for _ in range(3):
        old.beat()
    assert old.owned == {0, 1, 2, 3}
    assert old.beat() == 0

    rig.extend("t", 6)
    assert old.beat() == RebalanceInProgressError.code
    assert old.owned == {0, 1, 2, 3, 4, 5}
    assert old.beat() == 0


def test_a_join_that_is_committed_late_has_a_session_nevertheless() -> None:
    rig = ConsumerRig(in_sync=(1, 2))
    rig.send("new", 0, owned={}, rebalance_timeout_ms=30_000, subscribed_topic_names=["t"])
    rig.pair.replicate()
    joining = rig.join(protocols={"range": subscription()})
    rig.pass_time(COMMIT_TIMEOUT_MS)
    assert joining.code == CoordinatorNotAvailableError.code
    (old,) = set(rig.consumers.members) - {"new"}
    assert timers_of(rig, old) == {"session", "sync"}


def test_a_classic_member_keeps_its_own_session_on_another_coordinator() -> None:
    rig = ConsumerRig()
    new, (old,) = upgraded(rig, {"range": subscription()})
    rig.reload()
    for _ in range(2):
        rig.pass_time(40_000)
        new.beat()
    assert old in rig.consumers.members


def test_who_changes_to_the_consumer_protocol_is_not_late_for_the_classic_one() -> None:
    rig = ConsumerRig()
    new, (old,) = upgraded(rig, {"range": subscription()})
    assert rig.heartbeat(old, 1) == RebalanceInProgressError.code
    changed = Consumer(rig, old, "t")
    assert changed.beat() is None
    for _ in range(2 * REBALANCE_MS // 30_000):
        rig.pass_time(30_000)
        assert new.beat() is None
        assert changed.beat() is None


def test_names_of_protocols_that_nobody_offers_are_forgotten() -> None:
    rig = ConsumerRig()
    Consumer(rig, "new", "t").beat()
    for place in range(3):
        answer = rig.join(protocols={f"protocol{place}": subscription()}).answer
        assert rig.leave((answer.member_id, None)) == [0]
    assert not rig.consumers.classic_protocols


# Static members


def test_an_instance_that_its_member_has_given_up_is_free() -> None:
    rig = ConsumerRig()
    a = Consumer(rig, "a", "t", instance_id="one")
    a.beat()
    a.fields["instance_id"] = "two"
    a.epoch = 0
    a.owned = {}
    assert a.beat() is None
    assert rig.consumers.static_members == {"two": "a"}
    assert rig.refused("a", a.epoch, instance_id="one", owned=a.owned) is UnknownMemberIdError
    b = Consumer(rig, "b", "t", instance_id="one")
    for _ in range(3):
        assert b.beat() is None
        assert a.beat() is None
    assert len(a.partitions) == len(b.partitions) == 2


# What a member is given time for


def test_who_is_told_of_nothing_is_not_late_to_give_it_up() -> None:
    rig = ConsumerRig()
    a = Consumer(rig, "a", "t", rebalance_timeout_ms=1_000)
    a.beat()
    rig.enter("b", "t")
    with refused_appends():
        assert isinstance(rig.send("a", a.epoch, owned=a.owned).answer, CoordinatorNotAvailableError)
    assert timers_of(rig, "a") == {"session"}


def test_who_has_not_been_heard_giving_up_is_still_being_timed() -> None:
    rig = ConsumerRig()
    a = Consumer(rig, "a", "t")
    a.beat()
    rig.enter("b", "t")
    a.beat()
    assert timers_of(rig, "a") == {"session", "rebalance"}
    with refused_appends():
        assert isinstance(rig.send("a", a.epoch, owned=a.owned).answer, CoordinatorNotAvailableError)
    assert timers_of(rig, "a") == {"session", "rebalance"}
    a.beat()
    assert timers_of(rig, "a") == {"session"}
