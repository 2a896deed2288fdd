"""What an application of Kafka Streams does: its subtopologies, and the topics between them.

A subtopology reads source topics, partition by partition, and may

    write to repartition topics, which another subtopology reads,
    keep state, whose changes are in changelog topics.

Repartition and changelog topics are the application's own: they are made for it. The first member that joins brings
the topology, and it stays as it is as long as the group exists.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tailrace.model.errors import StreamsInvalidTopologyError
from tailrace.protocol.messages import streams_group_heartbeat as message
from tailrace.protocol.records.streams_groups import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)

UNDECIDED: Final = 0
"""The partitions of a topic whose number follows from the topics that are there."""


class Topology:
    def __init__(self, value: StreamsGroupTopologyValue) -> None:
        self.value = value
        self.subtopologies = {each.subtopology_id: each for each in sorted(value.subtopologies, key=_id)}
        self.subtopology_of: dict[str, str] = {}
        """Ids of subtopologies, by the topics that they read."""
        for each in self.subtopologies.values():
            self.subtopology_of.update(dict.fromkeys(sources_of(each), each.subtopology_id))
        changelogs = (topic.name for each in self.subtopologies.values() for topic in each.state_changelog_topics)
        self.topics = frozenset(self.subtopology_of).union(changelogs)
        """All that have to be there before the application can run."""

    @property
    def epoch(self) -> int:
        return self.value.epoch

    def is_the_same_as(self, other: Topology) -> bool:
        """In whatever order the subtopologies are listed."""
        return self.epoch == other.epoch and self.subtopologies == other.subtopologies


def sources_of(subtopology: Subtopology) -> list[str]:
    """The topics that it reads: those of others, and its own repartition topics."""
    return [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]


def copartitioned_topics(subtopology: Subtopology) -> list[list[str]]:
    """Sources that are joined and so have to have the same number of partitions. Raises StreamsInvalidTopologyError."""
    repartitions = [topic.name for topic in subtopology.repartition_source_topics]
    return [
        [
            *_chosen(subtopology, subtopology.source_topics, group.source_topics),
            *_chosen(subtopology, repartitions, group.repartition_source_topics),
        ]
        for group in subtopology.copartition_groups
    ]


def _chosen(subtopology: Subtopology, names: list[str], places: Iterable[int]) -> list[str]:
    found = []
    for place in places:
        if not 0 <= place < len(names):
            raise StreamsInvalidTopologyError(
                f"subtopology {subtopology.subtopology_id} has a copartition group with source {place} of {len(names)}"
            )
        found.append(names[place])
    return found


def _id(subtopology: Subtopology) -> str:
    return subtopology.subtopology_id


# As a member brings it


def check_changelogs(topology: message.Topology) -> None:
    """Raises StreamsInvalidTopologyError for one that says how wide they are."""
    for each in topology.subtopologies:
        for topic in each.state_changelog_topics:
            if topic.partitions != UNDECIDED:
                raise StreamsInvalidTopologyError(
                    f"changelog topic {topic.name} must leave its partitions open, but has {topic.partitions}"
                )


def check_topology(topology: message.Topology) -> None:
    """Raises StreamsInvalidTopologyError for one that no application can have."""
    if topology.epoch < 0:
        raise StreamsInvalidTopologyError(f"the topology's epoch is {topology.epoch}")
    ids: set[str] = set()
    for each in topology.subtopologies:
        if each.subtopology_id in ids:
            raise StreamsInvalidTopologyError(f"there are two subtopologies {each.subtopology_id}")
        ids.add(each.subtopology_id)
        for topic in each.repartition_source_topics:
            if topic.partitions < 0:
                raise StreamsInvalidTopologyError(f"repartition topic {topic.name} has {topic.partitions} partitions")
        copartitioned_topics(_subtopology(each))


def topology_value(topology: message.Topology) -> StreamsGroupTopologyValue:
    """As it is kept."""
    return StreamsGroupTopologyValue(
        epoch=topology.epoch, subtopologies=[_subtopology(each) for each in topology.subtopologies]
    )


def all_topics(topology: message.Topology) -> list[str]:
    """That it names anywhere, each once."""
    named = (
        name
        for each in topology.subtopologies
        for name in (
            *each.source_topics,
            *each.repartition_sink_topics,
            *(topic.name for topic in each.repartition_source_topics),
            *(topic.name for topic in each.state_changelog_topics),
        )
    )
    return list(dict.fromkeys(named))


def _subtopology(said: message.Subtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=said.subtopology_id,
        source_topics=said.source_topics,
        source_topic_regex=said.source_topic_regex,
        state_changelog_topics=[_topic_info(each) for each in said.state_changelog_topics],
        repartition_sink_topics=said.repartition_sink_topics,
        repartition_source_topics=[_topic_info(each) for each in said.repartition_source_topics],
        copartition_groups=[
            CopartitionGroup(
                source_topics=each.source_topics,
                source_topic_regex=each.source_topic_regex,
                repartition_source_topics=each.repartition_source_topics,
            )
            for each in said.copartition_groups
        ],
    )


def _topic_info(said: message.TopicInfo) -> TopicInfo:
    return TopicInfo(
        name=said.name,
        partitions=said.partitions,
        replication_factor=said.replication_factor,
        topic_configs=[TopicConfig(key=each.key, value=each.value) for each in said.topic_configs],
    )
