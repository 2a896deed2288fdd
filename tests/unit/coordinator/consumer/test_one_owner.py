"""Whatever the order of heartbeats, lost answers, joins, leaves and new topics: a partition has one owner at a time."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from suite.seeds import examples
from support.coordinators.classic_consumer import ClassicConsumer
from support.coordinators.cleaned_groups import cleaned, loaded, records_in_log
from support.coordinators.consumer import Consumer, ConsumerRig, topic_id
from tailrace.coordinator.consumer.group import ConsumerGroup
from tailrace.coordinator.consumer.member import ConsumerMember
from tailrace.coordinator.groups.group import Group
from tailrace.model.errors import RebalanceInProgressError

NAMES = tuple("abcd")
TOPICS = ("t", "u")
a_name = st.sampled_from(NAMES)


def _seen(group: Group | None) -> dict[str, Any] | None:
    """All of a group that records say."""
    if group is None:
        return None
    assert isinstance(group, ConsumerGroup)
    names = ("epoch", "metadata_hash", "assignment_epoch", "members", "targets", "static_members", "_owner_epochs")
    return {
        **{name: getattr(group, name) for name in (*names, "assignors", "classic_protocols", "classic_member_count")},
        "topics": group.subscriptions.topics,
    }


class OneOwner(RuleBasedStateMachine):
    """Members as their clients see themselves. One that the coordinator has taken out, and does not know it yet, is
    not asked: its session has ended, and it must not count on anything."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = ConsumerRig({"t": 5, "u": 3})
        self.members: dict[str, Consumer] = {}

    @initialize()
    def begin(self) -> None:
        self._member("a").beat()

    def _member(self, name: str) -> Consumer:
        if name not in self.members:
            self.members[name] = Consumer(self.rig, name, *TOPICS)
        return self.members[name]

    @rule(name=a_name, is_full=st.booleans(), loses_answer=st.booleans())
    def heartbeat(self, name: str, is_full: bool, loses_answer: bool) -> None:
        self._member(name).beat(is_full=is_full, loses_answer=loses_answer)

    @rule(name=a_name, topics=st.frozensets(st.sampled_from(TOPICS)))
    def subscribe(self, name: str, topics: frozenset[str]) -> None:
        member = self._member(name)
        member.topics = tuple(sorted(topics))
        member.beat(is_full=True)

    @rule(name=a_name)
    def leave(self, name: str) -> None:
        member = self.members.pop(name, None)
        if member is not None and name in self.rig.consumers.members:
            member.leave()

    @rule(topic=st.sampled_from(TOPICS), more=st.integers(1, 2))
    def extend(self, topic: str, more: int) -> None:
        self.rig.extend(topic, len(self.rig.pair.image.topics[topic].partitions) + more)

    @rule(ms=st.sampled_from([5_000, 31_000]))
    def pass_time(self, ms: int) -> None:
        self.rig.pass_time(ms)

    @rule()
    def another_coordinator(self) -> None:
        self.rig.reload()

    @invariant()
    def no_partition_is_used_twice(self) -> None:
        group = self.rig.pair.leader.machine.groups.get("g")
        known: dict[str, ConsumerMember] = getattr(group, "members", {})
        used = [each for member_id, partitions in self.users().items() if member_id in known for each in partitions]
        assert len(used) == len(set(used))

    def users(self) -> dict[str, set[tuple[bytes, int]]]:
        """What clients use, by their member ids."""
        return {member.member_id: member.partitions for member in self.members.values()}

    @invariant()
    def no_partition_is_owned_twice(self) -> None:
        group = self.rig.pair.leader.machine.groups.get("g")
        members: dict[str, ConsumerMember] = getattr(group, "members", {})
        owned = [
            (topic_id, index)
            for member in members.values()
            for partitions in (member.owned, member.revoked)
            for topic_id, indexes in partitions.items()
            for index in indexes
        ]
        assert len(owned) == len(set(owned))

    @rule(tenths=st.integers(0, 10), keeps_tombstones=st.booleans())
    def a_cleaned_log_says_the_same(self, tenths: int, keeps_tombstones: bool) -> None:
        records = records_in_log(self.rig)
        left = cleaned(records, tenths * len(records) // 10, keeps_tombstones=keeps_tombstones)
        group = self.rig.pair.leader.machine.groups.get("g")
        other = loaded(self.rig, left).groups.get("g")
        assert _seen(other) == _seen(group)

    def teardown(self) -> None:
        """When nothing happens any more everybody reaches its target, and everything is owned."""
        if "g" not in self.rig.pair.leader.machine.groups:
            return
        for _ in range(6):
            for name in list(self.rig.consumers.members):
                self._member(name).beat(is_full=True)
        group = self.rig.consumers
        assert group.state_name in ("Stable", "Empty")
        wanted = {
            (topic.id, index)
            for topic in self.rig.pair.image.topics.values()
            if group.is_subscribed_to(topic.name)
            for index in topic.partitions
        }
        assert {each for name in group.members for each in self.members[name].partitions} == wanted


class OneOwnerOfBothProtocols(OneOwner):
    """With members that use the classic protocol, and with static ones that go and come back under another id."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = ConsumerRig({"t": 5, "u": 3}, group_consumer_migration_policy="upgrade")
        self.old: dict[str, ClassicConsumer] = {}
        self.ids = count()

    @rule(name=st.sampled_from("vwx"), is_eager=st.booleans())
    def classic_heartbeat(self, name: str, is_eager: bool) -> None:
        if self.rig.consumers.is_empty:
            return  # it would become a classic group
        member = self.old.setdefault(name, ClassicConsumer(self.rig))
        member.is_eager = is_eager
        if member.member_id not in self.rig.consumers.members or member.beat() not in (
            0,
            RebalanceInProgressError.code,
        ):
            member.start_anew()

    @rule(name=st.sampled_from("vwx"))
    def classic_leave(self, name: str) -> None:
        member = self.old.pop(name, None)
        if member is not None and member.member_id in self.rig.consumers.members:
            self.rig.leave((member.member_id, None))

    @rule(returns=st.booleans())
    def static_member(self, returns: bool) -> None:
        """Goes for a while, and is perhaps back at once."""
        away = self.members.pop("s", None)
        if away is not None and away.member_id in self.rig.consumers.members:
            away.leave(-2)
        if returns:
            back = Consumer(self.rig, f"s{next(self.ids)}", *TOPICS, instance_id="one")
            if back.beat() is None:
                self.members["s"] = back

    def users(self) -> dict[str, set[tuple[bytes, int]]]:
        found = {member.member_id: member.partitions for member in self.members.values()}
        return found | {
            member.member_id: {(topic_id("t"), index) for index in member.owned} for member in self.old.values()
        }

    def teardown(self) -> None:
        """Who is gone for good is out when its session ends; the others reach their targets."""
        for _ in range(12):
            self.rig.pass_time(5_000)
            if "g" not in self.rig.pair.leader.machine.groups:
                return  # empty for so long that it is forgotten
            for member in self.members.values():
                if member.member_id in self.rig.consumers.members:
                    member.beat(is_full=True)
            for old in self.old.values():
                if old.member_id in self.rig.consumers.members:
                    old.beat()
            self.no_partition_is_used_twice()
        group = self.rig.consumers
        assert group.state_name in ("Stable", "Empty")
        users = self.users()
        for member_id, member in group.members.items():
            assert users[member_id] == {(each, index) for each, indexes in member.owned.items() for index in indexes}


TestOneOwner = pytest.mark.spec("CO-05")(OneOwner.TestCase)
OneOwner.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=40)
TestOneOwnerOfBothProtocols = pytest.mark.spec("CO-05")(OneOwnerOfBothProtocols.TestCase)
OneOwnerOfBothProtocols.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=40)
