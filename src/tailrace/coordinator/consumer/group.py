"""A consumer group: its members, the assignment that they are to reach, and who owns which partition meanwhile.

The group's epoch rises with every change that asks for a new assignment; the assignment's epoch follows when it is
made; each member's epoch follows when it has given up what the assignment takes from it.

    Empty        no members
    Assigning    the assignment is older than the group
    Reconciling  some member has not reached the assignment
    Stable

Changed only by replay, through `ConsumerGroups`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable
from typing import ClassVar, Final

from tailrace.coordinator.consumer import records
from tailrace.coordinator.consumer.member import ConsumerMember, MemberState
from tailrace.coordinator.consumer.partitions import NO_PARTITIONS, OwnedPartitions, Partitions
from tailrace.coordinator.consumer.reconciliation import Target
from tailrace.coordinator.consumer.subscriptions import Subscriptions
from tailrace.coordinator.groups.group import CommitCheck, Group, GroupKind
from tailrace.coordinator.outcome import CoordinatorRecord
from tailrace.model.errors import (
    FencedInstanceIdError,
    IllegalGenerationError,
    NonEmptyGroupError,
    StaleMemberEpochError,
    TailraceError,
    UnknownMemberIdError,
    UnsupportedVersionError,
)

_log = logging.getLogger(__name__)

CONSUMER_PROTOCOL: Final = "consumer"
COMMITS_OF_MEMBERS_FROM: Final = 9
"""The first version of OffsetCommit that says STALE_MEMBER_EPOCH."""
NO_EPOCH: Final = -1


class ConsumerGroup(Group):
    kind: ClassVar[GroupKind] = GroupKind.CONSUMER

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 1
        self.assignment_timestamp_ms = 0
        """When the assignment was made; 0 when that is not known."""
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.targets: dict[str, Partitions] = {}
        """By member id."""
        self.subscriptions = Subscriptions()
        self.has_partition_metadata = False
        """The log has a record that Kafka before 4.1 wrote in place of the hash."""
        self.assignors: Counter[str] = Counter()
        """Members by the assignor that they ask for."""
        self.classic_member_count = 0
        self.classic_protocols: Counter[str] = Counter()
        """Members of the classic protocol, by the protocols that they support."""
        self._owner_epochs: dict[bytes, dict[int, int]] = {}
        """The member epoch of each partition's owner, given up ones included as long as their owner has them."""
        self._fresh_until_ms = 0
        self._fresh_at_epoch = 0

    # As others see it

    @property
    def protocol_type(self) -> str:
        return CONSUMER_PROTOCOL

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def is_subscribed_to(self, topic: str) -> bool:
        return self.subscriptions.has_topic(topic)

    def expires_from(self, commit_timestamp_ms: int) -> int | None:
        return commit_timestamp_ms

    def member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberIdError(f"{member_id!r} is not a member of group {self.group_id}")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members.get(member_id)

    def classic_member(self, member_id: str, instance_id: str | None) -> ConsumerMember:
        """Who sends a request of the classic protocol, by both its names."""
        if instance_id is None:
            return self.member(member_id)
        member = self.static_member(instance_id)
        if member is None:
            raise UnknownMemberIdError(f"instance {instance_id} is not a member of group {self.group_id}")
        self.check_instance(member, member_id)
        return member

    def check_instance(self, member: ConsumerMember, member_id: str) -> None:
        if member.id != member_id:
            raise FencedInstanceIdError(
                f"instance {member.instance_id} of group {self.group_id} is member {member.id}, not {member_id}"
            )

    def target_of(self, member_id: str, instance_id: str | None) -> Partitions:
        """A static member that takes another's place has that one's target."""
        if instance_id is not None:
            member_id = self.static_members.get(instance_id, "")
        return self.targets.get(member_id, NO_PARTITIONS)

    def target(self, member: ConsumerMember) -> Target:
        return Target(self.assignment_epoch, self.target_of(member.id, member.instance_id))

    def owner_epoch(self, topic_id: bytes, index: int) -> int:
        owners = self._owner_epochs.get(topic_id)
        return NO_EPOCH if owners is None else owners.get(index, NO_EPOCH)

    def is_owned(self, topic_id: bytes, index: int) -> bool:
        owners = self._owner_epochs.get(topic_id)
        return owners is not None and index in owners

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether some of its target is still held by another member."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        for topic_id, indexes in self.targets.get(member.id, NO_PARTITIONS).items():
            own = member.owned.get(topic_id, {})
            if any(index not in own and self.is_owned(topic_id, index) for index in indexes):
                return True
        return False

    def supports_protocols(self, protocol_type: str, names: Collection[str]) -> bool:
        """Whether a member of the classic protocol has one in common with all the others of that kind."""
        if protocol_type != CONSUMER_PROTOCOL:
            return False
        if self.is_empty:
            return bool(names)
        return any(self.classic_protocols[name] == self.classic_member_count for name in names)

    def all_classic_without(self, leaving: Iterable[ConsumerMember]) -> bool:
        """Whether only members of the classic protocol stay when these have gone; true also when nobody stays."""
        gone = list(leaving)
        classic = self.classic_member_count - sum(member.uses_classic_protocol for member in gone)
        return classic == len(self.members) - len(gone)

    def preferred_assignor(self, old: ConsumerMember | None = None, new: ConsumerMember | None = None) -> str | None:
        """The one that most members ask for, once `new` is in the place of `old`."""
        counts = Counter(self.assignors)
        if old is not None and old.assignor is not None:
            counts[old.assignor] -= 1
        if new is not None and new.assignor is not None:
            counts[new.assignor] += 1
        wanted = [(count, name) for name, count in counts.items() if count > 0]
        return max(wanted)[1] if wanted else None

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
        if not is_transactional and not member.uses_classic_protocol and api_version < COMMITS_OF_MEMBERS_FROM:
            raise UnsupportedVersionError(
                f"members of the consumer protocol commit with version {COMMITS_OF_MEMBERS_FROM} and later"
            )
        if epoch == member.epoch:
            return None
        if epoch > member.epoch:
            raise _stale(member, f"epoch {epoch} of member {member_id} is ahead of {member.epoch}")
        return _owned_since(member, epoch)

    def check_fetch(self, member_id: str | None, epoch: int, api_version: int) -> None:
        if member_id is None and epoch < 0:
            return
        member = self.member(member_id or "")
        if epoch != member.epoch:
            raise _stale(member, f"member {member_id} is in epoch {member.epoch}, not {epoch}")

    def check_offset_delete(self) -> None:
        pass

    def check_delete(self) -> None:
        if self.members:
            raise NonEmptyGroupError(f"group {self.group_id} has {len(self.members)} members")

    def tombstones(self) -> list[CoordinatorRecord]:
        return self.tombstones_for(self.members)

    def tombstones_for(self, member_ids: Collection[str]) -> list[CoordinatorRecord]:
        """What deletes the group when its members are these."""
        group_id = self.group_id
        return [
            *(records.assignment_tombstone(group_id, member_id) for member_id in member_ids),
            *(records.target_tombstone(group_id, member_id) for member_id in member_ids),
            records.target_epoch_tombstone(group_id),
            *(records.member_tombstone(group_id, member_id) for member_id in member_ids),
            *(records.pattern_tombstone(group_id, pattern) for pattern in self.subscriptions.resolved),
            records.partition_metadata_tombstone(group_id),
            records.epoch_tombstone(group_id),
        ]

    # Replay

    def put_member(self, member: ConsumerMember) -> None:
        old = self.members.get(member.id)
        self.members[member.id] = member
        self._replace(old, member)
        if old is not None and old.instance_id != member.instance_id:
            self._free_instance(old)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.id

    def remove_member(self, member_id: str) -> None:
        old = self.members.pop(member_id, None)
        if old is None:
            return
        self._replace(old, None)
        self._free_instance(old)

    def _free_instance(self, member: ConsumerMember) -> None:
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.id:
            del self.static_members[member.instance_id]

    def _replace(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        self.subscriptions.replace_member(old, new)
        if old is not None:
            self._forget_owner(old, old.owned)
            self._forget_owner(old, old.revoked)
            self._count(old, -1)
        if new is not None:
            self._note_owner(new, new.owned)
            self._note_owner(new, new.revoked)
            self._count(new, 1)

    def _count(self, member: ConsumerMember, by: int) -> None:
        if member.assignor is not None:
            _add(self.assignors, member.assignor, by)
        if member.classic is not None:
            self.classic_member_count += by
            for protocol in member.classic.supported_protocols:
                _add(self.classic_protocols, protocol.name, by)

    def _forget_owner(self, member: ConsumerMember, partitions: OwnedPartitions) -> None:
        for topic_id, indexes in partitions.items():
            owners = self._owner_epochs.get(topic_id)
            if owners is None:
                continue
            for index in indexes:
                # A cleaned log may tell of the next owner first: it has the later epoch.
                if owners.get(index) == member.epoch:
                    del owners[index]
            if not owners:
                del self._owner_epochs[topic_id]

    def _note_owner(self, member: ConsumerMember, partitions: OwnedPartitions) -> None:
        for topic_id, indexes in partitions.items():
            if not indexes:
                continue
            owners = self._owner_epochs.setdefault(topic_id, {})
            for index in indexes:
                before = owners.get(index)
                if before is None or before < member.epoch:
                    owners[index] = member.epoch
                else:
                    _log.warning(
                        "partition %d of a topic of group %s is owned in epoch %d and by %s in %d",
                        index, self.group_id, before, member.id, member.epoch,
                    )  # fmt: skip


def _add(counts: Counter[str], name: str, by: int) -> None:
    """Names that nobody has any more are forgotten: strangers choose them."""
    counts[name] += by
    if counts[name] <= 0:
        del counts[name]


def _stale(member: ConsumerMember, message: str) -> TailraceError:
    return IllegalGenerationError(message) if member.uses_classic_protocol else StaleMemberEpochError(message)


def _owned_since(member: ConsumerMember, epoch: int) -> CommitCheck:
    """A member that has not yet heard of its newest epoch may commit what it has owned since its older one."""

    def check(topic: str, topic_id: bytes, index: int) -> None:
        since = member.owned.get(topic_id, {}).get(index)
        if since is None:
            since = member.revoked.get(topic_id, {}).get(index)
        if since is None:
            raise _stale(member, f"{topic}-{index} is not owned by member {member.id}")
        if epoch < since:
            raise _stale(member, f"{topic}-{index} is owned by member {member.id} since epoch {since}, not {epoch}")

    return check
