"""What Kafka 4.3.1 has written to `__consumer_offsets` in the conversations: ours is the same, and theirs is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.conversations.simulated import simulated_broker, talk_to
from support.conversations.streams_groups import CONVERSATIONS_OF_STREAMS_GROUPS
from support.coordinators.group_records import decoded, encoded, in_batches, written
from support.coordinators.replica_pair import CoordinatorPair
from tailrace.coordinator.groups.shard import GroupShard
from tailrace.coordinator.records import GROUP_RECORDS
from tailrace.coordinator.streams.group import StreamsGroup
from tailrace.model.internal_topics import CONSUMER_OFFSETS

RECORDED = json.loads(
    (Path(__file__).parents[1] / "support" / "recorded" / "streams-group-records-4.3.1.json").read_text()
)
"""By group: number of the batch, key and value of each record."""
STORIES = {
    "streams-words": "word_count",
    "streams-fencing": "streams_fencing",
    "streams-other": "other_topologies",
    "streams-going": "topics_that_go",
    "streams-endpoints": "endpoints",
    "streams-after-classic": "other_kinds",
    "streams-fixed": "joined_topics",
    "streams-processes": "processes",
}
"""Groups whose tasks can be divided in one way only, with the conversation they are from."""
MEMBERS = {
    "streams-fencing": [],
    "streams-other": ["a", "b", "e"],
    "streams-going": ["a"],
    "streams-endpoints": ["a", "b"],
    "streams-fixed": ["b"],
    "streams-processes": ["2a", "2b"],
}
"""In the end, of those groups that are still there and of this kind."""


@pytest.mark.parametrize("group_id", RECORDED)
def test_their_records_are_read_to_the_last_byte(group_id: str) -> None:
    for (_, record), (_, key, value) in zip(decoded(RECORDED[group_id]), RECORDED[group_id], strict=True):
        assert encoded(record) == (key, value)


@pytest.mark.parametrize("group_id", RECORDED)
def test_their_records_are_replayed(group_id: str) -> None:
    pair: CoordinatorPair[GroupShard] = CoordinatorPair(CONSUMER_OFFSETS, GROUP_RECORDS, GroupShard, in_sync=(1,))
    machine = pair.leader.machine
    for offset, (_, record) in enumerate(decoded(RECORDED[group_id])):
        machine.replay(record, offset, None)
    group = machine.groups.get(group_id)
    assert isinstance(group, StreamsGroup) == (group_id in MEMBERS)
    if isinstance(group, StreamsGroup):
        assert sorted(group.members) == MEMBERS[group_id]
        assert group.topology is not None
        assert sorted(group.targets) == MEMBERS[group_id]


@pytest.mark.parametrize("group_id", STORIES)
def test_our_records_are_theirs(group_id: str) -> None:
    broker = simulated_broker()
    (converse,) = (each for each in CONVERSATIONS_OF_STREAMS_GROUPS if each.__name__ == STORIES[group_id])
    converse(talk_to(broker))
    ours, theirs = in_batches(written(broker, group_id)), in_batches(decoded(RECORDED[group_id]))
    # Targets of several members come in the order of a hash table.
    assert list(map(sorted, ours)) == list(map(sorted, theirs))
