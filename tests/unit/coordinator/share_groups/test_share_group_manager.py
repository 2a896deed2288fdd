"""Share groups at their coordinator: heartbeats, what may be read, and what outlives a coordinator."""

from __future__ import annotations

from typing import Any

import pytest

from support.coordinators.classic import GROUP
from support.coordinators.consumer import ConsumerRig, topic_id
from tailrace.coordinator.classic.caller import Caller
from tailrace.coordinator.outcome import Outcome
from tailrace.coordinator.shard import Shard
from tailrace.coordinator.share_groups import offsets
from tailrace.coordinator.share_groups.group import ShareGroup
from tailrace.coordinator.share_groups.manager import HeartbeatAnswer, Initialization
from tailrace.model.errors import (
    FencedMemberEpochError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    NonEmptyGroupError,
    NotEnoughReplicasError,
    RefusedRequestError,
    TailraceError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from tailrace.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from tailrace.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from tailrace.replication.partition import Partition

T = topic_id("t")


class ShareRig(ConsumerRig):
    def __init__(self, topics: dict[str, int] | None = None, **settings: Any) -> None:
        settings.setdefault("group_share_assignment_interval_ms", "0")
        super().__init__(topics, **settings)
        self.orders: list[Initialization] = []

    @property
    def shared(self) -> ShareGroup:
        group = self.pair.leader.machine.groups[GROUP]
        assert isinstance(group, ShareGroup)
        return group

    def say(self, member: str, epoch: int, *topics: str, group_id: str = GROUP, **fields: Any) -> Any:
        request = ShareGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member,
            member_epoch=epoch,
            subscribed_topic_names=list(topics) or None,
            **fields,
        )
        caller = Caller("me", "/10.0.0.1", 1)
        answer = self.submit(lambda machine: machine.share.heartbeat(request, caller), group_id).answer
        if isinstance(answer, HeartbeatAnswer):
            if answer.initialization is not None:
                self.orders.append(answer.initialization)
            return answer.response
        return answer

    def ok(self, member: str, epoch: int, *topics: str, **fields: Any) -> ShareGroupHeartbeatResponse:
        answer = self.say(member, epoch, *topics, **fields)
        assert isinstance(answer, ShareGroupHeartbeatResponse), answer
        return answer

    def make_states(self) -> None:
        """What the share coordinator was asked for, it has done."""
        for order in self.orders:
            partitions = {each: frozenset(starts) for each, starts in order.starts.items()}
            answer = self.submit(lambda machine, these=partitions: machine.share.initialized(GROUP, these)).answer
            assert answer is True
        self.orders.clear()

    def enter_and_read(self, member: str, *topics: str) -> ShareGroupHeartbeatResponse:
        first = self.ok(member, 0, *topics)
        self.make_states()
        return self.ok(member, first.member_epoch)


def given_to(response: ShareGroupHeartbeatResponse) -> dict[bytes, list[int]]:
    assert response.assignment is not None
    return {each.topic_id: each.partitions for each in response.assignment.topic_partitions}


def test_partitions_are_assigned_once_they_have_a_state() -> None:
    rig = ShareRig()
    first = rig.ok("m", 0, "t")
    assert (first.member_epoch, given_to(first)) == (2, {})
    (order,) = rig.orders
    assert order == (GROUP, 2, {T: {0: -1, 1: -1, 2: -1, 3: -1}})
    waiting = rig.ok("m", 2)
    assert waiting.assignment is None
    assert len(rig.orders) == 1
    rig.make_states()
    second = rig.ok("m", 2)
    assert (second.member_epoch, given_to(second)) == (3, {T: [0, 1, 2, 3]})
    assert rig.ok("m", 3).assignment is None


def test_a_state_that_could_not_be_made_is_asked_for_again() -> None:
    rig = ShareRig(group_share_initialize_retry_interval_ms="1000")
    rig.ok("m", 0, "t")
    rig.pass_time(1000)
    rig.ok("m", 2)
    assert len(rig.orders) == 2
    partitions = {T: frozenset({0, 1, 2, 3})}
    rig.submit(lambda machine: machine.share.not_initialized(GROUP, partitions))
    assert not rig.shared.topics.initializing
    rig.ok("m", 2)
    assert len(rig.orders) == 3


def test_members_share_the_partitions_and_take_over_from_who_leaves() -> None:
    rig = ShareRig()
    rig.enter_and_read("m", "t")
    second = rig.ok("n", 0, "t")
    mine = given_to(rig.ok("m", 3, "t"))
    assert sorted(mine[T] + given_to(second)[T]) == [0, 1, 2, 3]
    gone = rig.ok("m", -1)
    assert (gone.member_id, gone.member_epoch) == ("m", -1)
    assert given_to(rig.ok("n", second.member_epoch)) == {T: [0, 1, 2, 3]}


