"""The course of a rebalance, and the clocks that drive it.

    begin      everybody is asked to join again: heartbeats answer REBALANCE_IN_PROGRESS, waiting syncs are refused
    end join   when all have joined, or at the slowest member's rebalance timeout; dynamic members that have not are
               out. A group that was empty is given `group.initial.rebalance.delay.ms` for more members, again and
               again as long as they come, up to the rebalance timeout
    syncs      members that do not ask for their assignment within the rebalance timeout are out, and it begins anew

A member that gives no sign of life for its session timeout is out, unless the coordinator keeps it waiting.

Who may call: the commands of classic groups, on the node's thread. Timers name groups and members by their ids: what
they meant may be gone when they are due. Each may be run twice (see `Timers`), and does nothing the second time.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from tailrace.coordinator.classic.group import ClassicGroup
from tailrace.coordinator.classic.member import NO_ASSIGNMENT, ClassicMember
from tailrace.coordinator.classic.records import group_record
from tailrace.coordinator.classic.state import ClassicState
from tailrace.coordinator.groups.group import Group
from tailrace.coordinator.outcome import NOTHING, Outcome
from tailrace.coordinator.shard import Shard
from tailrace.model.errors import RebalanceInProgressError, TailraceError
from tailrace.protocol.messages.sync_group import SyncGroupResponse

_log = logging.getLogger(__name__)

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""A client whose first join waits longer has most likely sent another one."""

_ALL_AWAY_MS: Final = 1000
"""How long at least until a group whose static members are all away is looked at again: they may have said 0."""

_SESSION: Final = "classic session"
_JOIN: Final = "classic join"
_SYNC: Final = "classic sync"

NO_MEMBER_ID: Final = ""


