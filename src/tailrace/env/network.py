"""Streams of bytes to other nodes. Production opens sockets, the simulator delays, loses and cuts.

A stream belongs to the thread that opened it. Its listener is called on that thread, never from within `connect`,
`send` or `close`:

    connected   at most once, before anything is received
    received    any number of times
    closed      at most once, last; not after the owner's own `close`

What arrived before the end of a stream is received before `closed`. A stream has no half-closed state: if the other
side ends its direction, the stream is closed. A failure of `send` is reported by `closed`, not by `send`.

Memory. A stream holds what `send` was given and the system has not taken, and nothing that it received. The owner
bounds the former; what is received, the owner must handle or keep during `received`.

Who may call. The owner's thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from tailrace.env.files import Buffer


class CloseReason(Enum):
    REFUSED = "connection refused"
    """Every address of the host was tried, and every one refused: no process listens on the port."""
    UNREACHABLE = "host unreachable"
    """Every other failure to connect: the name has no address, there is no route, an address did not respond within the
    time for connecting, or only some addresses refused. After `connected`: the system gave up retransmitting."""
    CLOSED = "closed by the other side"
    """In order, after everything that it sent."""
    RESET = "connection reset"
    """The other side is gone or does not know the connection; what was sent may have been lost."""


class StreamListener(Protocol):
    def connected(self) -> None: ...

    def received(self, data: memoryview) -> None:
        """`data` is valid during the call only."""

    def closed(self, reason: CloseReason, detail: str) -> None:
        """`detail` is for the log: what the system says."""


class Stream(Protocol):
    @property
    def unsent_bytes(self) -> int:
        """What `send` has taken and the system has not. The owner bounds it."""

    def send(self, parts: Sequence[Buffer]) -> None:
        """Never waits. The buffers must not change until they are sent. Before `connected` they wait for it."""

    def close(self) -> None:
        """At once; what is not sent is dropped."""


class Network(Protocol):
    def connect(self, host: str, port: int, listener: StreamListener, timeout_ms: int) -> Stream:
        """Begin to connect. `timeout_ms` is the time for resolving the name and connecting.

        A name with several addresses is tried address by address. Whatever is wrong with `host` and `port`, which may
        come from another node, the listener gets `closed`: `connect` does not raise.
        """


class NoNetwork:
    """For programs that open no streams: command-line tools on files, tests of one log."""

    def connect(self, host: str, port: int, listener: StreamListener, timeout_ms: int) -> Stream:
        raise NotImplementedError(f"this environment has no network: cannot connect to {host}:{port}")