def test_who_sends_no_heartbeat_is_taken_out() -> None:
    rig = ShareRig()
    rig.enter_and_read("m", "t")
    rig.pass_time(44_999)
    assert "m" in rig.shared.members
    rig.ok("m", 3)
    rig.pass_time(45_000)
    assert rig.shared.is_empty
    assert rig.shared.state_name == "Empty"
    assert isinstance(rig.say("m", 3), UnknownMemberIdError)


def test_new_partitions_get_a_state_and_a_reader() -> None:
    rig = ShareRig()
    rig.enter_and_read("m", "t")
    rig.extend("t", 6)
    rig.ok("m", 3)
    (order,) = rig.orders
    assert order.starts == {T: {4: -1, 5: -1}}
    rig.make_states()
    assert given_to(rig.ok("m", rig.shared.epoch)) == {T: [0, 1, 2, 3, 4, 5]}


def test_a_deleted_topic_is_forgotten() -> None:
    rig = ShareRig()
    rig.enter_and_read("m", "t")
    rig.delete("t")
    assert not rig.shared.topics.initialized
    assert given_to(rig.ok("m", 3)) == {}


def test_a_change_of_subscription_counts_at_once() -> None:
    rig = ShareRig({"t": 2, "u": 2})
    rig.enter_and_read("m", "t")
    assert given_to(rig.ok("m", 3, "u")) == {}
    rig.make_states()
    assert given_to(rig.ok("m", rig.shared.epoch)) == {topic_id("u"): [0, 1]}


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"member": " ", "epoch": 0}, RefusedRequestError),
        ({"member": "m", "epoch": 0, "group_id": ""}, RefusedRequestError),
        ({"member": "m", "epoch": 0, "rack_id": ""}, RefusedRequestError),
        ({"member": "m", "epoch": 0, "topics": ()}, RefusedRequestError),
        ({"member": "m", "epoch": -2}, RefusedRequestError),
        ({"member": "m", "epoch": 1}, GroupIdNotFoundError),
        ({"member": "m", "epoch": -1}, GroupIdNotFoundError),
    ],
)
def test_a_heartbeat_that_makes_no_sense_is_refused(fields: dict[str, Any], error: type[TailraceError]) -> None:
    rig = ShareRig()
    said = {"topics": ("t",), **fields}
    member, epoch, topics = said.pop("member"), said.pop("epoch"), said.pop("topics")
    assert type(rig.say(member, epoch, *topics, **said)) is error
    assert rig.written == 0


def test_epochs_are_those_that_the_member_was_told() -> None:
    rig = ShareRig()
    rig.enter_and_read("m", "t")
    assert rig.ok("m", 2).member_epoch == 3  # it may not have heard of the last one
    assert isinstance(rig.say("m", 4), FencedMemberEpochError)
    assert isinstance(rig.say("m", 1), FencedMemberEpochError)
    assert isinstance(rig.say("n", 3), UnknownMemberIdError)
    assert isinstance(rig.say("n", -1), UnknownMemberIdError)


def test_a_group_has_so_many_members_at_most() -> None:
    rig = ShareRig(group_share_max_size="1")
    rig.ok("m", 0, "t")
    assert isinstance(rig.say("n", 0, "t"), GroupMaxSizeReachedError)
    rig.ok("m", 2)


def test_a_group_of_another_kind_is_no_share_group() -> None:
    rig = ShareRig()
    rig.enter("c", "t")
    assert isinstance(rig.say("m", 0, "t"), GroupIdNotFoundError)


def test_a_new_coordinator_knows_the_same() -> None:
    rig = ShareRig()
    rig.enter_and_read("m", "t")
    rig.ok("n", 0, "t")
    before = rig.shared
    rig.reload()
    after = rig.shared
    assert after is not before
    assert (after.members, after.targets, after.epoch) == (before.members, before.targets, before.epoch)
    assert after.topics.assignable() == before.topics.assignable()
    rig.pass_time(45_000)
    assert rig.shared.is_empty


def test_a_group_is_shown_with_its_members() -> None:
    rig = ShareRig()
    rig.enter_and_read("m", "t")
    shown = rig.submit(lambda machine: Outcome(response=machine.share.describe(GROUP))).answer
    assert (shown.group_state, shown.group_epoch, shown.assignment_epoch, shown.assignor_name) == (
        "Stable",
        3,
        3,
        "simple",
    )
    (member,) = shown.members
    assert (member.member_id, member.client_host, member.subscribed_topic_names) == ("m", "/10.0.0.1", ["t"])
    (assigned,) = member.assignment.topic_partitions
    assert (assigned.topic_name, assigned.partitions) == ("t", [0, 1, 2, 3])


