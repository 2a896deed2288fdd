"""JoinGroup: how somebody becomes a member of a classic group, stays one, or comes back."""

from __future__ import annotations

import logging
import uuid
from typing import Final

from tailrace.coordinator.classic.caller import Caller
from tailrace.coordinator.classic.group import ClassicGroup
from tailrace.coordinator.classic.held_reply import HeldReply
from tailrace.coordinator.classic.member import ClassicMember
from tailrace.coordinator.classic.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS, NO_MEMBER_ID, Rebalances
from tailrace.coordinator.classic.records import group_record
from tailrace.coordinator.classic.state import ClassicState
from tailrace.coordinator.outcome import NOTHING, Outcome
from tailrace.coordinator.shard import Shard
from tailrace.model.errors import (
    CoordinatorNotAvailableError,
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    MemberIdRequiredError,
    MessageTooLargeError,
    TailraceError,
    UnknownMemberIdError,
    UnknownServerError,
)
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

_log = logging.getLogger(__name__)

_FIRST_VERSION_OF_TWO_STEPS: Final = 4
"""From here on a newcomer is given its member id first and joins with it then: a lost answer leaves no dead member."""
_FIRST_VERSION_THAT_SKIPS: Final = 9
"""From here on a leader can be told that its group keeps its assignments."""
_LONGEST_ID_BYTES: Final = 0x7FFF
_LEAST_PENDING: Final = 100
"""So many may always be on their way between the two steps."""

JoinReply = HeldReply[JoinGroupResponse]


