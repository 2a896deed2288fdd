"""The records of streams groups, in the versions that Kafka 4.3.1 writes.

Lists are sorted: the same state, the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

from tailrace.coordinator.outcome import CoordinatorRecord
from tailrace.coordinator.streams.member import StreamsMember
from tailrace.coordinator.streams.tasks import OwnedTasks, Tasks, TaskSet
from tailrace.protocol.records.streams_groups import (
    Endpoint,
    KeyValue,
    LastAssignmentConfig,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from tailrace.protocol.records.streams_groups import (
    StreamsGroupCurrentMemberAssignmentValueTaskIds as CurrentTaskIds,
)
from tailrace.protocol.records.streams_groups import (
    StreamsGroupTargetAssignmentMemberValueTaskIds as TargetTaskIds,
)


def member_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    endpoint = member.endpoint
    value = StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=key, value=text) for key, text in sorted(member.client_tags.items())],
    )
    return CoordinatorRecord(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.id), value)


def member_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def epoch_record(
    group_id: str, epoch: int, metadata_hash: int, validated_topology_epoch: int, settings: Mapping[str, str]
) -> CoordinatorRecord:
    value = StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_topology_epoch,
        last_assignment_configs=[LastAssignmentConfig(key=key, value=text) for key, text in sorted(settings.items())],
    )
    return CoordinatorRecord(StreamsGroupMetadataKey(group_id=group_id), value)


def epoch_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(StreamsGroupMetadataKey(group_id=group_id), None)


def topology_record(group_id: str, value: StreamsGroupTopologyValue) -> CoordinatorRecord:
    return CoordinatorRecord(StreamsGroupTopologyKey(group_id=group_id), value)


def topology_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(StreamsGroupTopologyKey(group_id=group_id), None)


def target_record(group_id: str, member_id: str, tasks: TaskSet) -> CoordinatorRecord:
    value = StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_target_ids(tasks.active),
        standby_tasks=_target_ids(tasks.standby),
        warmup_tasks=_target_ids(tasks.warmup),
    )
    return CoordinatorRecord(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def target_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    value = StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return CoordinatorRecord(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_epoch_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def assignment_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    owned, revoked = member.owned, member.revoked
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state.value,
        active_tasks=_owned_ids(owned.active),
        standby_tasks=_copied_ids(owned.standby),
        warmup_tasks=_copied_ids(owned.warmup),
        active_tasks_pending_revocation=_owned_ids(revoked.active),
        standby_tasks_pending_revocation=_copied_ids(revoked.standby),
        warmup_tasks_pending_revocation=_copied_ids(revoked.warmup),
    )
    return CoordinatorRecord(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.id), value)


def assignment_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """A member's end: its assignment first, so that what is half replayed never shows an owner that is no member."""
    return [
        assignment_tombstone(group_id, member_id),
        target_tombstone(group_id, member_id),
        member_tombstone(group_id, member_id),
    ]


def _target_ids(tasks: Tasks) -> list[TargetTaskIds]:
    return [TargetTaskIds(subtopology_id=key, partitions=sorted(indexes)) for key, indexes in sorted(tasks.items())]


def _copied_ids(tasks: Tasks) -> list[CurrentTaskIds]:
    return [CurrentTaskIds(subtopology_id=key, partitions=sorted(indexes)) for key, indexes in sorted(tasks.items())]


def _owned_ids(tasks: OwnedTasks) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(
            subtopology_id=key, partitions=sorted(since), assignment_epochs=[since[index] for index in sorted(since)]
        )
        for key, since in sorted(tasks.items())
    ]
