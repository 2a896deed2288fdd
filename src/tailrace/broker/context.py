"""Who sends a request, and how it came: everything a handler may know of the connection."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Protocol

from tailrace.protocol.schema import Payload


class Slot:
    """The place of one answer among those of its connection. `parts` is None while it is awaited."""

    __slots__ = ("parts", "when_dropped")

    def __init__(self) -> None:
        self.parts: list[Payload] | None = None
        self.when_dropped: Callable[[], None] | None = None
        """Called when the connection ends first."""


class ClientConnection(Protocol):
    def when_closed(self, key: Hashable, action: Callable[[], None]) -> None:
        """`action` is called when the client has gone away; under the same key there is only the last one."""

    def fail(self, error: Exception) -> None:
        """Close the connection; requests that came after this one are not handled."""


class RequestContext:
    """`listener` is the name of the one that the client connected to; `now_ms` is the wall clock at arrival.

    A request that is forwarded was checked by the broker that its client connected to; `peer_host` and `client_id` are
    the client's.
    """

    __slots__ = (
        "client_id",
        "connection",
        "correlation_id",
        "is_controller_listener",
        "is_forwarded",
        "listener",
        "now_ms",
        "peer_host",
        "slot",
        "version",
    )

    def __init__(
        self,
        version: int,
        client_id: str,
        listener: str,
        peer_host: str,
        now_ms: int,
        *,
        is_controller_listener: bool = False,
        is_forwarded: bool = False,
        correlation_id: int = 0,
        slot: Slot | None = None,
        connection: ClientConnection | None = None,
    ) -> None:
        self.version = version
        self.client_id = client_id
        self.listener = listener
        self.peer_host = peer_host
        self.now_ms = now_ms
        self.is_controller_listener = is_controller_listener
        self.is_forwarded = is_forwarded
        self.correlation_id = correlation_id
        self.slot = slot
        self.connection = connection

    def when_closed(self, key: Hashable, action: Callable[[], None]) -> None:
        """`action` is called when the client goes away, answered or not."""
        if self.connection is not None:
            self.connection.when_closed(key, action)

    def fail(self, error: Exception) -> None:
        """Close the connection instead of a response."""
        if self.connection is None:
            raise error
        self.connection.fail(error)

    def when_dropped(self, action: Callable[[], None]) -> None:
        """`action` is called if the client goes away before it is answered."""
        if self.slot is not None:
            self.slot.when_dropped = action
