"""A member of a consumer group, as the records about it say.

Values are immutable: a change makes a new one. Its epoch is that of the target assignment which it has reached; it has
accepted an epoch when it has given up everything that the epoch takes from it.

    STABLE                 owns its target
    UNREVOKED_PARTITIONS   must give up partitions before it may reach the next epoch
    UNRELEASED_PARTITIONS  has reached the epoch, and waits for partitions that others have not given up yet
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

from tailrace.coordinator.consumer.partitions import NO_OWNED, OwnedPartitions
from tailrace.protocol.records.consumer_groups import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
AWAY_EPOCH: Final = -2
"""Of a static member that has left and is expected back before its session ends."""


class MemberState(IntEnum):
    """As records number them."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def of(cls, number: int) -> MemberState:
        return _STATES.get(number, MemberState.UNKNOWN)


_STATES: Final[Mapping[int, MemberState]] = {state.value: state for state in MemberState}


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    """The names that it is subscribed to."""
    pattern: str | None = ""
    """The regular expression of the topics that it is subscribed to; none when empty."""
    assignor: str | None = None
    """The assignor that it would have the group use."""
    owned: OwnedPartitions = field(default_factory=lambda: NO_OWNED)
    revoked: OwnedPartitions = field(default_factory=lambda: NO_OWNED)
    """What it has to give up, and has not given up yet."""
    classic: ClassicMemberMetadata | None = None
    """Set for one that uses the classic protocol."""

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def moved_to(
        self, epoch: int, state: MemberState, owned: OwnedPartitions, revoked: OwnedPartitions = NO_OWNED
    ) -> ConsumerMember:
        return replace(self, epoch=epoch, previous_epoch=self.epoch, state=state, owned=owned, revoked=revoked)

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            pattern=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            owned=_owned(value.assigned_partitions, value.member_epoch),
            revoked=_owned(value.partitions_pending_revocation, value.member_epoch),
        )

    def without_assignment(self) -> ConsumerMember:
        return replace(self, epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH, owned=NO_OWNED, revoked=NO_OWNED)


def _owned(topics: list[TopicPartitions], member_epoch: int) -> OwnedPartitions:
    """Records of Kafka before 4.3 do not say since when a partition is owned."""
    owned: dict[bytes, Mapping[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is not None and len(epochs) == len(topic.partitions):
            owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
        else:
            owned[topic.topic_id] = dict.fromkeys(topic.partitions, max(member_epoch, 0))
    return owned
