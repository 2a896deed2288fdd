"""ConsumerGroupDescribe, api key 69."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BOOL, INT8, INT16, INT32, STRING, UUID, array_of, field


class ConsumerGroupDescribeRequest(Request, key=69, versions="0-1", flexible="0+"):
    group_ids: list[str] = field(array_of(STRING))
    include_authorized_operations: bool = field(BOOL)


class TopicPartitions(Struct):
    topic_id: bytes = field(UUID)
    topic_name: str = field(STRING)
    partitions: list[int] = field(array_of(INT32))


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = field(array_of(TopicPartitions))


class Member(Struct):
    member_id: str = field(STRING)
    instance_id: str | None = field(STRING, nullable="0+", default=None)
    rack_id: str | None = field(STRING, nullable="0+", default=None)
    member_epoch: int = field(INT32)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    subscribed_topic_names: list[str] = field(array_of(STRING))
    subscribed_topic_regex: str | None = field(STRING, nullable="0+", default=None)
    assignment: Assignment = field(Assignment)
    target_assignment: Assignment = field(Assignment)
    member_type: int = field(INT8, "1+", default=-1, ignorable=True)


class DescribedGroup(Struct):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)
    group_id: str = field(STRING)
    group_state: str = field(STRING)
    group_epoch: int = field(INT32)
    assignment_epoch: int = field(INT32)
    assignor_name: str = field(STRING)
    members: list[Member] = field(array_of(Member))
    authorized_operations: int = field(INT32, default=-2147483648)


class ConsumerGroupDescribeResponse(Response, key=69, versions="0-1", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    groups: list[DescribedGroup] = field(array_of(DescribedGroup))
