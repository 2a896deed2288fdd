"""Requests and responses between replicas of the quorum, as values.

The driver translates them from and to Kafka's messages. It checks the cluster id and the topic partition, which no
value here has. A field that an old version of a message lacks has a default here. Errors are `ErrorCode`s; a driver may
pass on any other code of Kafka as an `int`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tailrace.model.ids import ZERO_DIRECTORY_ID, DirectoryId
from tailrace.raft.consensus.error_code import ErrorCode
from tailrace.raft.snapshot import SnapshotId
from tailrace.raft.voters import DYNAMIC_VOTERS, NO_NODE, STATIC_VOTERS, QuorumEndpoint, Voter

NO_EPOCH: Final = -1
NO_OFFSET: Final = -1
UNKNOWN_HIGH_WATERMARK: Final = 2**63 - 1
"""In a fetch of a version below 18. No high watermark exceeds it, so such a fetch is not answered early."""


class ReplicaKey(NamedTuple):
    """A node and the directory in which it keeps the log. Zero: the directory is not known, or does not matter."""

    node_id: int
    directory_id: DirectoryId = ZERO_DIRECTORY_ID

    def __str__(self) -> str:
        return f"{self.node_id}" if self.directory_id == ZERO_DIRECTORY_ID else f"{self.node_id}@{self.directory_id}"


class VoterChange(NamedTuple):
    """A KRaftVersionRecord or a VotersRecord in the log, or both at their last offset. None: not in the record."""

    offset: int
    kraft_version: int | None = None
    voters: tuple[Voter, ...] | None = None


class LogRun(NamedTuple):
    """Consecutive batches of one epoch, without their records: offsets from `base_offset` up to below `end_offset`."""

    base_offset: int
    end_offset: int
    epoch: int
    changes: tuple[VoterChange, ...] = ()


class EndOffset(NamedTuple):
    """Where an epoch ends in the log of the leader."""

    epoch: int
    offset: int


class Leadership(NamedTuple):
    """The leader and epoch that a response names. `leader_id` is -1 if the sender knows no leader."""

    leader_id: int = NO_NODE
    epoch: int = NO_EPOCH
    endpoints: tuple[QuorumEndpoint, ...] = ()


class VoteRequest(NamedTuple):
    """`voter` is the receiver, or None if the sender does not name it (version 0)."""

    epoch: int
    candidate: ReplicaKey
    voter: ReplicaKey | None
    last_epoch: int
    end_offset: int
    is_pre_vote: bool = False


class VoteResponse(NamedTuple):
    """Does not say whether it is about a pre-vote: the sender of the request knows."""

    error: int = ErrorCode.NONE
    leadership: Leadership = Leadership()
    is_granted: bool = False


class BeginQuorumEpochRequest(NamedTuple):
    epoch: int
    leader_id: int
    voter: ReplicaKey | None
    endpoints: tuple[QuorumEndpoint, ...] = ()


class BeginQuorumEpochResponse(NamedTuple):
    error: int = ErrorCode.NONE
    leadership: Leadership = Leadership()


class EndQuorumEpochRequest(NamedTuple):
    epoch: int
    leader_id: int
    preferred: tuple[ReplicaKey, ...]
    endpoints: tuple[QuorumEndpoint, ...] = ()


class EndQuorumEpochResponse(NamedTuple):
    error: int = ErrorCode.NONE
    leadership: Leadership = Leadership()


class FetchRequest(NamedTuple):
    """`replica.node_id` is -1 for a reader that is not a replica."""

    replica: ReplicaKey
    epoch: int
    offset: int
    last_epoch: int
    high_watermark: int = UNKNOWN_HIGH_WATERMARK
    max_wait_ms: int = 0


class FetchResponse(NamedTuple):
    """At most one of `diverging`, `snapshot_id` and records is there.

    `runs` describes the records of a response that was received; the driver has validated their batches and keeps the
    bytes. In a response to send, `read_until` bounds the records: the driver reads whole batches from the offset of the
    request up to this offset, as many bytes as the request allows, and at least one batch.
    A job may read them later, even when this node leads no longer: the follower drops batches of a later epoch. If the
    offset is gone by then, the driver closes the connection or drops the response.
    """

    error: int = ErrorCode.NONE
    leadership: Leadership = Leadership()
    high_watermark: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    diverging: EndOffset | None = None
    snapshot_id: SnapshotId | None = None
    runs: tuple[LogRun, ...] = ()
    read_until: int | None = None


class FetchSnapshotRequest(NamedTuple):
    replica: ReplicaKey
    epoch: int
    snapshot_id: SnapshotId
    position: int
    max_bytes: int


class FetchSnapshotResponse(NamedTuple):
    """`chunk_bytes` is the number of bytes from `position` on; the driver keeps them."""

    error: int = ErrorCode.NONE
    leadership: Leadership = Leadership()
    snapshot_id: SnapshotId | None = None
    size_bytes: int = 0
    position: int = 0
    chunk_bytes: int = 0


class AddRaftVoterRequest(NamedTuple):
    voter: Voter
    is_acknowledged_when_committed: bool = True


class RemoveRaftVoterRequest(NamedTuple):
    voter: ReplicaKey


class VoterChangeResponse(NamedTuple):
    """To AddRaftVoter and RemoveRaftVoter."""

    error: int = ErrorCode.NONE
    message: str | None = None


class UpdateRaftVoterRequest(NamedTuple):
    epoch: int
    voter: Voter
    min_kraft_version: int = STATIC_VOTERS
    max_kraft_version: int = DYNAMIC_VOTERS


class UpdateRaftVoterResponse(NamedTuple):
    error: int = ErrorCode.NONE
    leadership: Leadership = Leadership()


class KRaftVersionsRequest(NamedTuple):
    """ApiVersions: which range of kraft.version does the receiver support?"""


class KRaftVersionsResponse(NamedTuple):
    """A receiver that does not list the feature supports 0 to 0."""

    error: int = ErrorCode.NONE
    min_kraft_version: int = STATIC_VOTERS
    max_kraft_version: int = STATIC_VOTERS


InboundRequest = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | AddRaftVoterRequest
    | RemoveRaftVoterRequest
    | UpdateRaftVoterRequest
)
Request = InboundRequest | KRaftVersionsRequest
Response = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | VoterChangeResponse
    | UpdateRaftVoterResponse
    | KRaftVersionsResponse
)
