"""StreamsGroupHeartbeat, api key 88."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BOOL, INT8, INT16, INT32, INT64, STRING, UINT16, array_of, field


class KeyValue(Struct):
    key: str = field(STRING)
    value: str = field(STRING)


class TopicInfo(Struct):
    name: str = field(STRING)
    partitions: int = field(INT32)
    replication_factor: int = field(INT16)
    topic_configs: list[KeyValue] = field(array_of(KeyValue))


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


class Topology(Struct):
    epoch: int = field(INT32)
    subtopologies: list[Subtopology] = field(array_of(Subtopology))


class RequestTaskIds(Struct):
    subtopology_id: str = field(STRING)
    partitions: list[int] = field(array_of(INT32))


class RequestEndpoint(Struct):
    host: str = field(STRING)
    port: int = field(UINT16)


class TaskOffset(Struct):
    subtopology_id: str = field(STRING)
    partition: int = field(INT32)
    offset: int = field(INT64)


class StreamsGroupHeartbeatRequest(Request, key=88, versions="0", flexible="0+"):
    group_id: str = field(STRING)
    member_id: str = field(STRING)
    member_epoch: int = field(INT32)
    endpoint_information_epoch: int = field(INT32)
    instance_id: str | None = field(STRING, nullable="0+", default=None)
    rack_id: str | None = field(STRING, nullable="0+", default=None)
    rebalance_timeout_ms: int = field(INT32, default=-1)
    topology: Topology | None = field(Topology, nullable="0+", default=None)
    active_tasks: list[RequestTaskIds] | None = field(array_of(RequestTaskIds), nullable="0+", default=None)
    standby_tasks: list[RequestTaskIds] | None = field(array_of(RequestTaskIds), nullable="0+", default=None)
    warmup_tasks: list[RequestTaskIds] | None = field(array_of(RequestTaskIds), nullable="0+", default=None)
    process_id: str | None = field(STRING, nullable="0+", default=None)
    user_endpoint: RequestEndpoint | None = field(RequestEndpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] | None = field(array_of(KeyValue), nullable="0+", default=None)
    task_offsets: list[TaskOffset] | None = field(array_of(TaskOffset), nullable="0+", default=None)
    task_end_offsets: list[TaskOffset] | None = field(array_of(TaskOffset), nullable="0+", default=None)
    shutdown_application: bool = field(BOOL)


class Status(Struct):
    status_code: int = field(INT8)
    status_detail: str = field(STRING)


class ResponseTaskIds(Struct):
    subtopology_id: str = field(STRING)
    partitions: list[int] = field(array_of(INT32))


class ResponseEndpoint(Struct):
    host: str = field(STRING)
    port: int = field(UINT16)


class TopicPartition(Struct):
    topic: str = field(STRING)
    partitions: list[int] = field(array_of(INT32))


class EndpointToPartitions(Struct):
    user_endpoint: ResponseEndpoint = field(ResponseEndpoint)
    active_partitions: list[TopicPartition] = field(array_of(TopicPartition))
    standby_partitions: list[TopicPartition] = field(array_of(TopicPartition))


class StreamsGroupHeartbeatResponse(Response, key=88, versions="0", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)
    member_id: str = field(STRING)
    member_epoch: int = field(INT32)
    heartbeat_interval_ms: int = field(INT32)
    acceptable_recovery_lag: int = field(INT32)
    task_offset_interval_ms: int = field(INT32)
    status: list[Status] | None = field(array_of(Status), nullable="0+")
    active_tasks: list[ResponseTaskIds] | None = field(array_of(ResponseTaskIds), nullable="0+", default=None)
    standby_tasks: list[ResponseTaskIds] | None = field(array_of(ResponseTaskIds), nullable="0+", default=None)
    warmup_tasks: list[ResponseTaskIds] | None = field(array_of(ResponseTaskIds), nullable="0+", default=None)
    endpoint_information_epoch: int = field(INT32)
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field(
        array_of(EndpointToPartitions), nullable="0+", default=None
    )
