"""The assignment that all members are to reach, made anew."""

from __future__ import annotations

from collections.abc import Iterable

from tailrace.coordinator.consumer import records
from tailrace.coordinator.consumer.assignors.spec import Assignor, GroupSpec, MemberSpec
from tailrace.coordinator.consumer.group import ConsumerGroup
from tailrace.coordinator.consumer.member import ConsumerMember
from tailrace.coordinator.consumer.partitions import NO_PARTITIONS, Partitions
from tailrace.coordinator.consumer.subscriptions import Subscriptions
from tailrace.coordinator.outcome import CoordinatorRecord
from tailrace.metadata.image import MetadataImage


def new_targets(
    group: ConsumerGroup,
    updated: ConsumerMember,
    subscriptions: Subscriptions,
    assignor: Assignor,
    image: MetadataImage,
) -> dict[str, Partitions]:
    """For the group with `updated` in it: new, changed, or in the place of a static member that has left."""
    replaced = group.static_members.get(updated.instance_id) if updated.instance_id is not None else None
    topics = _TopicIds(image)
    members: dict[str, MemberSpec] = {}
    for member in _with(group, updated, replaced):
        target_of = replaced if member is updated and replaced is not None else member.id
        members[member.id] = MemberSpec(
            member.instance_id,
            topics.of(subscriptions.topics_of(member)),
            group.targets.get(target_of, NO_PARTITIONS),
        )
    is_uniform = subscriptions.is_the_same_for_all(len(members))
    return assignor(GroupSpec(members, topics.partition_counts, is_uniform))


def target_records(
    group: ConsumerGroup, targets: dict[str, Partitions], epoch: int, now_ms: int
) -> list[CoordinatorRecord]:
    """Of those members whose target is another now."""
    changed = [
        records.target_record(group.group_id, member_id, target)
        for member_id, target in targets.items()
        if group.targets.get(member_id) != target
    ]
    return [*changed, records.target_epoch_record(group.group_id, epoch, now_ms)]


def _with(group: ConsumerGroup, updated: ConsumerMember, replaced: str | None) -> Iterable[ConsumerMember]:
    """In the place of the one that it replaces, or at the end."""
    place = updated.id if updated.id in group.members else replaced
    for member in group.members.values():
        if member.id == place:
            yield updated
        elif member.id != replaced:
            yield member
    if place is None:
        yield updated


class _TopicIds:
    """Ids of topics by their names; most members of a group have the same subscription."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._known: dict[frozenset[str], frozenset[bytes]] = {}
        self.partition_counts: dict[bytes, int] = {}

    def of(self, names: frozenset[str]) -> frozenset[bytes]:
        known = self._known.get(names)
        if known is None:
            topics = [self._image.topics[name] for name in names if name in self._image.topics]
            for topic in topics:
                self.partition_counts[topic.id] = len(topic.partitions)
            known = self._known[names] = frozenset(topic.id for topic in topics)
        return known
