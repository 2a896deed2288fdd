"""The streams groups of a shard: their commands, and their records.

What a group is, is what its records say: commands read it and write records, and only their replay changes it.

Who may call: the runtime and the handlers' commands, on the node's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from tailrace.coordinator.classic.caller import Caller
from tailrace.coordinator.classic.group import ClassicGroup
from tailrace.coordinator.consumer.partitions import partitions_of
from tailrace.coordinator.groups.persisted import persisted
from tailrace.coordinator.metadata_hash import MetadataHashes
from tailrace.coordinator.outcome import NOTHING, CoordinatorRecord, Outcome
from tailrace.coordinator.streams.balancing import Balancing
from tailrace.coordinator.streams.clocks import Clocks
from tailrace.coordinator.streams.description import described
from tailrace.coordinator.streams.group import StreamsGroup
from tailrace.coordinator.streams.heartbeats import Heartbeats
from tailrace.coordinator.streams.member import StreamsMember
from tailrace.coordinator.streams.tasks import TaskSet
from tailrace.coordinator.streams.topology import Topology
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.model.errors import GroupIdNotFoundError, TailraceError
from tailrace.protocol.message import Record
from tailrace.protocol.messages.streams_group_describe import DescribedGroup
from tailrace.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from tailrace.protocol.records.streams_groups import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
)

if TYPE_CHECKING:
    from tailrace.coordinator.groups.shard import GroupShard, Replayer

_log = logging.getLogger(__name__)


class StreamsGroups:
    def __init__(self, owner: GroupShard) -> None:
        self._shard = shard = owner.shard
        self._groups = owner.groups
        self._groups_of_topic: dict[str, set[str]] = {}
        """Ids of the groups whose topology has a topic."""
        self._is_loaded = False
        self._hashes = MetadataHashes(lambda: shard.image)
        self._clocks = Clocks(shard, self._expire, self._assign_first)
        self._balancing = Balancing(shard, self._hashes, self._clocks)
        self._heartbeats = Heartbeats(shard, self._find_or_make, self._balancing, self._clocks)

    # Commands

    def heartbeat(self, caller: Caller, request: StreamsGroupHeartbeatRequest) -> Outcome:
        """Of a request that `check_request` has let through. Gives a HeartbeatAnswer."""
        return self._heartbeats.heartbeat(caller, request)

    def describe(self, group_id: str) -> DescribedGroup:
        return described(self._find(group_id))

    # Groups

    def _find(self, group_id: str) -> StreamsGroup:
        group = self._groups.get(group_id)
        if not isinstance(group, StreamsGroup):
            state = "not found" if group is None else "is not a streams group"
            raise GroupIdNotFoundError(f"Group {group_id} {state}.")
        return group

    def _find_or_make(self, group_id: str, may_make: bool, written: list[CoordinatorRecord]) -> StreamsGroup:
        group = self._groups.get(group_id)
        if may_make and group is None:
            return StreamsGroup(group_id)
        if may_make and isinstance(group, ClassicGroup) and group.is_empty:
            written += group.tombstones()
            return StreamsGroup(group_id)
        return self._find(group_id)

    # What happens by itself

    def _expire(self, group_id: str, member_id: str, epoch: int | None, reason: str) -> Outcome:
        group = self._groups.get(group_id)
        if not isinstance(group, StreamsGroup):
            return NOTHING
        member = group.members.get(member_id)
        if member is None or (epoch is not None and member.epoch != epoch):
            return NOTHING
        _log.info("%s is out of group %s: %s", member_id, group_id, reason)
        return self._heartbeats.remove(group, member)

    def _assign_first(self, group_id: str) -> Outcome:
        group = self._groups.get(group_id)
        return Outcome(self._balancing.delayed_targets(group)) if isinstance(group, StreamsGroup) else NOTHING

    def loaded(self) -> None:
        """Members have their whole session to come back in, whenever they were last heard of."""
        self._is_loaded = True
        for group in self._groups.values():
            if isinstance(group, StreamsGroup):
                for member in group.members.values():
                    self._clocks.renew_session(group.group_id, member.id)
                    self._clocks.expect_revocation(group.group_id, member)

    def unloaded(self, error: TailraceError) -> None:
        """Nobody waits for a streams group: every heartbeat is answered as things are."""

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        for name in delta.touched_topics():
            self._hashes.forget(name)
            for group_id in self._groups_of_topic.get(name, ()):
                group = self._groups.get(group_id)
                if isinstance(group, StreamsGroup):
                    group.make_stale()

    # Replay

    def replayers(self) -> Mapping[type[Record], Replayer]:
        return {
            StreamsGroupMetadataKey: self._replay_epoch,
            StreamsGroupTopologyKey: self._replay_topology,
            StreamsGroupMemberMetadataKey: self._replay_member,
            StreamsGroupTargetAssignmentMetadataKey: self._replay_target_epoch,
            StreamsGroupTargetAssignmentMemberKey: self._replay_target,
            StreamsGroupCurrentMemberAssignmentKey: self._replay_assignment,
        }

    def _persisted(self, group_id: str, value: Record | None) -> StreamsGroup | None:
        return persisted(self._groups, group_id, value, StreamsGroup)

    def _replay_epoch(self, record: CoordinatorRecord, offset: int) -> None:
        key, value = cast(Any, record.key), cast(Any, record.value)
        group = self._persisted(key.group_id, value)
        if group is None:
            return
        if value is None:
            self._set_topology(group, None)
            self._clocks.forget_group(key.group_id)
            del self._groups[key.group_id]
            return
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash
        group.validated_topology_epoch = value.validated_topology_epoch
        group.assignment_settings = {each.key: each.value for each in value.last_assignment_configs or ()}

    def _replay_topology(self, record: CoordinatorRecord, offset: int) -> None:
        key, value = cast(Any, record.key), cast(Any, record.value)
        group = self._persisted(key.group_id, value)
        if group is not None:
            self._set_topology(group, None if value is None else Topology(value))

    def _set_topology(self, group: StreamsGroup, topology: Topology | None) -> None:
        before = frozenset() if group.topology is None else group.topology.topics
        after = frozenset() if topology is None else topology.topics
        group.topology = topology
        for topic in before - after:
            groups = self._groups_of_topic.get(topic, set())
            groups.discard(group.group_id)
            if not groups:
                self._groups_of_topic.pop(topic, None)
                self._hashes.forget(topic)
        for topic in after - before:
            self._groups_of_topic.setdefault(topic, set()).add(group.group_id)

    def _replay_member(self, record: CoordinatorRecord, offset: int) -> None:
        key, value = cast(Any, record.key), cast(Any, record.value)
        group = self._persisted(key.group_id, value)
        if group is None:
            return
        if value is None:
            group.remove_member(key.member_id)
        else:
            member = group.members.get(key.member_id) or StreamsMember(key.member_id)
            group.put_member(member.with_metadata(value))

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
            return
        kinds = (value.active_tasks, value.standby_tasks, value.warmup_tasks)
        group.targets[key.member_id] = TaskSet(
            *(partitions_of((each.subtopology_id, each.partitions) for each in kind) for kind in kinds)
        )

    def _replay_assignment(self, record: CoordinatorRecord, offset: int) -> None:
        key, value = cast(Any, record.key), cast(Any, record.value)
        group = self._persisted(key.group_id, value)
        if group is None:
            return
        member = group.members.get(key.member_id)
        if value is not None:
            member = (member or StreamsMember(key.member_id)).with_assignment(value)
            group.put_member(member)
            if self._is_loaded:
                self._clocks.expect_revocation(group.group_id, member)
        elif member is not None:
            group.put_member(member.without_assignment())
