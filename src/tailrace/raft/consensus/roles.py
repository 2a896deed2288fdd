"""The state of each role. Epoch, vote and known leader of the epoch belong to `Member`, since they survive roles."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tailrace.raft.consensus.effects import RoleName
from tailrace.raft.consensus.messages import NO_OFFSET, ReplicaKey
from tailrace.raft.consensus.parked_fetches import ParkedFetches
from tailrace.raft.consensus.replica_progress import ReplicaProgress
from tailrace.raft.consensus.voter_log import VoterSet
from tailrace.raft.snapshot import SnapshotId
from tailrace.raft.voters import NO_NODE, QuorumEndpoint, Voter

NEVER: Final = 2**62


class Ballot:
    """Votes of one round, by node id. The voters are those of the moment in which the round began."""

    def __init__(self, voters: VoterSet, local_id: int) -> None:
        self._voters = frozenset(voters.node_ids)
        self._majority = voters.majority
        self.granted: set[int] = {local_id} & self._voters
        self.rejected: set[int] = set()
        self._outdated: set[int] = set()

    def record(self, node_id: int, is_granted: bool) -> None:
        """A voter that has answered may change a rejection to a grant, and never takes back a grant."""
        if node_id not in self._voters or node_id in self.granted:
            return
        if not is_granted and node_id in self._outdated:
            self._outdated.discard(node_id)
            return
        self.rejected.discard(node_id)
        (self.granted if is_granted else self.rejected).add(node_id)

    def ask_again(self, node_id: int) -> None:
        """A rejection by this voter no longer counts, even if it has not arrived yet."""
        if node_id in self.rejected:
            self.rejected.discard(node_id)
        elif node_id in self._voters:
            self._outdated.add(node_id)

    @property
    def is_won(self) -> bool:
        return len(self.granted) >= self._majority

    @property
    def is_lost(self) -> bool:
        return len(self._voters) - len(self.rejected) < self._majority

    @property
    def unrecorded(self) -> list[int]:
        return sorted(self._voters - self.granted - self.rejected)


@dataclass(slots=True)
class Unattached:
    """No leader is known. A voter waits for the election timeout; everyone looks for a leader.

    `without_leader` are the voters that reported that they know no leader either.
    """

    deadline_ms: int
    without_leader: set[int] = field(default_factory=set)
    is_starting: bool = False
    prospective_at_ms: int = NEVER
    probe_at_ms: dict[int, int] = field(default_factory=dict)
    name: RoleName = RoleName.UNATTACHED


@dataclass(slots=True)
class Prospective:
    """Asks the other voters for pre-votes (KIP-996), in its present epoch."""

    ballot: Ballot
    deadline_ms: int
    endpoints: tuple[QuorumEndpoint, ...] = ()
    name: RoleName = RoleName.PROSPECTIVE


@dataclass(slots=True)
class Candidate:
    """Has voted for itself in a new epoch and asks the other voters for their votes."""

    ballot: Ballot
    deadline_ms: int
    name: RoleName = RoleName.CANDIDATE


@dataclass(slots=True)
class SnapshotFetch:
    """A snapshot of the leader of which the bytes below `position` are written."""

    snapshot_id: SnapshotId
    position: int = 0


@dataclass(slots=True)
class Follower:
    """Fetches from the leader. `is_leader_lost`: there is evidence that the leader of this epoch leads no longer."""

    leader_id: int
    endpoints: tuple[QuorumEndpoint, ...]
    deadline_ms: int
    update_voter_at_ms: int
    has_fetched: bool = False
    is_leader_lost: bool = False
    prospective_at_ms: int = NEVER
    has_reported_voter: bool = False
    snapshot: SnapshotFetch | None = None
    name: RoleName = RoleName.FOLLOWER


@dataclass(slots=True)
class VoterOperation:
    """AddRaftVoter or RemoveRaftVoter under way. `offset` is that of its VotersRecord once that is appended."""

    request_id: int
    deadline_ms: int
    added: Voter | None = None
    is_acknowledged_when_committed: bool = True
    offset: int = NO_OFFSET
    has_asked_versions: bool = False


@dataclass(slots=True)
class Leader:
    """`epoch_start` is the offset of the LeaderChange record. Nothing is committed before that is."""

    epoch_start: int
    progress: ReplicaProgress
    begin_at_ms: int
    check_quorum_at_ms: int
    has_established: bool = False
    leave_at_ms: int = NEVER
    operation: VoterOperation | None = None
    parked: ParkedFetches = field(default_factory=ParkedFetches)
    parked_for: tuple[object, ...] = ()
    """The state of the log for which all parked fetches were looked at last."""
    reported: dict[int, Voter] = field(default_factory=dict)
    """With kraft.version 0: what voters said of their directories and endpoints, for the upgrade."""
    name: RoleName = RoleName.LEADER


@dataclass(slots=True)
class Resigned:
    """Led this epoch and leads no longer. Tells the voters until they know, or an election has begun."""

    deadline_ms: int
    preferred: tuple[ReplicaKey, ...]
    unacknowledged: set[int] = field(default_factory=set)
    name: RoleName = RoleName.RESIGNED


Role = Unattached | Prospective | Candidate | Leader | Follower | Resigned


def leader_of(role: Role, local_id: int) -> int:
    """The leader that this node reports to others: only one that it leads or follows itself."""
    if isinstance(role, Leader):
        return local_id
    return role.leader_id if isinstance(role, Follower) else NO_NODE
