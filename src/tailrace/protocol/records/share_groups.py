"""Share groups."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Record, Struct
from tailrace.protocol.schema import INT8, INT32, INT64, STRING, UUID, array_of, field


class ShareGroupMetadataKey(Record, key=11, versions="0"):
    group_id: str = field(STRING, "0")


class ShareGroupMetadataValue(Record, key=11, versions="0", flexible="0+"):
    epoch: int = field(INT32)
    metadata_hash: int = field(INT64)


class ShareGroupMemberMetadataKey(Record, key=10, versions="0"):
    group_id: str = field(STRING, "0")
    member_id: str = field(STRING, "0")


class ShareGroupMemberMetadataValue(Record, key=10, versions="0", flexible="0+"):
    rack_id: str | None = field(STRING, nullable="0+")
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    subscribed_topic_names: list[str] = field(array_of(STRING))


class ShareGroupTargetAssignmentMetadataKey(Record, key=12, versions="0"):
    group_id: str = field(STRING, "0")


class ShareGroupTargetAssignmentMetadataValue(Record, key=12, versions="0", flexible="0+"):
    assignment_epoch: int = field(INT32)
    assignment_timestamp: int = field(INT64, tag=0, ignorable=True)


class ShareGroupTargetAssignmentMemberKey(Record, key=13, versions="0"):
    group_id: str = field(STRING, "0")
    member_id: str = field(STRING, "0")


class TopicPartition(Struct):
    topic_id: bytes = field(UUID)
    partitions: list[int] = field(array_of(INT32))


class ShareGroupTargetAssignmentMemberValue(Record, key=13, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition] = field(array_of(TopicPartition))


class ShareGroupCurrentMemberAssignmentKey(Record, key=14, versions="0"):
    group_id: str = field(STRING, "0")
    member_id: str = field(STRING, "0")


class TopicPartitions(Struct):
    topic_id: bytes = field(UUID)
    partitions: list[int] = field(array_of(INT32))


class ShareGroupCurrentMemberAssignmentValue(Record, key=14, versions="0", flexible="0+"):
    member_epoch: int = field(INT32)
    previous_member_epoch: int = field(INT32)
    state: int = field(INT8)
    assigned_partitions: list[TopicPartitions] = field(array_of(TopicPartitions))


class ShareGroupStatePartitionMetadataKey(Record, key=15, versions="0"):
    group_id: str = field(STRING, "0")


class TopicPartitionsInfo(Struct):
    topic_id: bytes = field(UUID)
    topic_name: str = field(STRING)
    partitions: list[int] = field(array_of(INT32))


class TopicInfo(Struct):
    topic_id: bytes = field(UUID)
    topic_name: str = field(STRING)


class ShareGroupStatePartitionMetadataValue(Record, key=15, versions="0", flexible="0+"):
    initializing_topics: list[TopicPartitionsInfo] = field(array_of(TopicPartitionsInfo))
    initialized_topics: list[TopicPartitionsInfo] = field(array_of(TopicPartitionsInfo))
    deleting_topics: list[TopicInfo] = field(array_of(TopicInfo))
