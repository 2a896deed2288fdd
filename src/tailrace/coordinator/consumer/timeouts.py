"""The clocks of a consumer group's members.

    session     no heartbeat for so long
    rebalance   has not given up what it was asked to, and so not left its epoch
    join, sync  of members of the classic protocol: were told to join again, or joined, and did not come

Who is late is taken out of the group. Timers name groups and members by their ids: what they meant may be gone when
they are due, and then nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tailrace.coordinator.consumer.member import ConsumerMember
from tailrace.coordinator.outcome import Outcome
from tailrace.coordinator.shard import Shard

_SESSION: Final = "consumer session"
_REBALANCE: Final = "consumer rebalance"
_JOIN: Final = "consumer join"
_SYNC: Final = "consumer sync"

Expire = Callable[[str, str, int | None, str], Outcome]
"""Takes a member out, by group and member id; with an epoch, only if it is still in that. The last says why."""


class Timeouts:
    def __init__(self, shard: Shard, expire: Expire) -> None:
        self._shard = shard
        self._expire = expire

    def renew_session(self, group_id: str, member_id: str, timeout_ms: int | None = None) -> None:
        if timeout_ms is None:
            timeout_ms = self._shard.group_settings(group_id).consumer_session_timeout_ms
        self._schedule(_SESSION, group_id, member_id, timeout_ms, None, "its session has ended")

    def expect_revocation(self, group_id: str, member: ConsumerMember) -> None:
        """Also says that there is nothing to give up any more. Who uses the classic protocol has to join for that."""
        if member.revoked and not member.uses_classic_protocol:
            reason = f"it has not left epoch {member.epoch} in {member.rebalance_timeout_ms} ms"
            self._schedule(_REBALANCE, group_id, member.id, member.rebalance_timeout_ms, member.epoch, reason)
        else:
            self._shard.timers.cancel((_REBALANCE, group_id, member.id))

    def expect_join(self, group_id: str, member: ConsumerMember) -> None:
        """From the first time that it was told on."""
        if not self._shard.timers.is_scheduled((_JOIN, group_id, member.id)):
            reason = "it has not joined again within its rebalance timeout"
            self._schedule(_JOIN, group_id, member.id, member.rebalance_timeout_ms, None, reason)

    def has_joined(self, group_id: str, member_id: str) -> None:
        self._shard.timers.cancel((_JOIN, group_id, member_id))

    def expect_sync(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        reason = "it has not asked for its assignment within its rebalance timeout"
        self._schedule(_SYNC, group_id, member_id, timeout_ms, None, reason)

    def has_synced(self, group_id: str, member_id: str) -> None:
        self._shard.timers.cancel((_SYNC, group_id, member_id))

    def forget(self, group_id: str, member_id: str) -> None:
        for kind in (_SESSION, _REBALANCE, _JOIN, _SYNC):
            self._shard.timers.cancel((kind, group_id, member_id))

    def _schedule(
        self, kind: str, group_id: str, member_id: str, timeout_ms: int, epoch: int | None, reason: str
    ) -> None:
        self._shard.timers.schedule(
            (kind, group_id, member_id), timeout_ms, lambda: self._expire(group_id, member_id, epoch, reason)
        )
