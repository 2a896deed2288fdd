"""A share group: its members, which of them may read which partitions, and the partitions that have a state.

Several members may read one partition, so nobody waits for anybody: a member has its target with the next heartbeat.
The group keeps no offsets of its own; how far it has come is known to the share coordinator.

Changed only by replay, through `ShareGroups`.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar, Final

from tailrace.coordinator.consumer.partitions import Partitions
from tailrace.coordinator.groups.group import CommitCheck, Group, GroupKind
from tailrace.coordinator.outcome import CoordinatorRecord
from tailrace.coordinator.share_groups import records
from tailrace.coordinator.share_groups.member import ShareMember
from tailrace.coordinator.share_groups.topics import SharedTopics
from tailrace.metadata.image import MetadataImage
from tailrace.model.errors import GroupIdNotFoundError, NonEmptyGroupError, UnknownMemberIdError

SHARE_PROTOCOL: Final = "share"


class ShareGroup(Group):
    kind: ClassVar[GroupKind] = GroupKind.SHARE

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 1
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, Partitions] = {}
        """By member id."""
        self.topics = SharedTopics()
        self._subscribers: Counter[str] = Counter()
        """Members by the topics that they name."""
        self._fresh_at_epoch = -1
        """The metadata was looked at for this epoch; not written down: a new coordinator looks at once."""

    @property
    def protocol_type(self) -> str:
        return SHARE_PROTOCOL

    @property
    def state_name(self) -> str:
        return "Stable" if self.members else "Empty"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self._subscribers

    def expires_from(self, commit_timestamp_ms: int) -> int | None:
        return None

    def member(self, member_id: str) -> ShareMember:
        found = self.members.get(member_id)
        if found is None:
            raise UnknownMemberIdError(f"{member_id!r} is not a member of group {self.group_id}")
        return found

    def subscribed_topics(self, old: ShareMember | None = None, new: ShareMember | None = None) -> set[str]:
        """Of all members, once `new` is in the place of `old`."""
        counts = Counter(self._subscribers)
        counts.subtract(old.topics if old is not None else ())
        counts.update(new.topics if new is not None else ())
        return {topic for topic, count in counts.items() if count > 0}

    def lacks_partitions(self, image: MetadataImage) -> bool:
        """Some partition has a state and is assigned to nobody who could read it."""
        given: dict[bytes, set[int]] = {}
        for target in self.targets.values():
            for topic_id, indexes in target.items():
                given.setdefault(topic_id, set()).update(indexes)
        return any(
            topic.name in self._subscribers and given.get(topic_id, set()) != topic.partitions
            for topic_id, topic in self.topics.initialized.items()
            if image.topic_by_id(topic_id) is not None
        )

    # Freshness of the metadata hash

    @property
    def is_stale(self) -> bool:
        return self._fresh_at_epoch < 0 or self.epoch < self._fresh_at_epoch

    def keep_fresh(self, epoch: int) -> None:
        self._fresh_at_epoch = epoch

    def make_stale(self) -> None:
        self._fresh_at_epoch = -1

    # Offsets are not kept here

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, is_transactional: bool, api_version: int
    ) -> CommitCheck | None:
        raise self._no_consumer_group()

    def check_fetch(self, member_id: str | None, epoch: int, api_version: int) -> None:
        raise self._no_consumer_group()

    def check_offset_delete(self) -> None:
        raise self._no_consumer_group()

    def _no_consumer_group(self) -> GroupIdNotFoundError:
        return GroupIdNotFoundError(f"group {self.group_id} is a share group: it commits no offsets")

    def check_delete(self) -> None:
        if self.members:
            raise NonEmptyGroupError(f"group {self.group_id} has {len(self.members)} members")

    def tombstones(self) -> list[CoordinatorRecord]:
        members = [record for each in self.members for record in records.member_tombstones(self.group_id, each)]
        return [*members, *records.group_tombstones(self.group_id)]

    # Replay

    def put_member(self, member: ShareMember) -> None:
        self._count(self.members.get(member.id), -1)
        self.members[member.id] = member
        self._count(member, 1)

    def remove_member(self, member_id: str) -> None:
        self._count(self.members.pop(member_id, None), -1)

    def _count(self, member: ShareMember | None, by: int) -> None:
        for topic in member.topics if member is not None else ():
            self._subscribers[topic] += by
            if not self._subscribers[topic]:
                del self._subscribers[topic]
