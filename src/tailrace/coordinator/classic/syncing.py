"""SyncGroup: the leader brings the assignments of all, the others wait for theirs."""

from __future__ import annotations

import logging

from tailrace.coordinator.classic.group import ClassicGroup
from tailrace.coordinator.classic.held_reply import HeldReply
from tailrace.coordinator.classic.member import NO_ASSIGNMENT
from tailrace.coordinator.classic.rebalance import Rebalances
from tailrace.coordinator.classic.records import group_record
from tailrace.coordinator.classic.state import ClassicState
from tailrace.coordinator.outcome import NOTHING, Outcome
from tailrace.coordinator.shard import Shard
from tailrace.model.errors import (
    CoordinatorNotAvailableError,
    InconsistentGroupProtocolError,
    RebalanceInProgressError,
    TailraceError,
)
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_log = logging.getLogger(__name__)

SyncReply = HeldReply[SyncGroupResponse]


class Syncing:
    """SyncGroup to the classic groups of a shard."""

    def __init__(self, shard: Shard, rebalances: Rebalances) -> None:
        self._shard = shard
        self._rebalances = rebalances

    def sync(self, group: ClassicGroup, request: SyncGroupRequest, reply: SyncReply) -> Outcome:
        """The reply is held, or given at once."""
        try:
            check_sync(group, request)
        except TailraceError as error:
            reply(SyncGroupResponse(error_code=error.code))
            return NOTHING
        member = group.members[request.member_id]
        self._rebalances.has_synced(group, request.member_id)
        if group.state is ClassicState.STABLE:
            reply(group.assigned(member))
            return NOTHING
        group.hold_sync(member, reply)
        if request.member_id != group.leader_id or group.keeps_assignments:
            return NOTHING
        return self._keep(group, request)

    def _keep(self, group: ClassicGroup, request: SyncGroupRequest) -> Outcome:
        """Write the leader's assignments down; they are handed out when they are committed."""
        assignments = {each.member_id: each.assignment for each in request.assignments}
        for member_id in group.members:
            if member_id not in assignments:
                _log.warning("the leader of group %s assigns nothing to %s", group.group_id, member_id)
                assignments[member_id] = NO_ASSIGNMENT
        group.keeps_assignments = True

        def then(error: TailraceError | None) -> None:
            if group.state is not ClassicState.COMPLETING or group.generation != request.generation_id:
                return  # another rebalance has begun since
            if error is not None:
                self._rebalances.go_on_after(group, error)
                return
            self._rebalances.hand_out(group, assignments)
            group.move_to(ClassicState.STABLE, self._shard.clock.now_ms())

        return Outcome([group_record(group, assignments)], then=then)


def check_sync(group: ClassicGroup, request: SyncGroupRequest) -> None:
    if group.state is ClassicState.DEAD:
        raise CoordinatorNotAvailableError(f"group {group.group_id} is not here any more")
    group.check_member(request.member_id, request.group_instance_id)
    group.check_generation(request.generation_id)
    if _differ(request.protocol_type, group.protocol_type or None) or _differ(
        request.protocol_name, group.protocol_name
    ):
        raise InconsistentGroupProtocolError(
            f"group {group.group_id} speaks {group.protocol_type} {group.protocol_name}, "
            f"not {request.protocol_type} {request.protocol_name}"
        )
    if group.state is ClassicState.PREPARING:
        raise RebalanceInProgressError(f"group {group.group_id} is waiting for its members")


def _differ(asked: str | None, known: str | None) -> bool:
    """Old versions do not say it, and then it is not compared."""
    return asked is not None and known is not None and asked != known
