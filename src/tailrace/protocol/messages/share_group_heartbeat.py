"""ShareGroupHeartbeat, api key 76."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, STRING, UUID, array_of, field


class ShareGroupHeartbeatRequest(Request, key=76, versions="1", flexible="0+"):
    group_id: str = field(STRING)
    member_id: str = field(STRING)
    member_epoch: int = field(INT32)
    rack_id: str | None = field(STRING, nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = field(array_of(STRING), nullable="0+", default=None)


class TopicPartitions(Struct):
    topic_id: bytes = field(UUID)
    partitions: list[int] = field(array_of(INT32))


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = field(array_of(TopicPartitions))


class ShareGroupHeartbeatResponse(Response, key=76, versions="1", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)
    member_id: str | None = field(STRING, nullable="0+", default=None)
    member_epoch: int = field(INT32)
    heartbeat_interval_ms: int = field(INT32)
    assignment: Assignment | None = field(Assignment, nullable="0+", default=None)
