"""Groups that change between the classic and the consumer protocol, with their members in them.

    upgrade     somebody joins a classic group of consumers with the consumer protocol. The members stay, with what they
                own, as members of the consumer group that use the classic protocol
    downgrade   the last member of the consumer protocol leaves, or a static one comes back with the classic protocol.
                Those that stay are balanced anew

`group.consumer.migration.policy` says which of them may happen. Either is one batch: tombstones of the old group, then
the new one's records.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from tailrace.coordinator.classic.group import ClassicGroup
from tailrace.coordinator.classic.member import NO_ASSIGNMENT, ClassicMember
from tailrace.coordinator.classic.records import group_record
from tailrace.coordinator.classic.state import ClassicState
from tailrace.coordinator.consumer import records
from tailrace.coordinator.consumer.embedded import (
    assignment_bytes,
    assignment_of,
    partitions_by_id,
    subscription_of,
    version_of,
)
from tailrace.coordinator.consumer.group import CONSUMER_PROTOCOL, ConsumerGroup
from tailrace.coordinator.consumer.member import ConsumerMember
from tailrace.coordinator.consumer.partitions import NO_PARTITIONS, Partitions, owned_since
from tailrace.coordinator.consumer.timeouts import Timeouts
from tailrace.coordinator.metadata_hash import MetadataHashes
from tailrace.coordinator.outcome import CoordinatorRecord
from tailrace.coordinator.shard import Shard
from tailrace.metadata.image import MetadataImage
from tailrace.model.errors import GroupIdNotFoundError, InvalidDataError
from tailrace.protocol.records.consumer_groups import ClassicMemberMetadata, ClassicProtocol

if TYPE_CHECKING:
    from tailrace.coordinator.classic.groups import ClassicGroups

_log = logging.getLogger(__name__)

UPGRADES: Final = ("upgrade", "bidirectional")
DOWNGRADES: Final = ("downgrade", "bidirectional")
DISABLED: Final = "disabled"


class Migration:
    def __init__(self, shard: Shard, classic: ClassicGroups, hashes: MetadataHashes, timeouts: Timeouts) -> None:
        self._shard = shard
        self._classic = classic
        self._hashes = hashes
        self._timeouts = timeouts

    @property
    def _policy(self) -> str:
        return self._shard.config.group_consumer_migration_policy.lower()

    @property
    def is_disabled(self) -> bool:
        return self._policy == DISABLED

    # Upgrade

    def upgrade(self, classic: ClassicGroup, written: list[CoordinatorRecord]) -> ConsumerGroup:
        """The consumer group that the classic one becomes when what is `written` is replayed."""
        self._check_upgrade(classic)
        try:
            group = self._consumer_group(classic)
        except InvalidDataError as error:
            raise GroupIdNotFoundError(
                f"classic group {classic.group_id} cannot be upgraded: its members cannot be understood: {error}"
            ) from None
        written += classic.tombstones()
        written += _all_records(group)
        for member in group.members.values():
            assert member.classic is not None
            self._timeouts.renew_session(group.group_id, member.id, member.classic.session_timeout_ms)
        _log.info("classic group %s becomes a consumer group", classic.group_id)
        return group

    def _check_upgrade(self, classic: ClassicGroup) -> None:
        name = f"classic group {classic.group_id}"
        if self._policy not in UPGRADES:
            raise GroupIdNotFoundError(f"{name} is not upgraded: group.consumer.migration.policy is {self._policy}")
        if not classic.is_of_consumers:
            raise GroupIdNotFoundError(f"{name} is not upgraded: its members are not consumers")
        if len(classic.members) > self._shard.config.group_consumer_max_size:
            raise GroupIdNotFoundError(f"{name} is not upgraded: it has more than group.consumer.max.size members")

    def _consumer_group(self, classic: ClassicGroup) -> ConsumerGroup:
        image = self._shard.image
        group = ConsumerGroup(classic.group_id)
        group.epoch = group.assignment_epoch = classic.generation
        protocol = _common_protocol(classic)
        for member in classic.members.values():
            owned = _assigned(classic.group_id, member, image)
            subscription = subscription_of(member.protocols[protocol])
            group.targets[member.member_id] = owned
            group.put_member(
                ConsumerMember(
                    member.member_id,
                    epoch=classic.generation,
                    previous_epoch=classic.generation,
                    instance_id=member.instance_id,
                    rack_id=subscription.rack_id or None,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    topics=frozenset(subscription.topics),
                    owned=owned_since(owned, classic.generation),
                    classic=ClassicMemberMetadata(
                        session_timeout_ms=member.session_timeout_ms,
                        supported_protocols=[
                            ClassicProtocol(name=name, metadata=bytes(metadata))
                            for name, metadata in member.protocols.items()
                        ],
                    ),
                )
            )
        group.metadata_hash = self._hashes.of(group.subscriptions.topics)
        return group

    # Downgrade

    def can_leave(self, group: ConsumerGroup, leaving: Collection[ConsumerMember]) -> bool:
        """Whether the group becomes a classic one when these leave."""
        staying = len(group.members) - len(leaving)
        return staying > 0 and group.all_classic_without(leaving) and self._may_downgrade(group, staying)

    def can_replace(self, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
        """Whether the group becomes a classic one when somebody of the classic protocol takes this one's place."""
        if replaced.uses_classic_protocol or not group.all_classic_without([replaced]):
            return False
        return self._may_downgrade(group, len(group.members))

    def _may_downgrade(self, group: ConsumerGroup, size: int) -> bool:
        if self._policy not in DOWNGRADES:
            _log.info("group %s stays a consumer group: group.consumer.migration.policy", group.group_id)
            return False
        if size > self._shard.config.group_max_size:
            _log.info("group %s stays a consumer group: group.max.size", group.group_id)
            return False
        return True

    def downgrade(
        self,
        group: ConsumerGroup,
        leaving: Collection[ConsumerMember],
        joining: ConsumerMember | None,
        written: list[CoordinatorRecord],
    ) -> ClassicGroup:
        """The classic group that this one becomes when what is `written` is replayed.

        `joining` is a static member of the classic protocol that takes another's place; the records that put it there
        are written already.
        """
        replaced = None if joining is None else group.static_member(joining.instance_id)
        gone = {member.id for member in leaving}
        if replaced is not None:
            gone.add(replaced.id)
        present = [member_id for member_id in group.members if replaced is None or member_id != replaced.id]
        staying = [member for member in group.members.values() if member.id not in gone]
        if joining is not None:
            present.append(joining.id)
            staying.append(joining)
        try:
            classic, assignments = self._classic_group(group, staying, joining, replaced)
        except InvalidDataError as error:
            raise GroupIdNotFoundError(
                f"consumer group {group.group_id} cannot be downgraded: its members cannot be understood: {error}"
            ) from None
        written += group.tombstones_for(present)
        written.append(group_record(classic, assignments))
        self._classic.expect(classic)
        _log.info("consumer group %s becomes a classic group", group.group_id)
        return classic

    def _classic_group(
        self,
        group: ConsumerGroup,
        members: Collection[ConsumerMember],
        joining: ConsumerMember | None,
        replaced: ConsumerMember | None,
    ) -> tuple[ClassicGroup, dict[str, bytes]]:
        classic = self._classic.new_group(group.group_id, ClassicState.STABLE)
        classic.generation = group.epoch
        for member in members:
            assert member.classic is not None
            classic.add(
                ClassicMember(
                    member.id,
                    instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.classic.session_timeout_ms,
                    protocol_type=CONSUMER_PROTOCOL,
                    protocols={each.name: each.metadata for each in member.classic.supported_protocols},
                )
            )
        classic.protocol_name = classic.elected_protocol()
        classic.subscribed_topics = classic.topics_of_members()
        assignments: dict[str, bytes] = {}
        for each in classic.members.values():
            takes_over = joining is not None and replaced is not None and each.member_id == joining.id
            target_of = replaced.id if takes_over and replaced is not None else each.member_id
            version = version_of(classic.metadata_of(each))
            target = group.targets.get(target_of, NO_PARTITIONS)
            each.assignment = assignments[each.member_id] = assignment_bytes(target, self._shard.image, version)
        return classic, assignments

    def stays(self, classic: ClassicGroup) -> bool:
        """Whether the records of a downgrade could not be written; they may be, and only be committed late."""
        return self._classic.unexpect(classic)

    def forget(self, group_id: str, member_ids: Iterable[str]) -> None:
        """It is a classic group now: the clocks of its members are others."""
        for member_id in member_ids:
            self._timeouts.forget(group_id, member_id)


