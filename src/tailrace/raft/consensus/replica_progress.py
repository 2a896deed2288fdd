"""How far each replica has come, as its leader sees it.

High watermark rule: the greatest offset that a majority of the voters has. The leader counts itself up to what is
durable in its log, and only while it is a voter. Others count with the offset of their last valid fetch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tailrace.raft.consensus.consensus_config import CAUGHT_UP_WITHIN_MS, MAX_OBSERVERS, OBSERVER_SESSION_MS
from tailrace.raft.consensus.messages import NO_OFFSET, ReplicaKey
from tailrace.raft.consensus.voter_log import VoterSet, key_of
from tailrace.raft.voters import Voter

NO_TIME = -1


@dataclass(slots=True)
class ReplicaState:
    """Times are those of the core, -1 for never. `leader_end_offset` is the leader's end at the last fetch."""

    key: ReplicaKey
    end_offset: int = NO_OFFSET
    last_fetch_ms: int = NO_TIME
    last_caught_up_ms: int = NO_TIME
    leader_end_offset: int = NO_OFFSET

    def on_fetch(self, offset: int, leader_end_offset: int, now_ms: int) -> None:
        """A replica is caught up now, or was at its previous fetch if it has what the leader had then."""
        if offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif 0 < self.leader_end_offset <= offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.leader_end_offset = leader_end_offset
        self.last_fetch_ms = max(self.last_fetch_ms, now_ms)
        self.end_offset = offset


class ReplicaProgress:
    def __init__(self, local: ReplicaKey, voters: VoterSet) -> None:
        self._local = local
        self.voters: dict[int, ReplicaState] = {}
        self.observers: dict[ReplicaKey, ReplicaState] = {}
        """In the order of their last fetches, except for voters that have become observers since."""
        self._fetched: set[int] = set()
        self._voter_set = voters
        self._is_voter = False
        self.set_voters(voters)

    def set_voters(self, voters: VoterSet) -> None:
        """The state of a replica stays when it becomes a voter or an observer."""
        self._voter_set = voters
        previous, self.voters = self.voters, {}
        for voter in voters.voters:
            state = self._known(voter, previous)
            previous.pop(voter.node_id, None)
            self.observers.pop(state.key, None)
            self.voters[voter.node_id] = state
        for state in previous.values():
            self.observers.setdefault(state.key, state)
        self.observers.pop(self._local, None)
        self._is_voter = voters.has(self._local)
        self._fetched &= self.voters.keys()

    def _known(self, voter: Voter, previous: dict[int, ReplicaState]) -> ReplicaState:
        key = key_of(voter)
        state = previous.get(voter.node_id)
        if state is not None and _is_same(key, state.key):
            return state
        return next((each for each in self.observers.values() if _is_same(key, each.key)), ReplicaState(key))

    def state_of(self, replica: ReplicaKey) -> ReplicaState:
        """Of a replica that fetches now.

        A voter without a directory id is any replica of that node, also one with a new disk.
        """
        if self.is_voter(replica):
            state = self.voters[replica.node_id]
            state.key = replica
            return state
        known = self.observers.pop(replica, None)
        if known is None and len(self.observers) >= MAX_OBSERVERS:
            del self.observers[next(iter(self.observers))]
        self.observers[replica] = observer = ReplicaState(replica) if known is None else known
        return observer

    def is_voter(self, replica: ReplicaKey) -> bool:
        return self._voter_set.has(replica)

    def high_watermark(self, flushed_offset: int) -> int:
        """-1 while a majority has not fetched."""
        offsets = sorted(self._voter_offsets(flushed_offset), reverse=True)
        return offsets[len(offsets) // 2]

    def _voter_offsets(self, flushed_offset: int) -> Iterator[int]:
        for node_id, state in self.voters.items():
            yield flushed_offset if self._is_voter and node_id == self._local.node_id else state.end_offset

    def has_majority_fetched(self, replica: ReplicaKey) -> bool:
        """Records that a replica fetched; True ends the round, when a majority of the voters has."""
        if self.is_voter(replica):
            self._fetched.add(replica.node_id)
        majority = len(self.voters) // 2 + 1 - self._is_voter
        if len(self._fetched) < majority:
            return False
        self._fetched.clear()
        return True

    def is_caught_up(self, replica: ReplicaKey, now_ms: int) -> bool:
        """Whether an observer may become a voter."""
        state = self.observers.get(replica)
        return (
            state is not None
            and state.last_caught_up_ms >= 0
            and state.last_fetch_ms >= 0
            and now_ms - state.last_fetch_ms < CAUGHT_UP_WITHIN_MS
        )

    def successors(self) -> tuple[ReplicaKey, ...]:
        """The other voters, the one with the longest log first."""
        others = [state for state in self.voters.values() if state.key.node_id != self._local.node_id]
        return tuple(state.key for state in sorted(others, key=lambda state: (-state.end_offset, state.key)))

    def forget_observers(self, now_ms: int) -> None:
        while (due_ms := self.next_forgotten_ms()) is not None and due_ms <= now_ms:
            del self.observers[next(iter(self.observers))]

    def next_forgotten_ms(self) -> int | None:
        """A voter that has become an observer is forgotten when it is the first of them."""
        for state in self.observers.values():
            return state.last_fetch_ms + OBSERVER_SESSION_MS
        return None


def _is_same(voter: ReplicaKey, replica: ReplicaKey) -> bool:
    """A voter without a directory id is any replica of that node."""
    return voter.node_id == replica.node_id and (
        voter.directory_id == replica.directory_id or not any(voter.directory_id)
    )
