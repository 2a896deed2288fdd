"""A member of a share group, as the records about it say. Values are immutable: a change makes a new one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from tailrace.coordinator.consumer.partitions import NO_PARTITIONS, Partitions, partitions_of
from tailrace.protocol.records.share_groups import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
)

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class ShareMember:
    id: str
    epoch: int = 0
    previous_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    assigned: Partitions = field(default_factory=lambda: NO_PARTITIONS)

    def subscribed(self, value: ShareGroupMemberMetadataValue) -> ShareMember:
        return replace(
            self,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
        )

    def given(self, value: ShareGroupCurrentMemberAssignmentValue) -> ShareMember:
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned=partitions_of((each.topic_id, each.partitions) for each in value.assigned_partitions),
        )

    def without_assignment(self) -> ShareMember:
        """Its assignment has gone from the log; its subscription may follow."""
        return replace(self, epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH, assigned=NO_PARTITIONS)
