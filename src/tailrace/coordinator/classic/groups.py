"""The classic groups of a shard: their commands, and their records.

A group is in the shard's `groups` from its first record on, or from the first offset committed under its id. The state
of a group with members is driven by its commands, which change it as they decide; its record is written when the
leader's assignments are to be kept, when the group has become empty, and when a static member has come back. Replaying
such a record into a group that is here changes nothing, because it says what the group already is. Only loading, and
the change of a group of another kind into a classic one, make a group out of a record.

Between the kinds of groups:

    classic member joins a consumer group    `join`, `sync`, `heartbeat` and `leave` give the request to the manager of
                                             consumer groups, which answers it
    consumer group becomes classic           make a group with `new_group`, `add` its members, `expect(group)` it and
                                             write `group_record(group, assignments)` behind the old group's
                                             tombstones; when they are replayed the group is here and its sessions run.
                                             Then `rebalances.begin(group, reason)`, or let `join` go on with it
    classic group becomes a consumer group   write `group.tombstones()` before the new group's records. Replaying it
                                             stops all clocks and answers those who wait

Who may call: the runtime and the handlers' commands, on the node's thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tailrace.coordinator.classic.caller import Caller
from tailrace.coordinator.classic.group import ClassicGroup
from tailrace.coordinator.classic.joining import Joining, JoinReply
from tailrace.coordinator.classic.leaving import Leaving
from tailrace.coordinator.classic.rebalance import Rebalances
from tailrace.coordinator.classic.records import group_of_record, new_group_record
from tailrace.coordinator.classic.state import ClassicState
from tailrace.coordinator.classic.syncing import Syncing, SyncReply
from tailrace.coordinator.groups.group import Group, GroupKind
from tailrace.coordinator.outcome import NOTHING, CoordinatorRecord, Outcome
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.model.errors import (
    CoordinatorNotAvailableError,
    GroupIdNotFoundError,
    InconsistentGroupProtocolError,
    RebalanceInProgressError,
    TailraceError,
    UnknownMemberIdError,
)
from tailrace.protocol.message import Record
from tailrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tailrace.protocol.messages.leave_group import LeaveGroupRequest
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tailrace.protocol.records.classic_groups import GroupMetadataKey, GroupMetadataValue

if TYPE_CHECKING:
    from tailrace.coordinator.groups.shard import GroupShard, Replayer

_REPLACEABLE: Final = (GroupKind.CONSUMER, GroupKind.STREAMS)
"""Empty groups of these kinds give way to a classic one."""


class ClassicGroups:
    def __init__(self, owner: GroupShard) -> None:
        self._owner = owner
        self._shard = owner.shard
        self._groups = owner.groups
        self._expected: dict[str, ClassicGroup] = {}
        self._is_loaded = False
        self.rebalances = Rebalances(self._shard, self._groups)
        self._joining = Joining(self._shard, self.rebalances)
        self._syncing = Syncing(self._shard, self.rebalances)
        self._leaving = Leaving(self.rebalances)

    # Groups

    def new_group(self, group_id: str, state: ClassicState = ClassicState.EMPTY) -> ClassicGroup:
        """One that is not among the groups yet."""
        return self._wired(ClassicGroup(group_id, state, state_since_ms=self._shard.clock.now_ms()))

    def _wired(self, group: ClassicGroup) -> ClassicGroup:
        group.renew_session = lambda member: self.rebalances.renew_session(group, member)
        return group

    def get_or_make(self, group_id: str) -> ClassicGroup:
        """The group, for who commits offsets under an id that nobody has joined. GroupIdNotFoundError: another kind."""
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = self.new_group(group_id)
        if not isinstance(group, ClassicGroup):
            raise GroupIdNotFoundError(f"group {group_id} is of another kind than classic")
        return group

    def expect(self, group: ClassicGroup) -> None:
        """The running command writes this group's record: when it is replayed, the group is this one."""
        self._expected[group.group_id] = group

    def unexpect(self, group: ClassicGroup) -> bool:
        """The record was not written: forget the group. False when it was, and waits to be committed."""
        if self._expected.get(group.group_id) is not group:
            return False
        del self._expected[group.group_id]
        self.rebalances.forget(group)
        return True

    # Commands

    def join(self, caller: Caller, request: JoinGroupRequest, reply: JoinReply) -> Outcome:
        group = self._groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            return self._joining.join(group, caller, request, reply)
        if group is not None and not group.is_empty and group.kind is GroupKind.CONSUMER:
            return self._owner.consumer.join_classic(group, caller, request)
        if group is not None and not (group.is_empty and group.kind in _REPLACEABLE):
            reply(JoinGroupResponse(error_code=InconsistentGroupProtocolError.code))
            return NOTHING
        if request.member_id:
            reply(JoinGroupResponse(member_id=request.member_id, error_code=UnknownMemberIdError.code))
            return NOTHING
        return self._join_new_group(group, caller, request, reply)

    def _join_new_group(
        self, replaced: Group | None, caller: Caller, request: JoinGroupRequest, reply: JoinReply
    ) -> Outcome:
        """In the place of an empty group of another kind, where there is one."""
        group = self.new_group(request.group_id)
        self.expect(group)
        tombstones = [] if replaced is None else replaced.tombstones()
        self._joining.join(group, caller, request, reply)  # its first rebalance is put off: it writes nothing now

        def then(error: TailraceError | None) -> None:
            if error is None:
                return
            if self.unexpect(group):
                group.answer_all(error)
            reply(JoinGroupResponse(error_code=error.code))

        return Outcome([*tombstones, new_group_record(group)], then=then)

    def sync(self, request: SyncGroupRequest, reply: SyncReply) -> Outcome:
        group = self._groups.get(request.group_id)
        if group is not None and not group.is_empty:
            if isinstance(group, ClassicGroup):
                return self._syncing.sync(group, request, reply)
            if group.kind is GroupKind.CONSUMER:
                return self._owner.consumer.sync_classic(group, request)
        reply(SyncGroupResponse(error_code=UnknownMemberIdError.code))
        return NOTHING

    def heartbeat(self, request: HeartbeatRequest) -> Outcome:
        group = self._groups.get(request.group_id)
        if group is not None and group.kind is GroupKind.CONSUMER:
            return self._owner.consumer.heartbeat_classic(group, request)
        if not isinstance(group, ClassicGroup):
            raise UnknownMemberIdError(f"there is no group {request.group_id}")
        if group.state is ClassicState.DEAD:
            raise CoordinatorNotAvailableError(f"group {group.group_id} is not here any more")
        group.check_member(request.member_id, request.group_instance_id)
        group.check_generation(request.generation_id)
        self.rebalances.renew_session(group, group.members[request.member_id])
        is_rebalancing = group.state is ClassicState.PREPARING
        return Outcome(response=HeartbeatResponse(error_code=RebalanceInProgressError.code if is_rebalancing else 0))

    def leave(self, request: LeaveGroupRequest) -> Outcome:
        """`request.members` is set in all versions."""
        group = self._groups.get(request.group_id)
        if group is not None and group.kind is GroupKind.CONSUMER:
            return self._owner.consumer.leave_classic(group, request)
        if not isinstance(group, ClassicGroup):
            raise UnknownMemberIdError(f"there is no group {request.group_id}")
        return self._leaving.leave(group, request.members)

    # The shard's life

    def replayers(self) -> Mapping[type[Record], Replayer]:
        return {GroupMetadataKey: self._replay}

    def _replay(self, record: CoordinatorRecord, offset: int) -> None:
        assert isinstance(record.key, GroupMetadataKey)
        group_id = record.key.group
        expected = self._expected.pop(group_id, None)
        group = self._groups.get(group_id)
        if record.value is None:
            if isinstance(group, ClassicGroup):
                self.rebalances.forget(group)
                del self._groups[group_id]
                # Who still waits is in a group that becomes one of another kind, and comes again to that.
                group.answer_all(RebalanceInProgressError(f"group {group_id} is not a classic group any more"))
            return
        if self._is_loaded and isinstance(group, ClassicGroup):
            return
        assert isinstance(record.value, GroupMetadataValue)
        if expected is None:
            expected = self._wired(group_of_record(group_id, record.value))
        self._groups[group_id] = expected
        if self._is_loaded:
            self._start_sessions(expected)

    def _start_sessions(self, group: ClassicGroup) -> None:
        for member in group.members.values():
            if not member.is_new:
                self.rebalances.renew_session(group, member)

    def loaded(self) -> None:
        """Members have their whole session to come back in, whenever they were last heard of."""
        self._is_loaded = True
        for group in list(self._groups.values()):
            if not isinstance(group, ClassicGroup):
                continue
            self._start_sessions(group)
            if len(group.members) > self._shard.config.group_max_size:
                self._shrink(group)

    def _shrink(self, group: ClassicGroup) -> None:
        reason = f"it has {len(group.members)} members, and group.max.size is now {self._shard.config.group_max_size}"
        self._shard.submit("classic-group-shrink", lambda: self.rebalances.begin_or_end_join(group, reason))

    def unloaded(self, error: TailraceError) -> None:
        for group in self._groups.values():
            if isinstance(group, ClassicGroup):
                group.move_to(ClassicState.DEAD, self._shard.clock.now_ms())
                group.answer_all(error)

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Nothing: in the classic protocol the members watch the topics."""
