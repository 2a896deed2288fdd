"""Setting and deleting how far a share group has come: the group coordinator's part.

Both take two steps: the group notes what is to happen, the share coordinator does it, and the group notes that it has
happened. A crash between them leaves a note; the same request again finishes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tailrace.coordinator.consumer.partitions import Partitions
from tailrace.coordinator.outcome import Outcome
from tailrace.coordinator.share_groups import records
from tailrace.coordinator.share_groups.group import ShareGroup
from tailrace.coordinator.share_groups.manager import Initialization, ShareGroups
from tailrace.coordinator.share_groups.topics import SharedTopic
from tailrace.model.errors import UnknownTopicOrPartitionError
from tailrace.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from tailrace.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponseTopic

_NO_OFFSETS: Final = "the group has no offsets in this topic"


class Alteration(NamedTuple):
    response: AlterShareGroupOffsetsResponse
    initialization: Initialization


class Deletion(NamedTuple):
    """`refused` are topics that have nothing to delete."""

    partitions: Partitions
    refused: list[DeleteShareGroupOffsetsResponseTopic]


def initialized_partitions(share: ShareGroups, group_id: str) -> dict[bytes, frozenset[int]]:
    group = share.shard_groups.get(group_id)
    return group.topics.assignable() if isinstance(group, ShareGroup) else {}


def alter(share: ShareGroups, request: AlterShareGroupOffsetsRequest) -> Outcome:
    """NonEmptyGroupError; a group that is not there comes into being. Gives an Alteration."""
    group = share.find_or_new(request.group_id)
    group.check_delete()
    image, now_ms = share.shard.image, share.shard.clock.now_ms()
    starts: dict[bytes, dict[int, int]] = {}
    noted: dict[bytes, SharedTopic] = {}
    rows: list[AlterShareGroupOffsetsResponseTopic] = []
    for wanted in request.topics:
        topic = image.topics.get(wanted.topic_name)
        row = AlterShareGroupOffsetsResponseTopic(topic_name=wanted.topic_name)
        if topic is not None or wanted.partitions:
            rows.append(row)
        if topic is not None:
            row.topic_id = topic.id
        for part in wanted.partitions:
            answer = AlterShareGroupOffsetsResponsePartition(partition_index=part.partition_index)
            row.partitions.append(answer)
            if topic is None or part.partition_index not in topic.partitions:
                answer.error_code = UnknownTopicOrPartitionError.code
                answer.error_message = UnknownTopicOrPartitionError.hint
            else:
                starts.setdefault(topic.id, {})[part.partition_index] = part.start_offset
        if topic is not None:
            noted[topic.id] = SharedTopic(topic.name, frozenset(starts.get(topic.id, ())), now_ms)
    news = [records.topics_record(group.group_id, group.topics.initialize(noted))] if noted else []
    response = AlterShareGroupOffsetsResponse(responses=rows)
    return Outcome(news, Alteration(response, Initialization(group.group_id, group.epoch, starts)))


def begin_deletion(share: ShareGroups, group_id: str, topic_names: list[str]) -> Outcome:
    """GroupIdNotFoundError, NonEmptyGroupError. Gives a Deletion."""
    group = share.find(group_id)
    group.check_delete()
    image = share.shard.image
    partitions: dict[bytes, frozenset[int]] = {}
    deleting: dict[bytes, str] = {}
    refused: list[DeleteShareGroupOffsetsResponseTopic] = []
    for name in topic_names:
        topic = image.topics.get(name)
        known = None if topic is None else group.topics.initialized.get(topic.id)
        if topic is not None and known is not None:
            partitions[topic.id] = known.partitions
            deleting[topic.id] = name
        elif topic is not None and topic.id in group.topics.deleting:
            partitions[topic.id] = frozenset(topic.partitions)
        else:
            text = UnknownTopicOrPartitionError.hint if topic is None else _NO_OFFSETS
            refused.append(
                DeleteShareGroupOffsetsResponseTopic(
                    topic_name=name, error_code=UnknownTopicOrPartitionError.code, error_message=text
                )
            )
    news = [records.topics_record(group_id, group.topics.begin_deletion(deleting))] if deleting else []
    return Outcome(news, Deletion(partitions, refused))


def end_deletion(share: ShareGroups, group_id: str, topics: Mapping[bytes, str]) -> Outcome:
    group = share.find(group_id)
    left = group.topics.deletion_ended(topics)
    return Outcome([records.topics_record(group_id, left)] if left != group.topics else (), True)


def begin_group_deletion(share: ShareGroups, group_id: str) -> Outcome:
    """GroupIdNotFoundError, NonEmptyGroupError. Gives the partitions of which the share coordinator may know something.

    They are noted as being deleted: if that ends half way, a group that is read again makes their states anew.
    """
    group = share.find(group_id)
    group.check_delete()
    partitions: dict[bytes, frozenset[int]] = {
        topic_id: topic.partitions for topic_id, topic in group.topics.all_known().items()
    }
    for topic_id in group.topics.deleting:
        topic = share.shard.image.topic_by_id(topic_id)
        if topic is not None:
            partitions[topic_id] = frozenset(topic.partitions)
    left = group.topics.all_in_deletion()
    return Outcome([records.topics_record(group_id, left)] if left != group.topics else (), partitions)
