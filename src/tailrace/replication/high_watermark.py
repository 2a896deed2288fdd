"""How far a partition is committed: the lowest log end among the replicas that count.

Who counts: every member of the maximal ISR, and whoever is caught up and may join it. Without the second rule a leader
that is alone in its ISR would run away from a follower that is just behind it, which then never joins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tailrace.model.offsets import LogOffsetMetadata
from tailrace.replication.isr_state import Isr
from tailrace.replication.replica_state import ReplicaState


def effective_min_isr(min_insync_replicas: int, replication_factor: int) -> int:
    """More replicas than there are cannot be asked for: a setting above the replication factor stops no write."""
    return min(min_insync_replicas, replication_factor)


def committed_end(
    leader_end: LogOffsetMetadata,
    followers: Mapping[int, ReplicaState],
    maximal_isr: Isr,
    may_join: Callable[[int, ReplicaState], bool],
    now_ms: int,
    max_lag_ms: int,
) -> LogOffsetMetadata:
    """Where the high watermark belongs; the log moves it there only if that is forward."""
    lowest = leader_end
    for replica, state in followers.items():
        if state.end.offset < lowest.offset and (
            replica in maximal_isr
            or (state.is_caught_up(leader_end.offset, now_ms, max_lag_ms) and may_join(replica, state))
        ):
            lowest = state.end
    return lowest
