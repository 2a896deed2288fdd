"""What Kafka 4.3.1 has written to `__consumer_offsets` in the conversations: ours is the same, and theirs is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.conversations.consumer_groups import CONVERSATIONS_OF_CONSUMER_GROUPS
from support.conversations.simulated import simulated_broker, talk_to
from support.coordinators.group_records import Numbered, decoded, encoded, in_batches, written
from support.coordinators.replica_pair import CoordinatorPair
from tailrace.coordinator.consumer.group import ConsumerGroup
from tailrace.coordinator.groups.group import GroupKind
from tailrace.coordinator.groups.shard import GroupShard
from tailrace.coordinator.records import GROUP_RECORDS
from tailrace.model.internal_topics import CONSUMER_OFFSETS

RECORDED = json.loads(
    (Path(__file__).parents[1] / "support" / "recorded" / "consumer-group-records-4.3.1.json").read_text()
)
"""By group: number of the batch, key and value of each record."""
STORIES = {
    "reconciliation": "reconciliation",
    "static": "static_members",
    "mixed": "classic_members",
    "empty": "empty_groups",
    "simple": "empty_groups",
    "static-downgrade": "static_downgrade",
}
"""Groups whose assignments do not go by the order of ids that a server makes, with the conversation they are from."""
KINDS = {
    "reconciliation": None,  # it was deleted
    "fencing": GroupKind.CONSUMER,
    "static": GroupKind.CONSUMER,
    "patterns": GroupKind.CONSUMER,
    "mixed": GroupKind.CONSUMER,
    "upgrade": GroupKind.CLASSIC,
    "empty": GroupKind.CONSUMER,
    "static-downgrade": GroupKind.CONSUMER,
    "simple": GroupKind.CONSUMER,
}
"""What each group is in the end."""


def theirs(group_id: str) -> Numbered:
    return decoded(RECORDED[group_id])


@pytest.mark.spec("CO-05")
@pytest.mark.parametrize("group_id", RECORDED)
def test_their_records_are_read_to_the_last_byte(group_id: str) -> None:
    for (_, record), (_, key, value) in zip(theirs(group_id), RECORDED[group_id], strict=True):
        assert encoded(record) == (key, value)


@pytest.mark.parametrize("group_id", RECORDED)
def test_their_records_are_replayed(group_id: str) -> None:
    pair: CoordinatorPair[GroupShard] = CoordinatorPair(CONSUMER_OFFSETS, GROUP_RECORDS, GroupShard, in_sync=(1,))
    machine = pair.leader.machine
    for offset, (_, record) in enumerate(theirs(group_id)):
        machine.replay(record, offset, None)
    group = machine.groups.get(group_id)
    assert (None if group is None else group.kind) == KINDS[group_id]
    if isinstance(group, ConsumerGroup):
        assert list(group.members) == {"empty": ["a"], "simple": ["a"], "static-downgrade": ["back"]}.get(group_id, [])
        assert group.state_name == ("Stable" if group.members else "Empty")


def ours(group_id: str) -> Numbered:
    broker = simulated_broker()
    (converse,) = (each for each in CONVERSATIONS_OF_CONSUMER_GROUPS if each.__name__ == STORIES[group_id])
    converse(talk_to(broker))
    return written(broker, group_id)


@pytest.mark.spec("CO-05")
@pytest.mark.parametrize("group_id", STORIES)
def test_our_records_are_theirs(group_id: str) -> None:
    assert in_batches(ours(group_id)) == in_batches(theirs(group_id))
