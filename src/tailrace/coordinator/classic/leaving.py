"""LeaveGroup: members that go by themselves, and static ones that an administrator takes out by their instance id."""

from __future__ import annotations

import logging

from tailrace.coordinator.classic.group import ClassicGroup
from tailrace.coordinator.classic.rebalance import Rebalances
from tailrace.coordinator.classic.state import ClassicState
from tailrace.coordinator.outcome import NOTHING, Outcome
from tailrace.model.errors import CoordinatorNotAvailableError, TailraceError, UnknownMemberIdError
from tailrace.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse

_log = logging.getLogger(__name__)


class Leaving:
    """LeaveGroup to the classic groups of a shard."""

    def __init__(self, rebalances: Rebalances) -> None:
        self._rebalances = rebalances

    def leave(self, group: ClassicGroup, members: list[MemberIdentity]) -> Outcome:
        if group.state is ClassicState.DEAD:
            return Outcome(response=LeaveGroupResponse(error_code=CoordinatorNotAvailableError.code))
        rows = [self._leave(group, member) for member in members]
        outcome = NOTHING
        gone = [row.member_id or str(row.group_instance_id) for row in rows if not row.error_code]
        if gone:
            _log.info("%s have left group %s", ", ".join(gone), group.group_id)
            outcome = self._without(group, f"{', '.join(gone)} left")
        return outcome._replace(response=LeaveGroupResponse(members=rows))

    def _leave(self, group: ClassicGroup, identity: MemberIdentity) -> MemberResponse:
        row = MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id)
        try:
            self._take_out(group, identity)
        except TailraceError as error:
            row.error_code = error.code
        return row

    def _take_out(self, group: ClassicGroup, identity: MemberIdentity) -> None:
        member_id = identity.member_id
        if not member_id:
            known_as = group.static_members.get(identity.group_instance_id or "")
            if identity.group_instance_id is None or known_as is None:
                raise UnknownMemberIdError(f"{identity.group_instance_id} is no static member of {group.group_id}")
            self._rebalances.remove(group, group.members[known_as])
        elif member_id in group.pending_joins:
            group.remove(member_id)
            self._rebalances.end_session(group, member_id)
        else:
            group.check_member(member_id, identity.group_instance_id)
            self._rebalances.remove(group, group.members[member_id])

    def _without(self, group: ClassicGroup, reason: str) -> Outcome:
        if group.state in (ClassicState.STABLE, ClassicState.COMPLETING):
            return self._rebalances.begin(group, reason)
        return self._rebalances.end_join_phase(group)
