"""What consumers of the classic protocol tell each other through the coordinator."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Record, Struct
from tailrace.protocol.schema import INT32, STRING, VIEW, Payload, array_of, field


class ConsumerProtocolSubscriptionTopicPartition(Struct):
    topic: str = field(STRING, "1+")
    partitions: list[int] = field(array_of(INT32), "1+")


class ConsumerProtocolSubscription(Record, versions="0-3"):
    topics: list[str] = field(array_of(STRING))
    user_data: Payload = field(VIEW, nullable="0+", default=None)
    owned_partitions: list[ConsumerProtocolSubscriptionTopicPartition] = field(
        array_of(ConsumerProtocolSubscriptionTopicPartition), "1+", ignorable=True
    )
    generation_id: int = field(INT32, "2+", default=-1, ignorable=True)
    rack_id: str | None = field(STRING, "3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignmentTopicPartition(Struct):
    topic: str = field(STRING)
    partitions: list[int] = field(array_of(INT32))


class ConsumerProtocolAssignment(Record, versions="0-3"):
    assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition] = field(
        array_of(ConsumerProtocolAssignmentTopicPartition)
    )
    user_data: Payload = field(VIEW, nullable="0+", default=None)
