"""A streams group: its topology, its members, the assignment that they are to reach, and where each task is meanwhile.

The group's epoch rises with every change that asks for a new assignment; the assignment's epoch follows when it is
made; each member's epoch follows when it has given up what the assignment takes from it.

    Empty        no members
    NotReady     topics are missing, or do not go together: there are no tasks
    Assigning    the assignment is older than the group
    Reconciling  some member has not reached the assignment
    Stable

What records say is changed only by replay, through `StreamsGroups`. Beside it the group has a few things that a new
coordinator does without: the topology as it was held against the metadata, the epoch of what members know of each
other's endpoints, and who asked for the end of the application.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from tailrace.coordinator.consumer.group import COMMITS_OF_MEMBERS_FROM, NO_EPOCH
from tailrace.coordinator.groups.group import CommitCheck, Group, GroupKind
from tailrace.coordinator.outcome import CoordinatorRecord
from tailrace.coordinator.streams import records
from tailrace.coordinator.streams.configured import ConfiguredTopology
from tailrace.coordinator.streams.member import StreamsMember
from tailrace.coordinator.streams.owners import OwnerIndex
from tailrace.coordinator.streams.reconciliation import Target
from tailrace.coordinator.streams.tasks import NOTHING_ASSIGNED, TaskSet
from tailrace.coordinator.streams.topology import Topology
from tailrace.model.errors import (
    NonEmptyGroupError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnsupportedVersionError,
)

STREAMS_PROTOCOL: Final = "streams"


class StreamsGroup(Group):
    kind: ClassVar[GroupKind] = GroupKind.STREAMS

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.epoch = 1
        self.metadata_hash = 0
        self.validated_topology_epoch = 0
        """Of the topology whose topics were all there; −1 when some were not."""
        self.assignment_settings: Mapping[str, str] = {}
        """Those that the group's epoch was raised for last."""
        self.assignment_epoch = 1
        self.assignment_timestamp_ms = 0
        """When the assignment was made; 0 when that is not known."""
        self.topology: Topology | None = None
        self.members: dict[str, StreamsMember] = {}
        self.targets: dict[str, TaskSet] = {}
        """By member id."""
        self.owners = OwnerIndex()

        self.configured: ConfiguredTopology | None = None
        self.endpoint_epoch = 0
        """Rises whenever a member with an endpoint is told other tasks."""
        self.shutdown_requested_by: str | None = None
        self._fresh_until_ms = 0
        self._fresh_at_epoch = 0

    # As others see it

    @property
    def protocol_type(self) -> str:
        return STREAMS_PROTOCOL

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return "NotReady"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def is_subscribed_to(self, topic: str) -> bool:
        return bool(self.members) and self.topology is not None and topic in self.topology.subtopology_of

    def expires_from(self, commit_timestamp_ms: int) -> int | None:
        return commit_timestamp_ms

    def member(self, member_id: str) -> StreamsMember:
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberIdError(f"{member_id!r} is not a member of group {self.group_id}")
        return member

    def target(self, member_id: str) -> Target:
        return Target(self.assignment_epoch, self.targets.get(member_id, NOTHING_ASSIGNED))

    # Freshness of the metadata hash: not written down, so that a new coordinator looks at the metadata at once

    def is_stale(self, now_ms: int) -> bool:
        return now_ms >= self._fresh_until_ms or self.epoch < self._fresh_at_epoch

    def keep_fresh(self, until_ms: int, epoch: int) -> None:
        """The metadata was looked at for `epoch`, which counts only once the group has reached it."""
        self._fresh_until_ms = until_ms
        self._fresh_at_epoch = epoch

    def make_stale(self) -> None:
        self._fresh_until_ms = self._fresh_at_epoch = 0

    # Offsets

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, is_transactional: bool, api_version: int
    ) -> CommitCheck | None:
        if epoch < 0 and not self.members:
            return None
        if is_transactional and epoch == NO_EPOCH and not member_id and instance_id is None:
            return None
        member = self.member(member_id)
        if not is_transactional and api_version < COMMITS_OF_MEMBERS_FROM:
            raise UnsupportedVersionError(
                f"members of streams groups commit with version {COMMITS_OF_MEMBERS_FROM} and later"
            )
        if epoch == member.epoch:
            return None
        if epoch > member.epoch:
            raise StaleMemberEpochError(f"epoch {epoch} of member {member_id} is ahead of {member.epoch}")
        return self._owned_since(member, epoch)

    def _owned_since(self, member: StreamsMember, epoch: int) -> CommitCheck:
        """A member that has not yet heard of its newest epoch may commit for tasks that it has had since its older."""
        subtopology_of = {} if self.topology is None else self.topology.subtopology_of

        def check(topic: str, topic_id: bytes, index: int) -> None:
            subtopology = subtopology_of.get(topic)
            if subtopology is None:
                raise StaleMemberEpochError(f"{topic} is no source topic of group {self.group_id}")
            since = member.owned.active.get(subtopology, {}).get(index)
            if since is None:
                since = member.revoked.active.get(subtopology, {}).get(index)
            if since is None:
                raise StaleMemberEpochError(f"task {subtopology}_{index} is not one of member {member.id}")
            if epoch < since:
                raise StaleMemberEpochError(
                    f"task {subtopology}_{index} is one of member {member.id} since epoch {since}, not {epoch}"
                )

        return check

    def check_fetch(self, member_id: str | None, epoch: int, api_version: int) -> None:
        if member_id is None and epoch < 0:
            return
        member = self.member(member_id or "")
        if epoch != member.epoch:
            raise StaleMemberEpochError(f"member {member_id} is in epoch {member.epoch}, not {epoch}")

    def check_offset_delete(self) -> None:
        pass

    def check_delete(self) -> None:
        if self.members:
            raise NonEmptyGroupError(f"group {self.group_id} has {len(self.members)} members")

    def tombstones(self) -> list[CoordinatorRecord]:
        group_id = self.group_id
        return [
            *(records.assignment_tombstone(group_id, member_id) for member_id in self.members),
            *(records.target_tombstone(group_id, member_id) for member_id in self.members),
            records.target_epoch_tombstone(group_id),
            *(records.member_tombstone(group_id, member_id) for member_id in self.members),
            records.epoch_tombstone(group_id),
            records.topology_tombstone(group_id),
        ]

    # Replay

    def put_member(self, member: StreamsMember) -> None:
        self.owners.replace(self.members.get(member.id), member)
        self.members[member.id] = member

    def remove_member(self, member_id: str) -> None:
        self.owners.replace(self.members.pop(member_id, None), None)
        self.targets.pop(member_id, None)
        if not self.members:
            self.shutdown_requested_by = None
