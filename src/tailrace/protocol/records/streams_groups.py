"""Streams groups."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Record, Struct
from tailrace.protocol.schema import INT8, INT16, INT32, INT64, STRING, UINT16, array_of, field


class StreamsGroupMetadataKey(Record, key=17, versions="0"):
    group_id: str = field(STRING, "0")


class LastAssignmentConfig(Struct):
    key: str = field(STRING)
    value: str = field(STRING)


class StreamsGroupMetadataValue(Record, key=17, versions="0", flexible="0+"):
    epoch: int = field(INT32)
    metadata_hash: int = field(INT64)
    validated_topology_epoch: int = field(INT32, default=-1, tag=0)
    last_assignment_configs: list[LastAssignmentConfig] | None = field(
        array_of(LastAssignmentConfig), nullable="0+", default=None, tag=1
    )


class StreamsGroupMemberMetadataKey(Record, key=19, versions="0"):
    group_id: str = field(STRING, "0")
    member_id: str = field(STRING, "0")


class Endpoint(Struct):
    host: str = field(STRING)
    port: int = field(UINT16)


class KeyValue(Struct):
    key: str = field(STRING)
    value: str = field(STRING)


class StreamsGroupMemberMetadataValue(Record, key=19, versions="0", flexible="0+"):
    instance_id: str | None = field(STRING, nullable="0+")
    rack_id: str | None = field(STRING, nullable="0+")
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    rebalance_timeout_ms: int = field(INT32, default=-1)
    topology_epoch: int = field(INT32)
    process_id: str = field(STRING)
    user_endpoint: Endpoint | None = field(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = field(array_of(KeyValue))


class StreamsGroupTargetAssignmentMetadataKey(Record, key=20, versions="0"):
    group_id: str = field(STRING, "0")


class StreamsGroupTargetAssignmentMetadataValue(Record, key=20, versions="0", flexible="0+"):
    assignment_epoch: int = field(INT32)
    assignment_timestamp: int = field(INT64, tag=0, ignorable=True)


class StreamsGroupTargetAssignmentMemberKey(Record, key=21, versions="0"):
    group_id: str = field(STRING, "0")
    member_id: str = field(STRING, "0")


class StreamsGroupTargetAssignmentMemberValueTaskIds(Struct):
    subtopology_id: str = field(STRING)
    partitions: list[int] = field(array_of(INT32))


class StreamsGroupTargetAssignmentMemberValue(Record, key=21, versions="0", flexible="0+"):
    active_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds] = field(
        array_of(StreamsGroupTargetAssignmentMemberValueTaskIds)
    )
    standby_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds] = field(
        array_of(StreamsGroupTargetAssignmentMemberValueTaskIds)
    )
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds] = field(
        array_of(StreamsGroupTargetAssignmentMemberValueTaskIds)
    )


class StreamsGroupCurrentMemberAssignmentKey(Record, key=22, versions="0"):
    group_id: str = field(STRING, "0")
    member_id: str = field(STRING, "0")


class StreamsGroupCurrentMemberAssignmentValueTaskIds(Struct):
    subtopology_id: str = field(STRING)
    partitions: list[int] = field(array_of(INT32))
    assignment_epochs: list[int] | None = field(array_of(INT32), nullable="0+", default=None, tag=0)


class StreamsGroupCurrentMemberAssignmentValue(Record, key=22, versions="0", flexible="0+"):
    member_epoch: int = field(INT32)
    previous_member_epoch: int = field(INT32)
    state: int = field(INT8)
    active_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field(
        array_of(StreamsGroupCurrentMemberAssignmentValueTaskIds)
    )
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field(
        array_of(StreamsGroupCurrentMemberAssignmentValueTaskIds)
    )
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field(
        array_of(StreamsGroupCurrentMemberAssignmentValueTaskIds)
    )
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field(
        array_of(StreamsGroupCurrentMemberAssignmentValueTaskIds)
    )
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field(
        array_of(StreamsGroupCurrentMemberAssignmentValueTaskIds)
    )
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field(
        array_of(StreamsGroupCurrentMemberAssignmentValueTaskIds)
    )


class StreamsGroupTopologyKey(Record, key=23, versions="0"):
    group_id: str = field(STRING, "0")


class TopicConfig(Struct):
    key: str = field(STRING)
    value: str = field(STRING)


class TopicInfo(Struct):
    name: str = field(STRING)
    partitions: int = field(INT32)
    replication_factor: int = field(INT16)
    topic_configs: list[TopicConfig] = field(array_of(TopicConfig))


class CopartitionGroup(Struct):
    source_topics: list[int] = field(array_of(INT16))
    source_topic_regex: list[int] = field(array_of(INT16))
    repartition_source_topics: list[int] = field(array_of(INT16))


class Subtopology(Struct):
    subtopology_id: str = field(STRING)
    source_topics: list[str] = field(array_of(STRING))
    source_topic_regex: list[str] = field(array_of(STRING))
    state_changelog_topics: list[TopicInfo] = field(array_of(TopicInfo))
    repartition_sink_topics: list[str] = field(array_of(STRING))
    repartition_source_topics: list[TopicInfo] = field(array_of(TopicInfo))
    copartition_groups: list[CopartitionGroup] = field(array_of(CopartitionGroup))


class StreamsGroupTopologyValue(Record, key=23, versions="0", flexible="0+"):
    epoch: int = field(INT32)
    subtopologies: list[Subtopology] = field(array_of(Subtopology))
