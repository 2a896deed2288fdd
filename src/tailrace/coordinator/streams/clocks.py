"""The clocks of a streams group.

    session     of a member: no heartbeat for so long
    rebalance   of a member: has not given up what it was asked to, and so not left its epoch
    delay       of a group: the first members wait for others, so that tasks are not moved about at once

Timers name groups and members by their ids: what they meant may be gone when they are due, and then nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tailrace.coordinator.outcome import Outcome
from tailrace.coordinator.shard import Shard
from tailrace.coordinator.streams.member import MemberState, StreamsMember

_SESSION: Final = "streams session"
_REBALANCE: Final = "streams rebalance"
_DELAY: Final = "streams initial delay"

Expire = Callable[[str, str, int | None, str], Outcome]
"""Takes a member out, by group and member id; with an epoch, only if it is still in that. The last says why."""


class Clocks:
    def __init__(self, shard: Shard, expire: Expire, assign: Callable[[str], Outcome]) -> None:
        """`assign` is given the id of a group whose first delay is over."""
        self._shard = shard
        self._expire = expire
        self._assign = assign

    def renew_session(self, group_id: str, member_id: str) -> None:
        timeout_ms = self._shard.group_settings(group_id).streams_session_timeout_ms
        self._shard.timers.schedule(
            (_SESSION, group_id, member_id),
            timeout_ms,
            lambda: self._expire(group_id, member_id, None, "its session has ended"),
        )

    def expect_revocation(self, group_id: str, member: StreamsMember) -> None:
        """Also says that there is nothing to give up any more."""
        key = (_REBALANCE, group_id, member.id)
        if member.state is not MemberState.UNREVOKED_TASKS:
            self._shard.timers.cancel(key)
            return
        member_id, epoch, timeout_ms = member.id, member.epoch, member.rebalance_timeout_ms
        reason = f"it has not left epoch {epoch} in {timeout_ms} ms"
        self._shard.timers.schedule(key, timeout_ms, lambda: self._expire(group_id, member_id, epoch, reason))

    def forget_member(self, group_id: str, member_id: str) -> None:
        for kind in (_SESSION, _REBALANCE):
            self._shard.timers.cancel((kind, group_id, member_id))

    def delay_first_assignment(self, group_id: str, delay_ms: int) -> None:
        """From when the first member came on."""
        key = (_DELAY, group_id)
        if delay_ms > 0 and not self._shard.timers.is_scheduled(key):
            self._shard.timers.schedule(key, delay_ms, lambda: self._assign(group_id))

    def delays_assignment(self, group_id: str) -> bool:
        return self._shard.timers.is_scheduled((_DELAY, group_id))

    def forget_group(self, group_id: str) -> None:
        self._shard.timers.cancel((_DELAY, group_id))
