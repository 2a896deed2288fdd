"""What the core asks its driver to do, as values. The driver executes them in the order of the list.

`AppendControl`, `AppendFetched`, `TruncateLog` and `FlushLog` count in the core as soon as they are emitted. The driver
executes log effects one after the other and before any later append. An effect with a `number` ends when the driver
calls `RaftCore.persisted(number)`; a driver that cannot execute one must stop its node.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from tailrace.model.errors import TailraceError
from tailrace.protocol.message import Record
from tailrace.raft.consensus.messages import FetchSnapshotRequest, Request, Response
from tailrace.raft.quorum_state import QuorumState
from tailrace.raft.snapshot import SnapshotId
from tailrace.raft.voters import QuorumEndpoint, Voter


class RoleName(Enum):
    UNATTACHED = "Unattached"
    PROSPECTIVE = "Prospective"
    CANDIDATE = "Candidate"
    LEADER = "Leader"
    FOLLOWER = "Follower"
    RESIGNED = "Resigned"


class PersistElection(NamedTuple):
    """Replace the file quorum-state durably. The core keeps back what depends on it until it is `persisted`."""

    number: int
    state: QuorumState
    kraft_version: int


class AppendControl(NamedTuple):
    """Append one control batch with these records at `base_offset`, the end of the log."""

    base_offset: int
    epoch: int
    records: tuple[Record, ...]


class AppendFetched(NamedTuple):
    """Append the records of the response to `correlation_id`, from the end of the log up to `end_offset`."""

    correlation_id: int
    end_offset: int


class TruncateLog(NamedTuple):
    """Remove all records from `end_offset` on. `persisted` when that is done; nothing is fetched before."""

    number: int
    end_offset: int


class FlushLog(NamedTuple):
    """Make the log durable up to `end_offset`. `persisted` when an fsync that began after this effect has returned."""

    number: int
    end_offset: int


class Send(NamedTuple):
    """Send a request. A negative `node_id` names a bootstrap server whose node id is not known.

    The driver passes on the response or the failure. The core itself gives the request up after the request timeout.
    """

    correlation_id: int
    node_id: int
    endpoints: tuple[QuorumEndpoint, ...]
    request: Request


class Respond(NamedTuple):
    request_id: int
    response: Response


class RespondWithSnapshot(NamedTuple):
    """Read a chunk of the snapshot and respond. SNAPSHOT_NOT_FOUND and POSITION_OUT_OF_RANGE are the driver's."""

    request_id: int
    request: FetchSnapshotRequest
    leader_id: int
    epoch: int


class StartSnapshot(NamedTuple):
    """Begin a file for a snapshot of the leader; a partial file of the same id is replaced."""

    snapshot_id: SnapshotId


class WriteSnapshot(NamedTuple):
    """Write the chunk of the response to `correlation_id` at `position`."""

    correlation_id: int
    snapshot_id: SnapshotId
    position: int


class InstallSnapshot(NamedTuple):
    """Verify the snapshot, make it durable, and replace the whole log by it.

    The driver calls `RaftCore.snapshot_installed`, or `snapshot_failed` if the file is damaged; then the log is as it
    was.
    """

    snapshot_id: SnapshotId


class AbandonSnapshot(NamedTuple):
    """Delete the partial file of a snapshot."""

    snapshot_id: SnapshotId


class HighWatermarkMoved(NamedTuple):
    """Everything below `offset` is committed."""

    offset: int


class RoleChanged(NamedTuple):
    role: RoleName
    epoch: int
    leader_id: int


class LeadershipGained(NamedTuple):
    """This node leads, and all records of earlier epochs are committed: the driver may append."""

    epoch: int


class LeadershipLost(NamedTuple):
    """Follows each LeadershipGained: records of the epoch that are not committed yet may be lost."""

    epoch: int


class VotersChanged(NamedTuple):
    """The newest voter set of the log, committed or not. `offset` is -1 if no record of the log says it."""

    kraft_version: int
    voters: tuple[Voter, ...]
    offset: int


class Fail(NamedTuple):
    """The node must stop: its log contradicts what it knows to be committed. The core takes no input after this."""

    error: TailraceError


LogEffect = AppendControl | AppendFetched | TruncateLog | FlushLog | InstallSnapshot
SnapshotEffect = StartSnapshot | WriteSnapshot | AbandonSnapshot
MessageEffect = Send | Respond | RespondWithSnapshot
Notification = HighWatermarkMoved | RoleChanged | LeadershipGained | LeadershipLost | VotersChanged | Fail
Effect = PersistElection | LogEffect | SnapshotEffect | MessageEffect | Notification
