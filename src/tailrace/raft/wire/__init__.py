"""Kafka's messages of the metadata quorum, translated from and to the values of `raft.consensus.messages`.

    accept     a request that arrived      -> value, or a RefusedRequestError with the response
    respond    value                       -> the response to that request, in its version
    ask        value                       -> a request to another node
    read       the response of that node   -> value, or InvalidDataError

    key  API                versions  who sends it
    1    Fetch              4-18      replicas and observers; of the topic `__cluster_metadata` only
    18   ApiVersions        0-4       a leader, for the range of kraft.version of a new voter
    52   Vote               0-2       voters; 2: pre-votes
    53   BeginQuorumEpoch   0-1       a leader
    54   EndQuorumEpoch     0-1       a leader that resigns
    59   FetchSnapshot      0-1       replicas and observers
    80   AddRaftVoter       0-1       administrators, and observers that join; 1: acknowledged when appended
    81   RemoveRaftVoter    0         the same
    82   UpdateRaftVoter    0         voters whose endpoints or versions changed

What is checked here, as in Kafka: the cluster id, where the request has one, and that it names the partition 0 of the
metadata topic and no other. Everything else is checked by the core. A field that a version lacks gets the default of
the value; a response in such a version leaves it out.
"""

from __future__ import annotations

from tailrace.raft.wire.addressing import QuorumAddress, RefusedRequestError
from tailrace.raft.wire.translation import accept, ask, read, respond

__all__ = ["QuorumAddress", "RefusedRequestError", "accept", "ask", "read", "respond"]
