"""A consumer group as ConsumerGroupDescribe shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tailrace.coordinator.consumer.group import ConsumerGroup
from tailrace.coordinator.consumer.member import ConsumerMember
from tailrace.coordinator.consumer.partitions import NO_PARTITIONS, Partitions
from tailrace.metadata.image import MetadataImage
from tailrace.protocol.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def described(group: ConsumerGroup, default_assignor: str, image: MetadataImage) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor() or default_assignor,
        members=[
            _member(member, group.targets.get(member.id, NO_PARTITIONS), image) for member in group.members.values()
        ],
    )


def _member(member: ConsumerMember, target: Partitions, image: MetadataImage) -> Member:
    held: dict[bytes, set[int]] = {}
    for partitions in (member.owned, member.revoked):  # it answers for the latter until it has given them up
        for topic_id, indexes in partitions.items():
            held.setdefault(topic_id, set()).update(indexes)
    return Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.pattern,
        assignment=_assignment(held, image),
        target_assignment=_assignment(target, image),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )


def _assignment(partitions: Mapping[bytes, Iterable[int]], image: MetadataImage) -> Assignment:
    """Topics that are gone have no name and are left out."""
    found = ((image.topic_by_id(topic_id), indexes) for topic_id, indexes in partitions.items())
    rows = [
        TopicPartitions(topic_id=topic.id, topic_name=topic.name, partitions=sorted(indexes))
        for topic, indexes in found
        if topic is not None
    ]
    return Assignment(topic_partitions=sorted(rows, key=lambda row: row.topic_name))
