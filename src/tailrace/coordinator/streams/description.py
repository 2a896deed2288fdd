"""A streams group as StreamsGroupDescribe shows it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tailrace.coordinator.streams.configured import ConfiguredTopology, InternalTopic
from tailrace.coordinator.streams.group import StreamsGroup
from tailrace.coordinator.streams.member import StreamsMember
from tailrace.coordinator.streams.tasks import NOTHING_ASSIGNED, OwnedTaskSet, TaskSet
from tailrace.coordinator.streams.topology import Topology as HeldTopology
from tailrace.protocol.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tailrace.protocol.records import streams_groups as stored


def described(group: StreamsGroup) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
        members=[_member(member, group.targets.get(member.id, NOTHING_ASSIGNED)) for member in group.members.values()],
    )


def _topology(group: StreamsGroup) -> Topology | None:
    """With the numbers of partitions that were found for it, if all topics are there."""
    if group.configured is not None and group.configured.is_ready:
        return _configured(group.configured)
    return None if group.topology is None else _as_stored(group.topology)


def _configured(topology: ConfiguredTopology) -> Topology:
    rows = [
        Subtopology(
            subtopology_id=key,
            source_topics=list(each.source_topics),
            repartition_sink_topics=list(each.repartition_sinks),
            state_changelog_topics=_internal(each.changelogs),
            repartition_source_topics=_internal(each.repartition_sources),
        )
        for key, each in topology.subtopologies.items()
    ]
    return Topology(epoch=topology.epoch, subtopologies=rows)


def _internal(topics: Iterable[InternalTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=_pairs(topic.configs),
        )
        for topic in topics
    ]


def _as_stored(topology: HeldTopology) -> Topology:
    rows = [
        Subtopology(
            subtopology_id=key,
            source_topics=sorted(each.source_topics),
            repartition_sink_topics=sorted(each.repartition_sink_topics),
            state_changelog_topics=_stored(each.state_changelog_topics),
            repartition_source_topics=_stored(each.repartition_source_topics),
        )
        for key, each in topology.subtopologies.items()
    ]
    return Topology(epoch=topology.epoch, subtopologies=rows)


def _stored(topics: list[stored.TopicInfo]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[KeyValue(key=each.key, value=each.value) for each in topic.topic_configs],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _member(member: StreamsMember, target: TaskSet) -> Member:
    endpoint = member.endpoint
    return Member(
        member_id=member.id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=_pairs(member.client_tags),
        assignment=_assignment(member.owned),
        target_assignment=_assignment(target),
    )


def _pairs(texts: Mapping[str, str]) -> list[KeyValue]:
    return [KeyValue(key=key, value=value) for key, value in sorted(texts.items())]


def _assignment(tasks: TaskSet | OwnedTaskSet) -> Assignment:
    return Assignment(
        active_tasks=_task_ids(tasks.active),
        standby_tasks=_task_ids(tasks.standby),
        warmup_tasks=_task_ids(tasks.warmup),
    )


def _task_ids(tasks: Mapping[str, Collection[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=key, partitions=sorted(indexes)) for key, indexes in sorted(tasks.items())]
