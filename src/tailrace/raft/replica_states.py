"""What a leader knows of the replicas, for DescribeQuorum."""

from __future__ import annotations

from collections.abc import Iterable

from tailrace.raft.consensus import RaftCore, ReplicaKey
from tailrace.raft.consensus.replica_progress import NO_TIME
from tailrace.raft.consensus.replica_progress import ReplicaState as CoreReplicaState
from tailrace.raft.description import ReplicaState


def replica_states(
    core: RaftCore, local: ReplicaKey, end_offset: int, now_ms: int, boot_ms: int
) -> tuple[tuple[ReplicaState, ...], tuple[ReplicaState, ...]]:
    """Voters and observers. `boot_ms` is the difference of the wall clock to the core's clock.

    The leader counts itself as caught up now.
    """

    def described(states: Iterable[CoreReplicaState]) -> tuple[ReplicaState, ...]:
        found = []
        for state in sorted(states, key=lambda state: state.key):
            if state.key.node_id == local.node_id:
                found.append(ReplicaState(local.node_id, state.key.directory_id, end_offset, now_ms, now_ms))
                continue
            fetched, caught_up = (
                each + boot_ms if each != NO_TIME else -1 for each in (state.last_fetch_ms, state.last_caught_up_ms)
            )
            found.append(ReplicaState(state.key.node_id, state.key.directory_id, state.end_offset, fetched, caught_up))
        return tuple(found)

    voters, observers = core.replicas()
    return described(voters), described(observers)
