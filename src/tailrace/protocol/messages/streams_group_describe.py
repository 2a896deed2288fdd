"""StreamsGroupDescribe, api key 89."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BOOL, INT16, INT32, INT64, STRING, UINT16, array_of, field


class StreamsGroupDescribeRequest(Request, key=89, versions="0", flexible="0+"):
    group_ids: list[str] = field(array_of(STRING))
    include_authorized_operations: bool = field(BOOL)


class KeyValue(Struct):
    key: str = field(STRING)
    value: str = field(STRING)


class TopicInfo(Struct):
    name: str = field(STRING)
    partitions: int = field(INT32)
    replication_factor: int = field(INT16)
    topic_configs: list[KeyValue] = field(array_of(KeyValue))


class Subtopology(Struct):
    subtopology_id: str = field(STRING)
    source_topics: list[str] = field(array_of(STRING))
    repartition_sink_topics: list[str] = field(array_of(STRING))
    state_changelog_topics: list[TopicInfo] = field(array_of(TopicInfo))
    repartition_source_topics: list[TopicInfo] = field(array_of(TopicInfo))


class Topology(Struct):
    epoch: int = field(INT32)
    subtopologies: list[Subtopology] | None = field(array_of(Subtopology), nullable="0+", default=None)


class Endpoint(Struct):
    host: str = field(STRING)
    port: int = field(UINT16)


class TaskOffset(Struct):
    subtopology_id: str = field(STRING)
    partition: int = field(INT32)
    offset: int = field(INT64)


class TaskIds(Struct):
    subtopology_id: str = field(STRING)
    partitions: list[int] = field(array_of(INT32))


class Assignment(Struct):
    active_tasks: list[TaskIds] = field(array_of(TaskIds))
    standby_tasks: list[TaskIds] = field(array_of(TaskIds))
    warmup_tasks: list[TaskIds] = field(array_of(TaskIds))


class Member(Struct):
    member_id: str = field(STRING)
    member_epoch: int = field(INT32)
    instance_id: str | None = field(STRING, nullable="0+", default=None)
    rack_id: str | None = field(STRING, nullable="0+", default=None)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    topology_epoch: int = field(INT32)
    process_id: str = field(STRING)
    user_endpoint: Endpoint | None = field(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = field(array_of(KeyValue))
    task_offsets: list[TaskOffset] = field(array_of(TaskOffset))
    task_end_offsets: list[TaskOffset] = field(array_of(TaskOffset))
    assignment: Assignment = field(Assignment)
    target_assignment: Assignment = field(Assignment)
    is_classic: bool = field(BOOL)


class DescribedGroup(Struct):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)
    group_id: str = field(STRING)
    group_state: str = field(STRING)
    group_epoch: int = field(INT32)
    assignment_epoch: int = field(INT32)
    topology: Topology | None = field(Topology, nullable="0+", default=None)
    members: list[Member] = field(array_of(Member))
    authorized_operations: int = field(INT32, default=-2147483648)


class StreamsGroupDescribeResponse(Response, key=89, versions="0", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    groups: list[DescribedGroup] = field(array_of(DescribedGroup))