def test_a_group_commits_and_fetches_nothing_as_consumers_do() -> None:
    group = ShareGroup("g")
    for check in (
        lambda: group.check_commit("m", None, 1, is_transactional=False, api_version=9),
        lambda: group.check_fetch("m", 1, 9),
        group.check_offset_delete,
    ):
        with pytest.raises(GroupIdNotFoundError):
            check()


# Offsets


def alteration(*partitions: tuple[int, int], topic: str = "t") -> AlterShareGroupOffsetsRequest:
    rows = [AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=at) for index, at in partitions]
    topics = [AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=rows)]
    return AlterShareGroupOffsetsRequest(group_id=GROUP, topics=topics)


def test_offsets_of_a_group_without_members_are_set_by_beginning_anew() -> None:
    rig = ShareRig()
    rig.enter_and_read("m", "t")
    request = alteration((0, 7), (9, 1))
    assert isinstance(rig.submit(lambda machine: offsets.alter(machine.share, request)).answer, NonEmptyGroupError)
    rig.ok("m", -1)
    answer = rig.submit(lambda machine: offsets.alter(machine.share, request)).answer
    assert answer.initialization == (GROUP, rig.shared.epoch, {T: {0: 7}})
    codes = [row.error_code for row in answer.response.responses[0].partitions]
    assert codes == [0, UnknownTopicOrPartitionError.code]


def test_a_group_may_come_into_being_with_its_offsets() -> None:
    rig = ShareRig()
    answer = rig.submit(lambda machine: offsets.alter(machine.share, alteration((1, 5)))).answer
    assert answer.initialization == (GROUP, 1, {T: {1: 5}})
    assert rig.shared.topics.initializing[T].partitions == {1}
    unknown = rig.submit(lambda machine: offsets.alter(machine.share, alteration((0, 0), topic="none"))).answer
    assert unknown.response.responses[0].partitions[0].error_code == UnknownTopicOrPartitionError.code


def test_offsets_of_a_topic_are_deleted_in_two_steps() -> None:
    rig = ShareRig()
    rig.enter_and_read("m", "t")
    rig.ok("m", -1)

    def begin(*names: str) -> Any:
        return rig.submit(lambda machine: offsets.begin_deletion(machine.share, GROUP, list(names))).answer

    deletion = begin("t", "none")
    assert deletion.partitions == {T: {0, 1, 2, 3}}
    assert [row.topic_name for row in deletion.refused] == ["none"]
    assert rig.shared.topics.deleting == {T: "t"}
    assert not rig.shared.topics.initialized
    assert begin("t").partitions == {T: {0, 1, 2, 3}}  # as if the first had been cut short
    rig.submit(lambda machine: offsets.end_deletion(machine.share, GROUP, {T: "t"}))
    assert not rig.shared.topics.deleting
    (refused,) = begin("t").refused
    assert refused.error_code == UnknownTopicOrPartitionError.code


def test_a_group_that_is_deleted_leaves_no_records() -> None:
    rig = ShareRig()
    rig.enter_and_read("m", "t")
    rig.ok("m", -1)
    partitions = rig.submit(lambda machine: offsets.begin_group_deletion(machine.share, GROUP)).answer
    assert partitions == {T: {0, 1, 2, 3}}
    rig.submit(lambda machine: Outcome(machine.groups[GROUP].tombstones(), True))
    assert GROUP not in rig.pair.leader.machine.groups
    rig.reload()
    assert GROUP not in rig.pair.leader.machine.groups


def test_a_topic_that_went_unnoticed_moves_nobody() -> None:
    """The note that a topic is deleted may be lost with a machine; the deletion is not."""
    rig = ShareRig()
    rig.enter_and_read("m", "t")
    topics = rig.shared.topics
    rig.delete("t")
    rig.shared.topics = topics
    rig.ok("m", rig.shared.epoch)
    epoch = rig.shared.epoch
    for _ in range(3):
        rig.ok("m", epoch)
    assert rig.shared.epoch == epoch


def test_who_could_not_leave_is_taken_out_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ShareRig()
    rig.enter_and_read("m", "t")

    def refuse(*_: Any) -> None:
        raise NotEnoughReplicasError("one is gone")

    with monkeypatch.context() as patch:
        patch.setattr(Partition, "append", refuse)
        assert isinstance(rig.say("m", -1), TailraceError)
    assert "m" in rig.shared.members
    rig.pass_time(45_000)
    assert rig.shared.is_empty


def test_a_deleted_topic_is_forgotten_by_any_number_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ShareRig({"t": 200, "u": 200})
    monkeypatch.setattr(Shard, "largest_batch_bytes", 4000)
    groups = [f"g{each}" for each in range(8)]
    for each in groups:
        rig.ok("m", 0, "t", "u", group_id=each)
    rig.delete("t")
    machine = rig.pair.leader.machine
    assert all(list(machine.share.find(each).topics.initializing) == [topic_id("u")] for each in groups)
