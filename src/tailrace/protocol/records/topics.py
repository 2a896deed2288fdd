"""Topics and partitions."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Record
from tailrace.protocol.schema import INT8, INT32, STRING, UUID, array_of, field


class TopicRecord(Record, key=2, versions="0", flexible="0+"):
    name: str = field(STRING)
    topic_id: bytes = field(UUID)


class RemoveTopicRecord(Record, key=9, versions="0", flexible="0+"):
    topic_id: bytes = field(UUID)


class PartitionRecord(Record, key=3, versions="0-2", flexible="0+"):
    partition_id: int = field(INT32, default=-1)
    topic_id: bytes = field(UUID)
    replicas: list[int] = field(array_of(INT32))
    isr: list[int] = field(array_of(INT32))
    removing_replicas: list[int] = field(array_of(INT32))
    adding_replicas: list[int] = field(array_of(INT32))
    leader: int = field(INT32, default=-1)
    leader_recovery_state: int = field(INT8, tag=0)
    leader_epoch: int = field(INT32, default=-1)
    partition_epoch: int = field(INT32, default=-1)
    directories: list[bytes] = field(array_of(UUID), "1+")
    eligible_leader_replicas: list[int] | None = field(array_of(INT32), "2+", nullable="2+", default=None, tag=1)
    last_known_elr: list[int] | None = field(array_of(INT32), "2+", nullable="2+", default=None, tag=2)


class PartitionChangeRecord(Record, key=5, versions="0-2", flexible="0+"):
    partition_id: int = field(INT32, default=-1)
    topic_id: bytes = field(UUID)
    isr: list[int] | None = field(array_of(INT32), nullable="0+", default=None, tag=0)
    leader: int = field(INT32, default=-2, tag=1)
    replicas: list[int] | None = field(array_of(INT32), nullable="0+", default=None, tag=2)
    removing_replicas: list[int] | None = field(array_of(INT32), nullable="0+", default=None, tag=3)
    adding_replicas: list[int] | None = field(array_of(INT32), nullable="0+", default=None, tag=4)
    leader_recovery_state: int = field(INT8, default=-1, tag=5)
    directories: list[bytes] | None = field(array_of(UUID), "1+", nullable="1+", default=None, tag=8)
    eligible_leader_replicas: list[int] | None = field(array_of(INT32), "2+", nullable="2+", default=None, tag=6)
    last_known_elr: list[int] | None = field(array_of(INT32), "2+", nullable="2+", default=None, tag=7)


class ClearElrRecord(Record, key=28, versions="0", flexible="0+"):
    topic_name: str = field(STRING)
