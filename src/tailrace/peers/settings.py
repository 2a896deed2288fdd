"""Limits and times of the connections of one `Peers`. The defaults are the values that Kafka nodes use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PeerSettings:
    client_id: str
    discovers: bool = True
    """Whether ApiVersions is asked first. Without it, every request gives its version."""
    connect_timeout_ms: int = 10_000
    """For resolving a name and connecting, and again for agreeing on versions."""
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    idle_ms: int = 540_000
    """Less than `connections.max.idle.ms` of brokers, so that this side closes first."""
    max_queued: int = 100
    """Requests to one node that wait to be sent."""
    max_in_flight: int = 1
    """Requests to one node without their response. A broker handles those of one connection one after the other."""
    max_response_bytes: int = 100 << 20
    trusted_bytes: int = 1 << 20
    """Of a response are allocated before they arrive. Larger responses are copied as they grow."""
    max_elements: int = 1_000_000
    """In all arrays of one response."""