def _common_protocol(classic: ClassicGroup) -> str:
    """That of its generation, unless somebody has come since who does not speak it."""
    name = classic.protocol_name
    if name is not None and all(name in member.protocols for member in classic.members.values()):
        return name
    return classic.elected_protocol()


def _assigned(group_id: str, member: ClassicMember, image: MetadataImage) -> Partitions:
    """What the leader gave to it; nothing as long as it has not asked."""
    if member.assignment == NO_ASSIGNMENT:
        return NO_PARTITIONS
    assignment = assignment_of(member.assignment)
    if assignment.user_data:
        raise GroupIdNotFoundError(
            f"classic group {group_id} is not upgraded: data that its assignor keeps would be lost"
        )
    return partitions_by_id(((each.topic, each.partitions) for each in assignment.assigned_partitions), image)


def _all_records(group: ConsumerGroup) -> list[CoordinatorRecord]:
    group_id, members = group.group_id, group.members.values()
    return [
        *(records.member_record(group_id, member) for member in members),
        records.epoch_record(group_id, group.epoch, group.metadata_hash),
        *(records.target_record(group_id, member.id, group.targets[member.id]) for member in members),
        records.target_epoch_record(group_id, group.assignment_epoch, group.assignment_timestamp_ms),
        *(records.assignment_record(group_id, member) for member in members),
    ]
