"""How requests, connections and probes end."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from tailrace.config.voters import Address


class FailureKind(Enum):
    REFUSED = "connection refused"
    """Every address of the host refused: no process listens there."""
    UNREACHABLE = "host unreachable"
    DISCONNECTED = "disconnected"
    """The connection ended, for whatever reason, before the response."""
    TIMEOUT = "request timed out"
    UNSUPPORTED_VERSION = "unsupported version"
    """No version of the API is common, or the common one lacks a field that the request needs."""
    BAD_RESPONSE = "bad response"
    """The bytes that came back are not a response to this request, or the node does not negotiate versions."""
    NOT_ENCODABLE = "request cannot be encoded"
    QUEUE_FULL = "too many requests wait for this node"
    CLOSED = "this node closes its connections"


class PeerFailure(NamedTuple):
    """Why a request has no response."""

    address: Address
    kind: FailureKind
    was_sent: bool
    """Whether the node may have received it, and so may have done what it asks."""
    detail: str

    def __str__(self) -> str:
        sent = "after" if self.was_sent else "before"
        return f"{self.address}: {self.kind.value} {sent} the request was sent: {self.detail}"


class PeerEventKind(Enum):
    CONNECTED = "connected"
    REFUSED = "connection refused"
    """By every address of the host."""
    UNREACHABLE = "host unreachable"
    CLOSED = "closed by the other side"
    RESET = "connection reset"
    DROPPED = "connection dropped"
    """After a timeout or a bad response, or because it was idle: no evidence about the other node."""


class PeerEvent(NamedTuple):
    """What happened to the connection to one node."""

    address: Address
    kind: PeerEventKind
    detail: str


class ProbeOutcome(Enum):
    ACCEPTED = "accepted"
    REFUSED = "refused"
    """By every address of the host."""
    UNREACHABLE = "unreachable"
    """Anything else, a timeout too: no evidence."""


class ProbeResult(NamedTuple):
    address: Address
    outcome: ProbeOutcome
    detail: str
