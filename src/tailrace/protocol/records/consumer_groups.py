"""Groups of the consumer protocol."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Record, Struct
from tailrace.protocol.schema import BYTES, INT8, INT32, INT64, STRING, UUID, array_of, field


class ConsumerGroupMetadataKey(Record, key=3, versions="0"):
    group_id: str = field(STRING, "0")


class ConsumerGroupMetadataValue(Record, key=3, versions="0", flexible="0+"):
    epoch: int = field(INT32)
    metadata_hash: int = field(INT64, tag=0)


class ConsumerGroupPartitionMetadataKey(Record, key=4, versions="0"):
    group_id: str = field(STRING, "0")


class PartitionMetadata(Struct):
    partition: int = field(INT32)
    racks: list[str] = field(array_of(STRING))


class TopicMetadata(Struct):
    topic_id: bytes = field(UUID)
    topic_name: str = field(STRING)
    num_partitions: int = field(INT32)
    partition_metadata: list[PartitionMetadata] = field(array_of(PartitionMetadata))


class ConsumerGroupPartitionMetadataValue(Record, key=4, versions="0", flexible="0+"):
    topics: list[TopicMetadata] = field(array_of(TopicMetadata))


class ConsumerGroupMemberMetadataKey(Record, key=5, versions="0"):
    group_id: str = field(STRING, "0")
    member_id: str = field(STRING, "0")


class ClassicProtocol(Struct):
    name: str = field(STRING)
    metadata: bytes = field(BYTES)


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = field(INT32)
    supported_protocols: list[ClassicProtocol] = field(array_of(ClassicProtocol))


class ConsumerGroupMemberMetadataValue(Record, key=5, versions="0", flexible="0+"):
    instance_id: str | None = field(STRING, nullable="0+")
    rack_id: str | None = field(STRING, nullable="0+")
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    subscribed_topic_names: list[str] = field(array_of(STRING))
    subscribed_topic_regex: str | None = field(STRING, nullable="0+")
    rebalance_timeout_ms: int = field(INT32, default=-1)
    server_assignor: str | None = field(STRING, nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = field(
        ClassicMemberMetadata, nullable="0+", default=None, tag=0
    )


class ConsumerGroupTargetAssignmentMetadataKey(Record, key=6, versions="0"):
    group_id: str = field(STRING, "0")


class ConsumerGroupTargetAssignmentMetadataValue(Record, key=6, versions="0", flexible="0+"):
    assignment_epoch: int = field(INT32)
    assignment_timestamp: int = field(INT64, tag=0, ignorable=True)


class ConsumerGroupTargetAssignmentMemberKey(Record, key=7, versions="0"):
    group_id: str = field(STRING, "0")
    member_id: str = field(STRING, "0")


class TopicPartition(Struct):
    topic_id: bytes = field(UUID)
    partitions: list[int] = field(array_of(INT32))


class ConsumerGroupTargetAssignmentMemberValue(Record, key=7, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition] = field(array_of(TopicPartition))


class ConsumerGroupCurrentMemberAssignmentKey(Record, key=8, versions="0"):
    group_id: str = field(STRING, "0")
    member_id: str = field(STRING, "0")


class TopicPartitions(Struct):
    topic_id: bytes = field(UUID)
    partitions: list[int] = field(array_of(INT32))
    assignment_epochs: list[int] | None = field(array_of(INT32), nullable="0+", default=None, tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(Record, key=8, versions="0", flexible="0+"):
    member_epoch: int = field(INT32)
    previous_member_epoch: int = field(INT32)
    state: int = field(INT8)
    assigned_partitions: list[TopicPartitions] = field(array_of(TopicPartitions))
    partitions_pending_revocation: list[TopicPartitions] = field(array_of(TopicPartitions))


class ConsumerGroupRegularExpressionKey(Record, key=16, versions="0"):
    group_id: str = field(STRING, "0")
    regular_expression: str = field(STRING, "0")


class ConsumerGroupRegularExpressionValue(Record, key=16, versions="0", flexible="0+"):
    topics: list[str] = field(array_of(STRING))
    version: int = field(INT64)
    timestamp: int = field(INT64)
