"""CreateTopics, api key 19."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BOOL, INT8, INT16, INT32, STRING, UUID, array_of, field


class CreatableReplicaAssignment(Struct):
    partition_index: int = field(INT32)
    broker_ids: list[int] = field(array_of(INT32))


class CreatableTopicConfig(Struct):
    name: str = field(STRING)
    value: str | None = field(STRING, nullable="0+")


class CreatableTopic(Struct):
    name: str = field(STRING)
    num_partitions: int = field(INT32)
    replication_factor: int = field(INT16)
    assignments: list[CreatableReplicaAssignment] = field(array_of(CreatableReplicaAssignment))
    configs: list[CreatableTopicConfig] = field(array_of(CreatableTopicConfig))


class CreateTopicsRequest(Request, key=19, versions="2-7", flexible="5+"):
    topics: list[CreatableTopic] = field(array_of(CreatableTopic))
    timeout_ms: int = field(INT32, default=60000)
    validate_only: bool = field(BOOL, "1+")


class CreatableTopicConfigs(Struct):
    name: str = field(STRING, "5+")
    value: str | None = field(STRING, "5+", nullable="5+")
    read_only: bool = field(BOOL, "5+")
    config_source: int = field(INT8, "5+", default=-1, ignorable=True)
    is_sensitive: bool = field(BOOL, "5+")


class CreatableTopicResult(Struct):
    name: str = field(STRING)
    topic_id: bytes = field(UUID, "7+", ignorable=True)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, "1+", nullable="0+", ignorable=True)
    topic_config_error_code: int = field(INT16, "5+", tag=0, ignorable=True)
    num_partitions: int = field(INT32, "5+", default=-1, ignorable=True)
    replication_factor: int = field(INT16, "5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field(
        array_of(CreatableTopicConfigs), "5+", nullable="5+", ignorable=True
    )


class CreateTopicsResponse(Response, key=19, versions="2-7", flexible="5+"):
    throttle_time_ms: int = field(INT32, "2+", ignorable=True)
    topics: list[CreatableTopicResult] = field(array_of(CreatableTopicResult))
