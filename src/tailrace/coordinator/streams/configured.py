"""A topology held against the topics that are there: can it run, with how many tasks, and what is missing.

It is made anew from topology and metadata whenever one of them has changed, and kept nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tailrace.coordinator.streams.partition_counts import (
    CountOf,
    WronglyPartitionedError,
    decided_counts,
    shown_topics,
)
from tailrace.coordinator.streams.status import Status, StatusCode
from tailrace.coordinator.streams.topology import UNDECIDED, Topology, sources_of
from tailrace.model.errors import StreamsInvalidTopologyError
from tailrace.protocol.records.streams_groups import Subtopology, TopicInfo

MOST_TASKS: Final = 200_000
"""Of one application. A member that has more would not fit into a record."""


class InternalTopic(NamedTuple):
    """One of the application's own, as it is to be."""

    name: str
    partitions: int
    replication_factor: int
    """0: as the broker has it by default."""
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    task_count: int
    source_topics: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelogs)

    @property
    def sources(self) -> list[str]:
        return [*self.source_topics, *(topic.name for topic in self.repartition_sources)]


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] = field(default_factory=dict)
    """By id, in order; none when topics of others are missing or do not go together."""
    missing: tuple[InternalTopic, ...] = ()
    """What has to be made."""
    problem: Status | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


def configured(topology: Topology, existing: CountOf) -> ConfiguredTopology:
    """Raises StreamsInvalidTopologyError."""
    absent = {
        topic for each in topology.subtopologies.values() for topic in each.source_topics if existing(topic) is None
    }
    if absent:
        detail = f"source topics are missing: {shown_topics(absent)}"
        return ConfiguredTopology(topology.epoch, problem=Status(StatusCode.MISSING_SOURCE_TOPICS, detail))
    try:
        counts = decided_counts(topology, existing)
        subtopologies = {
            key: _configured(each, counts, existing) for key, each in sorted(topology.subtopologies.items())
        }
        _check_size(subtopologies)
        missing = _missing(subtopologies, existing)
    except WronglyPartitionedError as error:
        return ConfiguredTopology(topology.epoch, problem=error.status)
    problem = None
    if missing:
        detail = f"internal topics are missing: {shown_topics(topic.name for topic in missing)}"
        problem = Status(StatusCode.MISSING_INTERNAL_TOPICS, detail)
    return ConfiguredTopology(topology.epoch, subtopologies, missing, problem)


def _check_size(subtopologies: Mapping[str, ConfiguredSubtopology]) -> None:
    count = sum(each.task_count for each in subtopologies.values())
    if count > MOST_TASKS:
        raise StreamsInvalidTopologyError(f"the topology has {count} tasks, and more than {MOST_TASKS} are not served")


def _configured(subtopology: Subtopology, counts: Mapping[str, int], existing: CountOf) -> ConfiguredSubtopology:
    widths = (existing(topic) or counts[topic] for topic in sources_of(subtopology))
    return ConfiguredSubtopology(
        task_count=max(widths),
        source_topics=tuple(sorted(subtopology.source_topics)),
        repartition_sources=_internal(subtopology.repartition_source_topics, counts),
        repartition_sinks=tuple(sorted(subtopology.repartition_sink_topics)),
        changelogs=_internal(subtopology.state_changelog_topics, counts),
    )


def _internal(topics: list[TopicInfo], counts: Mapping[str, int]) -> tuple[InternalTopic, ...]:
    return tuple(
        InternalTopic(
            each.name,
            counts[each.name] if each.partitions == UNDECIDED else each.partitions,
            each.replication_factor,
            {config.key: config.value for config in each.topic_configs},
        )
        for each in sorted(topics, key=lambda topic: topic.name)
    )


def _missing(subtopologies: Mapping[str, ConfiguredSubtopology], existing: CountOf) -> tuple[InternalTopic, ...]:
    wanted = {
        topic.name: topic for each in subtopologies.values() for topic in (*each.repartition_sources, *each.changelogs)
    }
    for topic in wanted.values():
        present = existing(topic.name)
        if present is not None and present != topic.partitions:
            raise WronglyPartitionedError(
                f"topic {topic.name} has {present} partitions, and {topic.partitions} are expected"
            )
    return tuple(topic for topic in wanted.values() if existing(topic.name) is None)
