"""What a leader knows of one follower, from the fetches that the follower sends.

Caught up. A fetch that reaches the leader's end catches the follower up now. One that only reaches what was the end
when the fetch before it came shows that the follower was caught up then. So a follower that keeps closing the gap is
in sync, however busy the leader is; one that is stuck and one that is too slow are not.

Times are of the clock that only grows: they are compared and never shown.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tailrace.model.offsets import LogOffsetMetadata

NEVER_MS: Final = -(2**62)
UNKNOWN_OFFSET: Final = -1
ANY_BROKER_EPOCH: Final = -1
"""Of a fetch that names no epoch: it is not compared."""


class ReplicaState(NamedTuple):
    """A value: a fetch makes a new one, a fetch that is refused leaves the old one."""

    end: LogOffsetMetadata = LogOffsetMetadata(UNKNOWN_OFFSET)
    log_start_offset: int = UNKNOWN_OFFSET
    leader_end_at_last_fetch: int = UNKNOWN_OFFSET
    last_fetch_ms: int = NEVER_MS
    last_caught_up_ms: int = NEVER_MS
    broker_epoch: int | None = None
    """As the last fetch said; None before the first."""

    def after_fetch(
        self, end: LogOffsetMetadata, log_start_offset: int, leader_end: int, broker_epoch: int, now_ms: int
    ) -> ReplicaState:
        """The follower asks for what is behind `end` while the leader's log ends at `leader_end`."""
        caught_up_ms = self.last_caught_up_ms
        if end.offset >= leader_end:
            caught_up_ms = max(caught_up_ms, now_ms)
        elif end.offset >= self.leader_end_at_last_fetch:
            caught_up_ms = max(caught_up_ms, self.last_fetch_ms)
        leader_end = max(leader_end, self.leader_end_at_last_fetch)
        return ReplicaState(end, log_start_offset, leader_end, now_ms, caught_up_ms, broker_epoch)

    def after_election(self, leader_end: int, now_ms: int, *, is_new_leader: bool, is_in_sync: bool) -> ReplicaState:
        """An epoch begins at `leader_end`; what was known stays only where the leader is the same.

        A member of the ISR has all of its time to fetch. Another one must not hold back the high watermark, nor come
        back into the ISR, before it has fetched.
        """
        since_ms = now_ms if is_in_sync else NEVER_MS
        if is_new_leader:
            return ReplicaState(last_caught_up_ms=since_ms)
        return self._replace(leader_end_at_last_fetch=leader_end, last_fetch_ms=since_ms, last_caught_up_ms=since_ms)

    def is_caught_up(self, leader_end: int, now_ms: int, max_lag_ms: int) -> bool:
        """A follower at the leader's end always is, even when it has not fetched for long: nothing is missing."""
        return self.end.offset == leader_end or now_ms - self.last_caught_up_ms <= max_lag_ms
