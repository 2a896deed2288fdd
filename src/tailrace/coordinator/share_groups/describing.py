"""A share group as ShareGroupDescribe shows it."""

from __future__ import annotations

from typing import Final

from tailrace.coordinator.share_groups.group import ShareGroup
from tailrace.coordinator.share_groups.member import ShareMember
from tailrace.metadata.image import MetadataImage
from tailrace.protocol.messages.share_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

ASSIGNOR: Final = "simple"


def described(group: ShareGroup, image: MetadataImage) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_member(member, image) for member in group.members.values()],
    )


def _member(member: ShareMember, image: MetadataImage) -> Member:
    """Topics that are gone have no name to show."""
    assigned = [
        TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(indexes))
        for topic_id, indexes in sorted(member.assigned.items())
        if (topic := image.topic_by_id(topic_id)) is not None
    ]
    return Member(
        member_id=member.id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=Assignment(topic_partitions=assigned),
    )
