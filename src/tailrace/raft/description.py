"""What DescribeQuorum says of the quorum, as values."""

from __future__ import annotations

from typing import NamedTuple

from tailrace.model.ids import DirectoryId
from tailrace.raft.voters import QuorumEndpoint


class ReplicaState(NamedTuple):
    """What DescribeQuorum says of a voter or an observer. The leader counts itself as caught up now."""

    node_id: int
    directory_id: DirectoryId
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int


class QuorumDescription(NamedTuple):
    """`endpoints` are those of the voters, by node id."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[ReplicaState, ...]
    observers: tuple[ReplicaState, ...]
    endpoints: dict[int, tuple[QuorumEndpoint, ...]]
