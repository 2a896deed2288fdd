"""The consumer groups of a shard: their commands, and their records.

What a group is, is what its records say: commands read it and write records, and only their replay changes it. Beside
it there are clocks, patterns that are being resolved, and a note whether a group has seen the newest metadata; a
coordinator that takes over begins with none of them and loses nothing.

Who may call: the runtime and the handlers' commands, on the node's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from tailrace.coordinator.classic.caller import Caller
from tailrace.coordinator.classic.group import ClassicGroup
from tailrace.coordinator.consumer.balancing import Balancing
from tailrace.coordinator.consumer.classic_members import ClassicMembers
from tailrace.coordinator.consumer.departures import Departures
from tailrace.coordinator.consumer.description import described
from tailrace.coordinator.consumer.group import ConsumerGroup
from tailrace.coordinator.consumer.heartbeats import Heartbeats
from tailrace.coordinator.consumer.member import ConsumerMember
from tailrace.coordinator.consumer.migration import Migration
from tailrace.coordinator.consumer.partitions import partitions_of
from tailrace.coordinator.consumer.pattern_resolver import PatternResolver, Resolved
from tailrace.coordinator.consumer.subscriptions import ResolvedPattern
from tailrace.coordinator.consumer.timeouts import Timeouts
from tailrace.coordinator.groups.group import Group
from tailrace.coordinator.groups.persisted import persisted
from tailrace.coordinator.metadata_hash import MetadataHashes
from tailrace.coordinator.outcome import NOTHING, CoordinatorRecord, Outcome
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.model.errors import GroupIdNotFoundError, TailraceError
from tailrace.protocol.message import Record
from tailrace.protocol.messages.consumer_group_describe import DescribedGroup
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tailrace.protocol.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.messages.join_group import JoinGroupRequest
from tailrace.protocol.messages.leave_group import LeaveGroupRequest
from tailrace.protocol.messages.sync_group import SyncGroupRequest
from tailrace.protocol.records.consumer_groups import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)

if TYPE_CHECKING:
    from tailrace.coordinator.groups.shard import GroupShard, Replayer

_log = logging.getLogger(__name__)


class ConsumerGroups:
    def __init__(self, owner: GroupShard) -> None:
        self._shard = shard = owner.shard
        self._groups = owner.groups
        self._groups_of_topic: dict[str, set[str]] = {}
        """Ids of the groups that are subscribed to a topic."""
        self._is_loaded = False
        self._hashes = MetadataHashes(lambda: shard.image)
        self._timeouts = Timeouts(shard, self._expire)
        self._patterns = PatternResolver(shard, self._resolved)
        self._balancing = Balancing(shard, self._hashes, self._patterns)
        self._migration = Migration(shard, owner.classic, self._hashes, self._timeouts)
        self._departures = Departures(shard, self._balancing, self._migration, owner.classic.rebalances, self._timeouts)
        self._heartbeats = Heartbeats(shard, self._find_or_make, self._balancing, self._departures, self._timeouts)
        self._classic_members = ClassicMembers(
            shard, self._balancing, self._migration, self._departures, self._timeouts
        )

    # Commands

    def heartbeat(self, caller: Caller, request: ConsumerGroupHeartbeatRequest) -> Outcome:
        """Of a request that `check_request` has let through."""
        return self._heartbeats.heartbeat(caller, request)

    def join_classic(self, group: Group, caller: Caller, request: JoinGroupRequest) -> Outcome:
        """To a group that has members."""
        return self._classic_members.join(cast(ConsumerGroup, group), caller, request)

    def sync_classic(self, group: Group, request: SyncGroupRequest) -> Outcome:
        return self._classic_members.sync(cast(ConsumerGroup, group), request)

    def heartbeat_classic(self, group: Group, request: HeartbeatRequest) -> Outcome:
        return self._classic_members.heartbeat(cast(ConsumerGroup, group), request)

    def leave_classic(self, group: Group, request: LeaveGroupRequest) -> Outcome:
        return self._classic_members.leave(cast(ConsumerGroup, group), request)

    def describe(self, group_id: str) -> DescribedGroup:
        return described(self._find(group_id), self._balancing.default_assignor, self._shard.image)

    # Groups

    def _find(self, group_id: str) -> ConsumerGroup:
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            state = "does not exist" if group is None else "is not a consumer group"
            raise GroupIdNotFoundError(f"group {group_id} {state}")
        return group

    def _find_or_make(self, group_id: str, may_make: bool, written: list[CoordinatorRecord]) -> ConsumerGroup:
        group = self._groups.get(group_id)
        if not may_make or isinstance(group, ConsumerGroup):
            return self._find(group_id)
        if group is None:
            return ConsumerGroup(group_id)
        if isinstance(group, ClassicGroup):
            if not group.is_empty:
                return self._migration.upgrade(group, written)
            written += group.tombstones()
            return ConsumerGroup(group_id)
        return self._find(group_id)

    # What happens by itself

    def _expire(self, group_id: str, member_id: str, epoch: int | None, reason: str) -> Outcome:
        group = self._groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        if member is None or (epoch is not None and member.epoch != epoch):
            return NOTHING
        _log.info("%s is out of group %s: %s", member_id, group_id, reason)
        return self._departures.remove(cast(ConsumerGroup, group), [member])

    def _resolved(self, group_id: str, found: Resolved) -> Outcome:
        group = self._groups.get(group_id)
        return Outcome(self._balancing.resolved(group, found)) if isinstance(group, ConsumerGroup) else NOTHING

    def loaded(self) -> None:
        """Members have their whole session to come back in, whenever they were last heard of."""
        self._is_loaded = True
        self._patterns.topics_created()
        for group in self._groups.values():
            if not isinstance(group, ConsumerGroup):
                continue
            for member in group.members.values():
                session_ms = None if member.classic is None else member.classic.session_timeout_ms
                self._timeouts.renew_session(group.group_id, member.id, session_ms)
                self._timeouts.expect_revocation(group.group_id, member)

    def unloaded(self, error: TailraceError) -> None:
        """Nobody waits for a consumer group: every heartbeat is answered as things are."""

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if delta.created_topics:
            self._patterns.topics_created()
        for name in delta.touched_topics():
            self._hashes.forget(name)
            for group_id in self._groups_of_topic.get(name, ()):
                group = self._groups.get(group_id)
                if isinstance(group, ConsumerGroup):
                    group.make_stale()

    # Replay

    def replayers(self) -> Mapping[type[Record], Replayer]:
        return {
            ConsumerGroupMetadataKey: self._replay_epoch,
            ConsumerGroupPartitionMetadataKey: self._replay_partition_metadata,
            ConsumerGroupMemberMetadataKey: self._replay_member,
            ConsumerGroupTargetAssignmentMetadataKey: self._replay_target_epoch,
            ConsumerGroupTargetAssignmentMemberKey: self._replay_target,
            ConsumerGroupCurrentMemberAssignmentKey: self._replay_assignment,
            ConsumerGroupRegularExpressionKey: self._replay_pattern,
        }

    def _persisted(self, group_id: str, value: Record | None) -> ConsumerGroup | None:
        return persisted(self._groups, group_id, value, ConsumerGroup)

    def _replay_epoch(self, record: CoordinatorRecord, offset: int) -> None:
        key, value = cast(Any, record.key), cast(Any, record.value)
        group = self._persisted(key.group_id, value)
        if group is None:
            return
        if value is None:
            self._note_topics(group, group.subscriptions.topics, set())
            del self._groups[key.group_id]
        else:
            group.epoch = value.epoch
            group.metadata_hash = value.metadata_hash

    def _replay_partition_metadata(self, record: CoordinatorRecord, offset: int) -> None:
        key, value = cast(Any, record.key), record.value
        group = self._persisted(key.group_id, value)
        if group is not None:
            group.has_partition_metadata = value is not None

    def _replay_member(self, record: CoordinatorRecord, offset: int) -> None:
        key, value = cast(Any, record.key), cast(Any, record.value)
        group = self._persisted(key.group_id, value)
        if group is None:
            return
        before = group.members.get(key.member_id) or ConsumerMember(key.member_id)
        if before.uses_classic_protocol and value is not None and value.classic_member_metadata is None:
            self._timeouts.has_joined(group.group_id, before.id)
            self._timeouts.has_synced(group.group_id, before.id)
        if value is not None and frozenset(value.subscribed_topic_names) == before.topics:
            group.put_member(before.with_metadata(value))
            return
        topics = group.subscriptions.topics
        if value is not None:
            group.put_member(before.with_metadata(value))
        else:
            group.remove_member(key.member_id)
            group.targets.pop(key.member_id, None)
        self._note_topics(group, topics, group.subscriptions.topics)

    def _replay_target_epoch(self, record: CoordinatorRecord, offset: int) -> None:
        key, value = cast(Any, record.key), cast(Any, record.value)
        group = self._persisted(key.group_id, value)
        if group is not None:
            group.assignment_epoch = -1 if value is None else value.assignment_epoch
            group.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp

    def _replay_target(self, record: CoordinatorRecord, offset: int) -> None:
        key, value = cast(Any, record.key), cast(Any, record.value)
        group = self._persisted(key.group_id, value)
        if group is None:
            return
        if value is None:
            group.targets.pop(key.member_id, None)
        else:
            group.targets[key.member_id] = partitions_of(
                (topic.topic_id, topic.partitions) for topic in value.topic_partitions
            )

    def _replay_assignment(self, record: CoordinatorRecord, offset: int) -> None:
        key, value = cast(Any, record.key), cast(Any, record.value)
        group = self._persisted(key.group_id, value)
        if group is None:
            return
        member = group.members.get(key.member_id)
        if value is not None:
            member = (member or ConsumerMember(key.member_id)).with_assignment(value)
            group.put_member(member)
            if self._is_loaded:
                self._timeouts.expect_revocation(group.group_id, member)
        elif member is not None:
            group.put_member(member.without_assignment())

    def _replay_pattern(self, record: CoordinatorRecord, offset: int) -> None:
        key, value = cast(Any, record.key), cast(Any, record.value)
        group = self._persisted(key.group_id, value)
        if group is None:
            return
        topics = group.subscriptions.topics
        found = None if value is None else ResolvedPattern(frozenset(value.topics), value.version, value.timestamp)
        group.subscriptions.resolve(key.regular_expression, found)
        self._note_topics(group, topics, group.subscriptions.topics)

    def _note_topics(self, group: ConsumerGroup, before: set[str], after: set[str]) -> None:
        for topic in before - after:
            groups = self._groups_of_topic.get(topic)
            if groups is not None:
                groups.discard(group.group_id)
                if not groups:
                    del self._groups_of_topic[topic]
                    self._hashes.forget(topic)
        for topic in after - before:
            self._groups_of_topic.setdefault(topic, set()).add(group.group_id)
