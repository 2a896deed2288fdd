"""Who asks for an append; it decides how much of the append is doubted."""

from __future__ import annotations

from enum import Enum


class Origin(Enum):
    REPLICATION = "replication"  # bytes of the leader's log, or of our own at recovery: believed
    COORDINATOR = "coordinator"  # a group or transaction coordinator of this cluster: epochs checked, no sequences
    CLIENT = "client"  # a producer: everything checked
    RAFT_LEADER = "raft leader"  # the controller quorum's own log: no producers at all
