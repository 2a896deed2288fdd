"""Voter sets of the log by offset: the newest one counts as soon as it is appended, and goes when it is truncated."""

from __future__ import annotations

from typing import NamedTuple

from tailrace.model.ids import ZERO_DIRECTORY_ID
from tailrace.raft.consensus.messages import NO_OFFSET, ReplicaKey, VoterChange
from tailrace.raft.voters import STATIC_VOTERS, Voter


class VoterSet(NamedTuple):
    """`offset` is that of the last record that made it; -1 for a configured set and one of a bootstrap snapshot."""

    offset: int
    kraft_version: int
    voters: tuple[Voter, ...]

    def voter(self, node_id: int) -> Voter | None:
        return next((voter for voter in self.voters if voter.node_id == node_id), None)

    def has(self, replica: ReplicaKey) -> bool:
        """Whether this replica votes. A voter without a directory id is known by its node id only."""
        voter = self.voter(replica.node_id)
        return voter is not None and voter.directory_id in (ZERO_DIRECTORY_ID, replica.directory_id)

    def is_only(self, replica: ReplicaKey) -> bool:
        return len(self.voters) == 1 and self.has(replica)

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    @property
    def node_ids(self) -> tuple[int, ...]:
        return tuple(sorted(voter.node_id for voter in self.voters))

    def with_voter(self, voter: Voter) -> tuple[Voter, ...]:
        """The voters with this one added, or replaced where it has the same node id."""
        others = [other for other in self.voters if other.node_id != voter.node_id]
        return tuple(sorted([*others, voter]))

    def without(self, node_id: int) -> tuple[Voter, ...]:
        return tuple(voter for voter in self.voters if voter.node_id != node_id)


def key_of(voter: Voter) -> ReplicaKey:
    return ReplicaKey(voter.node_id, voter.directory_id)


class VoterLog:
    """`sets` ascend by offset; the first one is what the log's start, or the configuration, says."""

    def __init__(self, base: VoterSet) -> None:
        self.sets = [base]

    @property
    def latest(self) -> VoterSet:
        return self.sets[-1]

    def append(self, change: VoterChange) -> None:
        latest = self.latest
        kraft_version = latest.kraft_version if change.kraft_version is None else change.kraft_version
        voters = latest.voters if change.voters is None else change.voters
        self.sets.append(VoterSet(change.offset, kraft_version, voters))

    def truncate(self, end_offset: int) -> None:
        """Sets of records from `end_offset` on no longer count."""
        while len(self.sets) > 1 and self.sets[-1].offset >= end_offset:
            self.sets.pop()

    def trim(self, start_offset: int) -> None:
        """Forgets sets that were replaced by a record below `start_offset`."""
        while len(self.sets) > 1 and self.sets[1].offset < start_offset:
            del self.sets[0]

    def replace(self, base: VoterSet) -> None:
        self.sets = [base]

    @classmethod
    def configured(cls, voters: tuple[Voter, ...]) -> VoterLog:
        return cls(VoterSet(NO_OFFSET, STATIC_VOTERS, voters))