class Joining:
    """JoinGroup to the classic groups of a shard."""

    def __init__(self, shard: Shard, rebalances: Rebalances) -> None:
        self._shard = shard
        self._rebalances = rebalances

    def join(self, group: ClassicGroup, caller: Caller, request: JoinGroupRequest, reply: JoinReply) -> Outcome:
        """`request.rebalance_timeout_ms` is set in all versions. The reply is held, or given at once."""
        if not self._has_room_for(group, request.member_id):
            group.remove(request.member_id)
            return _refuse(reply, NO_MEMBER_ID, GroupMaxSizeReachedError.code)
        if group.state is ClassicState.DEAD:
            return _refuse(reply, request.member_id, CoordinatorNotAvailableError.code)
        if not group.speaks(request.protocol_type, protocols_of(request)):
            return _refuse(reply, request.member_id, InconsistentGroupProtocolError.code)
        if not self._can_be_kept(caller, request):
            return _refuse(reply, request.member_id, MessageTooLargeError.code)
        if request.member_id:
            return self._join_again(group, caller, request, reply)
        if request.group_instance_id is not None:
            return self._join_as_static(group, caller, request, reply)
        return self._join_as_dynamic(group, caller, request, reply)

    def _has_room_for(self, group: ClassicGroup, member_id: str) -> bool:
        size = self._shard.config.group_max_size
        member = group.members.get(member_id)
        if group.state in (ClassicState.EMPTY, ClassicState.DEAD):
            return True
        if group.state is ClassicState.PREPARING:
            # Members that have not come back yet do not count: where the size was lowered, the last ones stay out.
            return (member is not None and member.is_joining) or group.joining_count < size
        return member is not None or len(group.members) < size

    def _can_be_kept(self, caller: Caller, request: JoinGroupRequest) -> bool:
        """What a member says to the others is held in memory and then written with the group, all in one record."""
        is_given_an_id = not request.member_id and request.group_instance_id is None
        if is_given_an_id and caller.api_version >= _FIRST_VERSION_OF_TWO_STEPS:
            return True
        size_bytes = sum(len(protocol.metadata) for protocol in request.protocols)
        return size_bytes <= self._shard.largest_batch_bytes

    # Newcomers

    def _join_as_dynamic(
        self, group: ClassicGroup, caller: Caller, request: JoinGroupRequest, reply: JoinReply
    ) -> Outcome:
        member_id = self._new_member_id(caller.client_id)
        if caller.api_version < _FIRST_VERSION_OF_TWO_STEPS:
            return self._add(group, caller, request, member_id, reply)
        if len(group.pending_joins) >= max(self._shard.config.group_max_size, _LEAST_PENDING):
            return _refuse(reply, NO_MEMBER_ID, GroupMaxSizeReachedError.code)
        group.pending_joins.add(member_id)
        self._rebalances.start_session(group, member_id, request.session_timeout_ms)
        return _refuse(reply, member_id, MemberIdRequiredError.code)

    def _join_as_static(
        self, group: ClassicGroup, caller: Caller, request: JoinGroupRequest, reply: JoinReply
    ) -> Outcome:
        assert request.group_instance_id is not None
        member_id = self._new_member_id(request.group_instance_id)
        known_as = group.static_members.get(request.group_instance_id)
        if known_as is None:
            return self._add(group, caller, request, member_id, reply)
        return self._replace(group, caller, request, known_as, member_id, reply)

    def _new_member_id(self, prefix: str) -> str:
        """Cut where it would be too long to be said in an answer."""
        chosen = f"-{uuid.UUID(int=self._shard.random.getrandbits(128), version=4)}"
        return prefix.encode()[: _LONGEST_ID_BYTES - len(chosen)].decode(errors="ignore") + chosen

    def _add(
        self, group: ClassicGroup, caller: Caller, request: JoinGroupRequest, member_id: str, reply: JoinReply
    ) -> Outcome:
        member = ClassicMember(
            member_id,
            instance_id=request.group_instance_id,
            client_id=caller.client_id,
            client_host=caller.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=protocols_of(request),
        )
        member.is_new = True
        if group.is_first_rebalance:
            group.has_newcomers = True
        group.add(member, reply)
        self._rebalances.renew_session(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        return self._rebalances.begin_or_end_join(group, f"{member_id} joins{_because(request)}")

    # Members

    def _join_again(self, group: ClassicGroup, caller: Caller, request: JoinGroupRequest, reply: JoinReply) -> Outcome:
        member_id = request.member_id
        if member_id in group.pending_joins:
            if request.group_instance_id is not None:
                return _refuse(reply, NO_MEMBER_ID, UnknownServerError.code)
            return self._add(group, caller, request, member_id, reply)
        try:
            group.check_member(member_id, request.group_instance_id)
        except TailraceError as error:
            return _refuse(reply, member_id, error.code)
        if group.state is ClassicState.EMPTY:
            return _refuse(reply, member_id, UnknownMemberIdError.code)
        member = group.members[member_id]
        if self._changes_nothing(group, member, request):
            # Its answer was lost, or it is a follower that was told to come back.
            reply(group.joined(member_id))
            return NOTHING
        group.update(member, protocols_of(request), request.rebalance_timeout_ms, request.session_timeout_ms, reply)
        return self._rebalances.begin_or_end_join(group, f"{member_id} joins again{_because(request)}")

    def _changes_nothing(self, group: ClassicGroup, member: ClassicMember, request: JoinGroupRequest) -> bool:
        if group.state is ClassicState.PREPARING:
            return False
        if group.state is ClassicState.STABLE and member.member_id == group.leader_id:
            return False  # it has seen something that the others have not, such as a topic's new partitions
        return member.matches(protocols_of(request))

    # Static members that come back

    def _replace(
        self,
        group: ClassicGroup,
        caller: Caller,
        request: JoinGroupRequest,
        old_id: str,
        new_id: str,
        reply: JoinReply,
    ) -> Outcome:
        assert request.group_instance_id is not None
        old_leader = group.leader_id
        old = group.members[old_id]
        member = group.replace_static(request.group_instance_id, old_id, new_id)
        group.update(member, protocols_of(request), request.rebalance_timeout_ms, request.session_timeout_ms, reply)
        self._rebalances.renew_session(group, member)
        if group.state is not ClassicState.STABLE:
            reason = f"static member {request.group_instance_id} comes back{_because(request)}"
            if group.state is ClassicState.COMPLETING:
                return self._rebalances.begin(group, reason)  # the leader may be assigning to the old member id
            return self._rebalances.end_join_phase(group)
        if group.elected_protocol() != group.protocol_name:
            reason = f"static member {request.group_instance_id} speaks another protocol{_because(request)}"
            return self._rebalances.begin_or_end_join(group, reason)
        return self._keep_replaced(group, caller, old, member, old_leader)

    def _keep_replaced(
        self, group: ClassicGroup, caller: Caller, old: ClassicMember, member: ClassicMember, old_leader: str | None
    ) -> Outcome:
        """A stable group stays as it is: the member has its assignment from before."""
        reply = member.join_reply
        assert reply is not None

        def then(error: TailraceError | None) -> None:
            if group.state is not ClassicState.STABLE or member.join_reply is not reply:
                return  # a rebalance has begun since: it answers, and keeps whom it finds
            answer = group.joined(member.member_id)
            if error is not None:
                answer.member_id, answer.members, answer.error_code = NO_MEMBER_ID, [], error.code
                answer.leader = old_leader or ""
                group.answer_join(member, answer)
                self._put_back(group, old, member)
                return
            if caller.api_version >= _FIRST_VERSION_THAT_SKIPS:
                answer.skip_assignment = member.member_id == group.leader_id
            else:
                # An old client that heard it leads would hand out assignments: let it believe that it follows.
                answer.leader, answer.members = old_leader or "", []
            group.answer_join(member, answer)
            self._rebalances.renew_session(group, member)

        assignments = {each.member_id: each.assignment for each in group.members.values()}
        return Outcome([group_record(group, assignments)], then=then)

    def _put_back(self, group: ClassicGroup, old: ClassicMember, member: ClassicMember) -> None:
        """The new member id could not be kept: the old one counts."""
        assert old.instance_id is not None
        group.update(member, old.protocols, old.rebalance_timeout_ms, old.session_timeout_ms, None)
        restored = group.replace_static(old.instance_id, member.member_id, old.member_id)
        self._rebalances.end_session(group, member.member_id)
        self._rebalances.renew_session(group, restored)


def protocols_of(request: JoinGroupRequest) -> dict[str, bytes]:
    """In the member's order; the first of a name counts."""
    protocols: dict[str, bytes] = {}
    for protocol in request.protocols:
        protocols.setdefault(protocol.name, protocol.metadata)
    return protocols


def _refuse(reply: JoinReply, member_id: str, error_code: int) -> Outcome:
    reply(JoinGroupResponse(member_id=member_id, error_code=error_code))
    return NOTHING


def _because(request: JoinGroupRequest) -> str:
    return f" ({request.reason})" if request.reason else ""
