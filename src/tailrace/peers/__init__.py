"""Requests to other nodes: connections that come and go, and requests that end once, with a response or a failure.

    Peers                    sends requests, connects as needed, reports what happens to connections
    PeerSettings             limits and times of one `Peers`
    PeerFailure              why a request has no response
    PeerEvent                what happened to a connection
    ProbeResult              whether a port accepts connections now

Nothing here knows sockets or waits: connections are streams of `env.network`, and time is that of `env`.
"""

from __future__ import annotations

from tailrace.peers.outcome import (
    FailureKind,
    PeerEvent,
    PeerEventKind,
    PeerFailure,
    ProbeOutcome,
    ProbeResult,
)
from tailrace.peers.peer_link import Done
from tailrace.peers.peers import Peers
from tailrace.peers.settings import PeerSettings

__all__ = [
    "Done",
    "FailureKind",
    "PeerEvent",
    "PeerEventKind",
    "PeerFailure",
    "PeerSettings",
    "Peers",
    "ProbeOutcome",
    "ProbeResult",
]