class Rebalances:
    """Of all classic groups of a shard."""

    def __init__(self, shard: Shard, groups: Mapping[str, Group]) -> None:
        self._shard = shard
        self._groups = groups

    def _find(self, group_id: str) -> ClassicGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) and group.state is not ClassicState.DEAD else None

    # Sessions

    def renew_session(self, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None) -> None:
        """The member has given a sign of life."""
        self.start_session(group, member.member_id, member.session_timeout_ms if timeout_ms is None else timeout_ms)

    def start_session(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Also of one who was only given its member id."""
        group_id = group.group_id
        self._shard.timers.schedule(
            (_SESSION, group_id, member_id), timeout_ms, lambda: self._expire_session(group_id, member_id)
        )

    def end_session(self, group: ClassicGroup, member_id: str) -> None:
        self._shard.timers.cancel((_SESSION, group.group_id, member_id))

    def forget(self, group: ClassicGroup) -> None:
        """Stop all clocks of a group: it is deleted, or becomes one of another kind."""
        for member_id in (*group.members, *group.pending_joins):
            self.end_session(group, member_id)
        self._shard.timers.cancel((_JOIN, group.group_id))
        self._shard.timers.cancel((_SYNC, group.group_id))

    def _expire_session(self, group_id: str, member_id: str) -> Outcome:
        group = self._find(group_id)
        if group is None:
            return NOTHING
        if member_id in group.pending_joins:
            _log.info("%s was given its id and has not joined group %s: it is forgotten", member_id, group_id)
            group.remove(member_id)
            return self.end_join_if_all_joined(group)
        member = group.members.get(member_id)
        if member is None or member.lives_without_heartbeat:
            return NOTHING
        _log.info("%s of group %s has given no sign of life for %d ms", member_id, group_id, member.session_timeout_ms)
        self.remove(group, member)
        if group.state in (ClassicState.STABLE, ClassicState.COMPLETING):
            return self.begin(group, f"{member_id} has failed")
        return self.end_join_if_all_joined(group)

    def remove(self, group: ClassicGroup, member: ClassicMember) -> None:
        self.end_session(group, member.member_id)
        group.remove(member.member_id)

    # Joining

    def begin_or_end_join(self, group: ClassicGroup, reason: str) -> Outcome:
        """Something has changed: ask everybody to join again, or see whether that was the last one to join."""
        return self.begin(group, reason) if group.can_rebalance else self.end_join_phase(group)

    def begin(self, group: ClassicGroup, reason: str) -> Outcome:
        if group.state is ClassicState.COMPLETING:
            self.withdraw_assignments(group, RebalanceInProgressError.code)
        group.pending_syncs.clear()
        self._shard.timers.cancel((_SYNC, group.group_id))
        is_first = group.state is ClassicState.EMPTY
        if is_first:
            group.has_newcomers = False
            delay_ms = self._shard.config.group_initial_rebalance_delay_ms
            self._put_off(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        group.move_to(ClassicState.PREPARING, self._shard.clock.now_ms())
        _log.info("group %s is balanced anew after generation %d: %s", group.group_id, group.generation, reason)
        if is_first:
            return NOTHING
        if group.all_have_joined:
            return self.end_join(group)
        self._end_join_in(group, group.rebalance_timeout_ms)
        return NOTHING

    def end_join_phase(self, group: ClassicGroup) -> Outcome:
        """If it is the last one that has joined. The first rebalance of a group waits out its delay."""
        if group.state is not ClassicState.PREPARING or group.is_first_rebalance or not group.all_have_joined:
            return NOTHING
        return self.end_join(group)

    def end_join_if_all_joined(self, group: ClassicGroup) -> Outcome:
        """Somebody is gone who was awaited."""
        if group.state is ClassicState.PREPARING and group.all_have_joined:
            return self.end_join(group)
        return NOTHING

    def _end_join_in(self, group: ClassicGroup, delay_ms: int) -> None:
        group_id = group.group_id
        self._shard.timers.schedule((_JOIN, group_id), delay_ms, lambda: self._join_is_over(group_id))

    def _join_is_over(self, group_id: str) -> Outcome:
        group = self._find(group_id)
        return NOTHING if group is None or group.state is not ClassicState.PREPARING else self.end_join(group)

    def _put_off(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        group_id = group.group_id
        self._shard.timers.schedule(
            (_JOIN, group_id), delay_ms, lambda: self._first_join_is_over(group_id, delay_ms, remaining_ms)
        )

    def _first_join_is_over(self, group_id: str, delay_ms: int, remaining_ms: int) -> Outcome:
        group = self._find(group_id)
        if group is None or group.state is not ClassicState.PREPARING:
            return NOTHING
        if group.has_newcomers and remaining_ms:
            group.has_newcomers = False
            next_delay_ms = min(self._shard.config.group_initial_rebalance_delay_ms, remaining_ms)
            self._put_off(group, next_delay_ms, max(remaining_ms - delay_ms, 0))
            return NOTHING
        return self.end_join(group)

    def end_join(self, group: ClassicGroup) -> Outcome:
        """Begin the next generation with those who have joined; static members stay even when they have not."""
        self._shard.timers.cancel((_JOIN, group.group_id))
        for missing in group.not_yet_joined():
            if not missing.is_static:
                _log.info("%s has not joined group %s in time", missing.member_id, group.group_id)
                group.remove(missing.member_id)
                self.end_session(group, missing.member_id)
        if group.members and not group.elect_joined_leader():
            # Only static members are left, and all are away: their sessions end sooner or later.
            self._end_join_in(group, max(group.rebalance_timeout_ms, _ALL_AWAY_MS))
            return NOTHING
        group.begin_generation(self._shard.clock.now_ms())
        if group.is_empty:
            _log.info("group %s is empty since generation %d", group.group_id, group.generation)
            return Outcome([group_record(group, {})])
        _log.info("group %s has %d members in generation %d", group.group_id, len(group.members), group.generation)
        for member in list(group.members.values()):
            group.answer_join(member, group.joined(member.member_id))
            self.renew_session(group, member)
            member.is_new = False
            group.pending_syncs.add(member.member_id)
        self._expect_syncs(group)
        return NOTHING

    # Syncing

    def _expect_syncs(self, group: ClassicGroup) -> None:
        group_id, generation = group.group_id, group.generation
        self._shard.timers.schedule(
            (_SYNC, group_id), group.rebalance_timeout_ms, lambda: self._syncs_are_over(group_id, generation)
        )

    def has_synced(self, group: ClassicGroup, member_id: str) -> None:
        group.pending_syncs.discard(member_id)
        if not group.pending_syncs:
            self._shard.timers.cancel((_SYNC, group.group_id))

    def _syncs_are_over(self, group_id: str, generation: int) -> Outcome:
        group = self._find(group_id)
        if (
            group is None
            or group.generation != generation
            or group.state not in (ClassicState.COMPLETING, ClassicState.STABLE)
            or not group.pending_syncs
        ):
            return NOTHING
        missing = sorted(group.pending_syncs)
        for member_id in missing:
            group.remove(member_id)
            self.end_session(group, member_id)
        return self.begin(group, f"{', '.join(missing)} did not ask for an assignment")

    def hand_out(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
        """The assignments are kept: give them to those who wait."""
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, NO_ASSIGNMENT)
        for member in list(group.members.values()):
            if group.answer_sync(member, group.assigned(member)):
                self.renew_session(group, member)

    def withdraw_assignments(self, group: ClassicGroup, error_code: int) -> None:
        """Nobody gets one in this generation."""
        group.forget_assignments()
        for member in list(group.members.values()):
            if group.answer_sync(member, SyncGroupResponse(error_code=error_code)):
                self.renew_session(group, member)

    def go_on_after(self, group: ClassicGroup, error: TailraceError) -> None:
        """The assignments could not be kept."""
        self.withdraw_assignments(group, error.code)
        self._shard.submit(
            "classic-group-rebalance",
            lambda: (
                self.begin(group, f"its assignments could not be kept: {error}") if group.can_rebalance else NOTHING
            ),
        )
