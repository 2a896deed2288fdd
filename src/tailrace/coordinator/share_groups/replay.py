"""What the records of share groups say, put into the groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tailrace.coordinator.consumer.partitions import partitions_of
from tailrace.coordinator.outcome import CoordinatorRecord
from tailrace.coordinator.share_groups.group import ShareGroup
from tailrace.coordinator.share_groups.member import ShareMember
from tailrace.coordinator.share_groups.topics import SharedTopics
from tailrace.protocol.message import Record
from tailrace.protocol.records.share_groups import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)

if TYPE_CHECKING:
    from tailrace.coordinator.groups.shard import GroupShard, Replayer


class ShareReplay:
    """A tombstone of what was never there is fine: a group's records may have lost their beginning."""

    def __init__(self, groups: GroupShard) -> None:
        self._groups = groups

    def replayers(self) -> Mapping[type[Record], Replayer]:
        return {
            ShareGroupMetadataKey: self._epoch,
            ShareGroupMemberMetadataKey: self._member,
            ShareGroupTargetAssignmentMetadataKey: self._target_epoch,
            ShareGroupTargetAssignmentMemberKey: self._target,
            ShareGroupCurrentMemberAssignmentKey: self._assignment,
            ShareGroupStatePartitionMetadataKey: self._topics,
        }

    def _group(self, group_id: str, *, is_tombstone: bool) -> ShareGroup | None:
        """Made by any record but a tombstone. A group of another kind is what later records say: this one is older."""
        group = self._groups.groups.get(group_id)
        if isinstance(group, ShareGroup):
            return group
        if is_tombstone or (group is not None and not group.is_empty):
            return None
        made = self._groups.groups[group_id] = ShareGroup(group_id)
        return made

    def _epoch(self, record: CoordinatorRecord, offset: int) -> None:
        key, value = record.key, record.value
        assert isinstance(key, ShareGroupMetadataKey)
        group = self._group(key.group_id, is_tombstone=value is None)
        if group is None:
            return
        if isinstance(value, ShareGroupMetadataValue):
            group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        else:
            del self._groups.groups[key.group_id]

    def _member(self, record: CoordinatorRecord, offset: int) -> None:
        key, value = record.key, record.value
        assert isinstance(key, ShareGroupMemberMetadataKey)
        group = self._group(key.group_id, is_tombstone=value is None)
        if group is None:
            return
        if isinstance(value, ShareGroupMemberMetadataValue):
            group.put_member(group.members.get(key.member_id, ShareMember(key.member_id)).subscribed(value))
        else:
            group.remove_member(key.member_id)

    def _target_epoch(self, record: CoordinatorRecord, offset: int) -> None:
        key, value = record.key, record.value
        assert isinstance(key, ShareGroupTargetAssignmentMetadataKey)
        group = self._group(key.group_id, is_tombstone=value is None)
        if group is None:
            return
        if isinstance(value, ShareGroupTargetAssignmentMetadataValue):
            group.assignment_epoch = value.assignment_epoch
            group.assignment_timestamp_ms = value.assignment_timestamp
        else:
            group.assignment_epoch, group.assignment_timestamp_ms = -1, 0

    def _target(self, record: CoordinatorRecord, offset: int) -> None:
        key, value = record.key, record.value
        assert isinstance(key, ShareGroupTargetAssignmentMemberKey)
        group = self._group(key.group_id, is_tombstone=value is None)
        if group is None:
            return
        if isinstance(value, ShareGroupTargetAssignmentMemberValue):
            group.targets[key.member_id] = partitions_of(
                (each.topic_id, each.partitions) for each in value.topic_partitions
            )
        else:
            group.targets.pop(key.member_id, None)

    def _assignment(self, record: CoordinatorRecord, offset: int) -> None:
        key, value = record.key, record.value
        assert isinstance(key, ShareGroupCurrentMemberAssignmentKey)
        group = self._group(key.group_id, is_tombstone=value is None)
        if group is None:
            return
        member = group.members.get(key.member_id)
        if isinstance(value, ShareGroupCurrentMemberAssignmentValue):
            group.put_member((member or ShareMember(key.member_id)).given(value))
        elif member is not None:
            group.put_member(member.without_assignment())

    def _topics(self, record: CoordinatorRecord, offset: int) -> None:
        key, value = record.key, record.value
        assert isinstance(key, ShareGroupStatePartitionMetadataKey)
        group = self._group(key.group_id, is_tombstone=value is None)
        if group is None:
            return
        if isinstance(value, ShareGroupStatePartitionMetadataValue):
            group.topics = SharedTopics.of(value, self._groups.shard.clock.now_ms())
        else:
            group.topics = SharedTopics()
