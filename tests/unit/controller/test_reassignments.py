"""Reassignments of partitions: started, changed, completed by an ISR, cancelled, listed, refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.metadata.controllers import ControllerRig, topic
from tailrace.metadata.partition_registration import PartitionRegistration
from tailrace.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from tailrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tailrace.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

UNKNOWN_TOPIC, TIMED_OUT, FACTOR, ASSIGNMENT, INVALID_REQUEST, POLICY, NONE_IN_PROGRESS = 3, 7, 38, 39, 42, 44, 85


@pytest.fixture
def rig() -> ControllerRig:
    rig = ControllerRig().brokers(1, 2, 3, 4)
    rig.create(topic("t", assignments={0: [1, 2], 1: [2, 3]}))
    return rig


def reassign(rig: ControllerRig, *targets: tuple[int, list[int] | None], version: int = 1, **fields: Any) -> list[int]:
    """The error of each partition of topic t."""
    partitions = [ReassignablePartition(partition_index=index, replicas=replicas) for index, replicas in targets]
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=fields.pop("name", "t"), partitions=partitions)], **fields
    )
    answer = rig.ask(request, version)
    assert (answer.error_code, answer.error_message) == (0, None)
    (result,) = answer.responses
    assert all((each.error_message is None) == (each.error_code == 0) for each in result.partitions)
    return [each.error_code for each in result.partitions]


def partition(rig: ControllerRig, index: int = 0) -> PartitionRegistration:
    return rig.image.topics["t"].partitions[index]


def set_isr(rig: ControllerRig, isr: list[int], index: int = 0) -> int:
    """As the leader proposes it. The error."""
    found = partition(rig, index)
    proposal = RequestPartitionData(
        partition_index=index,
        leader_epoch=found.leader_epoch,
        partition_epoch=found.partition_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=each, broker_epoch=rig.epochs[each]) for each in isr],
    )
    topics = [RequestTopicData(topic_id=rig.image.topics["t"].id, partitions=[proposal])]
    request = AlterPartitionRequest(broker_id=found.leader, broker_epoch=rig.epochs[found.leader], topics=topics)
    code: int = rig.ask(request).topics[0].partitions[0].error_code
    return code


def listed(rig: ControllerRig, topics: dict[str, list[int]] | None = None) -> dict[tuple[str, int], Any]:
    asked = (
        None
        if topics is None
        else [ListPartitionReassignmentsTopics(name=n, partition_indexes=i) for n, i in topics.items()]
    )
    answer = rig.ask(ListPartitionReassignmentsRequest(topics=asked))
    assert (answer.error_code, answer.error_message) == (0, None)
    return {
        (each.name, row.partition_index): (row.replicas, row.adding_replicas, row.removing_replicas)
        for each in answer.topics
        for row in each.partitions
    }


@pytest.mark.spec("RP-19")
@pytest.mark.parametrize("version", [0, 1])
def test_a_reassignment_ends_when_its_target_is_in_sync(rig: ControllerRig, version: int) -> None:
    assert reassign(rig, (0, [4, 1]), version=version) == [0]
    during = partition(rig)
    assert (during.replicas, during.adding_replicas, during.removing_replicas) == ((4, 1, 2), (4,), (2,))
    assert (during.leader, during.isr) == (1, (1, 2))
    assert listed(rig) == {("t", 0): ([4, 1, 2], [4], [2])}
    assert set_isr(rig, [1, 2, 4]) == 0
    after = partition(rig)
    assert (after.replicas, after.isr, after.is_reassigning) == ((4, 1), (1, 4), False)
    assert after.leader_epoch == during.leader_epoch + 1  # fences the replica that left
    assert listed(rig) == {}


@pytest.mark.spec("RP-19")
def test_replicas_that_are_in_sync_already_are_kept_at_once(rig: ControllerRig) -> None:
    assert reassign(rig, (0, [2])) == [0]
    found = partition(rig)
    assert (found.replicas, found.isr, found.leader, found.is_reassigning) == ((2,), (2,), 2, False)


def test_another_order_of_the_same_replicas(rig: ControllerRig) -> None:
    assert reassign(rig, (0, [2, 1])) == [0]
    found = partition(rig)
    assert (found.replicas, found.leader, found.is_reassigning) == ((2, 1), 1, False)


def test_the_present_replicas_change_nothing(rig: ControllerRig) -> None:
    before = len(rig.quorum.batches)
    assert reassign(rig, (0, [1, 2])) == [0]
    assert len(rig.quorum.batches) == before


@pytest.mark.spec("RP-19")
def test_a_reassignment_is_cancelled(rig: ControllerRig) -> None:
    original = partition(rig)
    assert reassign(rig, (0, [3, 4])) == [0]
    assert set_isr(rig, [1, 2, 3]) == 0
    assert reassign(rig, (0, None)) == [0]
    found = partition(rig)
    assert (found.replicas, found.isr, found.leader) == ((1, 2), (1, 2), 1)
    assert found.directories == original.directories
    assert not found.is_reassigning
    assert reassign(rig, (0, None)) == [NONE_IN_PROGRESS]


def test_a_target_can_be_replaced_by_another(rig: ControllerRig) -> None:
    assert reassign(rig, (0, [3, 1])) == [0]
    assert reassign(rig, (0, [4, 1])) == [0]
    found = partition(rig)
    assert (found.replicas, found.adding_replicas, found.removing_replicas) == ((4, 1, 2, 3), (4,), (2, 3))


def test_a_target_that_contains_replicas_of_the_previous_one(rig: ControllerRig) -> None:
    assert reassign(rig, (0, [3, 1])) == [0]
    assert reassign(rig, (0, [3, 4, 1])) == [0]
    found = partition(rig)
    assert (found.replicas, found.adding_replicas, found.removing_replicas) == ((3, 4, 1, 2), (3, 4), (2,))
    assert reassign(rig, (0, [1, 2, 3])) == [0]
    found = partition(rig)
    assert (found.replicas, found.adding_replicas, found.removing_replicas) == ((1, 2, 3, 4), (3,), (4,))
    assert set_isr(rig, [1, 2, 3]) == 0
    found = partition(rig)
    assert (found.replicas, found.isr, found.is_reassigning) == ((1, 2, 3), (1, 2, 3), False)


@pytest.mark.parametrize(("allows_unclean", "code"), [("false", ASSIGNMENT), ("true", 0)])
def test_cancelling_without_an_original_replica_in_sync_needs_an_unclean_election(
    allows_unclean: str, code: int
) -> None:
    rig = ControllerRig().brokers(1, 2, 3)
    configs: dict[str, str | None] = {"unclean.leader.election.enable": allows_unclean}
    rig.create(topic("t", assignments={0: [1]}, configs=configs))
    assert reassign(rig, (0, [2, 3])) == [0]
    assert set_isr(rig, [1, 2]) == 0
    rig.beat(1, want_fence=True)
    assert partition(rig).isr == (2,)
    assert reassign(rig, (0, None)) == [code]
    assert partition(rig).is_reassigning == bool(code)
    if not code:
        found = partition(rig)
        assert (found.replicas, found.isr, found.is_recovering) == ((1,), (1,), True)
        rig.beat(1)
        assert (partition(rig).leader, partition(rig).is_recovering) == (1, True)


@pytest.mark.spec("RP-40")
def test_cancelling_elects_a_live_replica_if_the_topic_allows_unclean_elections() -> None:
    """No original replica is in sync, and the first one, which is put into the ISR, is fenced."""
    rig = ControllerRig().brokers(1, 2, 3, 4)
    rig.create(topic("t", assignments={0: [1, 2]}, configs={"unclean.leader.election.enable": "true"}))
    assert reassign(rig, (0, [3, 4])) == [0]
    assert set_isr(rig, [1, 2, 3]) == 0
    for fenced in (1, 2):
        rig.beat(fenced, want_fence=True)
    rig.beat(2)
    assert (partition(rig).isr, partition(rig).leader) == ((3,), 3)
    assert reassign(rig, (0, None)) == [0]
    found = partition(rig)
    assert (found.replicas, found.isr, found.leader, found.is_recovering) == ((1, 2), (2,), 2, True)


@pytest.mark.parametrize(
    ("index", "target", "code"),
    [
        (0, [], ASSIGNMENT),
        (0, [1, 1], ASSIGNMENT),
        (0, [1, 9], ASSIGNMENT),
        (0, [-1], ASSIGNMENT),
        (9, [1], UNKNOWN_TOPIC),
        (9, None, UNKNOWN_TOPIC),
        (0, None, NONE_IN_PROGRESS),
    ],
)
def test_refused_reassignments(rig: ControllerRig, index: int, target: list[int] | None, code: int) -> None:
    before = len(rig.quorum.batches)
    assert reassign(rig, (index, target)) == [code]
    assert reassign(rig, (0, [1, 2]), name="other") == [UNKNOWN_TOPIC]
    assert len(rig.quorum.batches) == before


def test_each_partition_is_decided_for_itself(rig: ControllerRig) -> None:
    assert reassign(rig, (0, [3, 4]), (1, [9]), (0, [1, 4]), (0, None)) == [
        0,
        ASSIGNMENT,
        INVALID_REQUEST,
        INVALID_REQUEST,
    ]
    assert partition(rig).adding_replicas == (3, 4)


def test_a_partition_may_be_named_again_if_nothing_changed(rig: ControllerRig) -> None:
    assert reassign(rig, (0, [1, 2]), (0, [1, 2]), (0, [9]), (0, [3]), (0, [3])) == [
        0,
        0,
        ASSIGNMENT,
        0,
        INVALID_REQUEST,
    ]


def test_the_replication_factor_may_have_to_stay(rig: ControllerRig) -> None:
    fields: dict[str, Any] = {"allow_replication_factor_change": False}
    assert reassign(rig, (0, [1, 3, 4]), **fields) == [FACTOR]
    assert reassign(rig, (0, [3, 4]), **fields) == [0]
    assert len(partition(rig).replicas) == 4
    assert reassign(rig, (0, [3]), **fields) == [FACTOR]
    assert reassign(rig, (0, [4, 1]), **fields) == [0]


def test_reassignments_are_listed_by_name(rig: ControllerRig) -> None:
    assert reassign(rig, (0, [3, 4]), (1, [4])) == [0, 0]
    assert set(listed(rig)) == {("t", 0), ("t", 1)}
    assert set(listed(rig, {"t": [1, 7], "other": [0]})) == {("t", 1)}
    assert listed(rig, {}) == {}


def test_a_deadline_that_has_passed(rig: ControllerRig) -> None:
    partitions = [ReassignablePartition(partition_index=0, replicas=[3])]
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=0, topics=[ReassignableTopic(name="t", partitions=partitions)]
    )
    answer = rig.ask(request)
    assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (TIMED_OUT, TIMED_OUT)


def test_too_many_at_once_are_refused_as_a_whole(rig: ControllerRig) -> None:
    rig.create(topic("large", 6000))
    rig.create(topic("larger", 6000))
    request = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[ReassignablePartition(partition_index=index, replicas=[1, 2, 3]) for index in range(6000)],
            )
            for name in ("large", "larger")
        ]
    )
    before = len(rig.quorum.batches)
    assert rig.ask(request).error_code == POLICY
    assert len(rig.quorum.batches) == before


def test_an_inactive_controller_refuses_each_partition(rig: ControllerRig) -> None:
    rig.controller.resigned()
    partitions = [ReassignablePartition(partition_index=0, replicas=[3])]
    answer = rig.ask(AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=partitions)]))
    assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (41, 41)
    asked = [ListPartitionReassignmentsTopics(name="t", partition_indexes=[0])]
    refused = rig.ask(ListPartitionReassignmentsRequest(topics=asked))
    assert (refused.error_code, [row.partition_index for row in refused.topics[0].partitions]) == (41, [0])


@given(st.lists(st.tuples(st.sampled_from(["move", "cancel", "isr"]), st.integers(0, 10**6)), max_size=12))
@settings(max_examples=examples(60))
def test_whatever_is_asked_the_partition_stays_consistent(steps: list[tuple[str, int]]) -> None:
    rig = ControllerRig().brokers(1, 2, 3, 4)
    rig.create(topic("t", assignments={0: [1, 2]}))
    for kind, dice in steps:
        found = partition(rig)
        if kind == "move":
            order = sorted((1, 2, 3, 4), key=lambda each: each * (dice + 7) % 11)
            reassign(rig, (0, order[: 1 + dice % 4]))
        elif kind == "cancel":
            reassign(rig, (0, None))
        else:
            chosen = [each for position, each in enumerate(found.replicas) if dice >> position & 1]
            set_isr(rig, list(dict.fromkeys([found.leader, *chosen])))
        now = partition(rig)
        replicas = set(now.replicas)
        assert len(replicas) == len(now.replicas) == len(now.directories)
        assert set(now.isr) <= replicas
        assert now.leader in now.isr
        assert {*now.adding_replicas, *now.removing_replicas} <= replicas
        assert not set(now.adding_replicas) & set(now.removing_replicas)
        assert replicas - set(now.removing_replicas)
        assert set(listed(rig)) == ({("t", 0)} if now.is_reassigning else set())
