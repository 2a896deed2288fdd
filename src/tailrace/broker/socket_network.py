"""Streams to other nodes over sockets, in the loop of the server's own sockets: the `Network` of production.

A connect tries the addresses of a name in turn, each for its share of the time that is left. It is `REFUSED` only if
every one of them refused.

Sending. `send` writes at once. What the socket does not take waits for it to become writable, and counts as unsent.
Receiving. One read an event, into a buffer that all streams share. A listener handles the bytes before it returns, so
nothing accumulates here.

A descriptor is closed at the end of the reactor's round. Until then the system cannot give its number to a new socket,
which would get events of the old one.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Final

from tailrace.broker.name_resolution import NameResolver, SocketAddress
from tailrace.broker.reactor import READABLE, WRITABLE, Reactor
from tailrace.env import Buffer, Clock, CloseReason, Jobs, StreamListener
from tailrace.env.memory import zeroed_memory

RECEIVE_BUFFER_BYTES: Final = 256 << 10
PARTS_PER_WRITE: Final = 512  # below IOV_MAX
MAX_LAST_READS: Final = 64
"""After a failed send: how often what arrived before is read, at most."""

_RESET: Final = (errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED)


class SocketNetwork:
    """Implements `Network`. The thread of the reactor owns it."""

    def __init__(self, reactor: Reactor, jobs: Jobs, clock: Clock, resolver: NameResolver | None = None) -> None:
        self.reactor = reactor
        self.jobs = jobs
        self.clock: Clock = clock
        self.resolver = resolver or NameResolver(jobs)
        self.buffer = zeroed_memory(RECEIVE_BUFFER_BYTES)
        self.streams: set[SocketStream] = set()
        self._closing: list[socket.socket] = []

    def connect(self, host: str, port: int, listener: StreamListener, timeout_ms: int) -> SocketStream:
        stream = SocketStream(self, host, port, listener, timeout_ms)
        self.streams.add(stream)
        self.reactor.soon(stream.start)
        return stream

    def close(self) -> None:
        """End all streams without an event. The reactor runs no longer, but is not closed yet."""
        for stream in list(self.streams):
            stream.close()
        self._close_sockets()

    def drop(self, sock: socket.socket) -> None:
        """No further event of it is delivered, and it is closed at the end of the round."""
        self.reactor.remove(sock.fileno())
        self._closing.append(sock)
        if len(self._closing) == 1:
            self.reactor.soon(self._close_sockets)

    def _close_sockets(self) -> None:
        sockets, self._closing = self._closing, []
        for sock in sockets:
            sock.close()


class SocketStream:
    """Implements `Stream`. A stream without `_listener` has ended."""

    __slots__ = (
        "_addresses",
        "_deadline_ms",
        "_events",
        "_failures",
        "_host",
        "_is_connected",
        "_listener",
        "_network",
        "_out",
        "_port",
        "_refused",
        "_send_error",
        "_socket",
        "_target",
        "_timeout_ms",
        "unsent_bytes",
    )

    def __init__(self, network: SocketNetwork, host: str, port: int, listener: StreamListener, timeout_ms: int) -> None:
        self._network = network
        self._host = host
        self._port = port
        self._listener: StreamListener | None = listener
        self._timeout_ms = timeout_ms
        self._deadline_ms = network.clock.monotonic_ms() + timeout_ms
        self._addresses: deque[SocketAddress] = deque()
        self._failures: list[str] = []
        self._refused = 0
        self._socket: socket.socket | None = None
        self._target: SocketAddress | None = None
        self._events = 0
        self._is_connected = False
        self._out: deque[memoryview] = deque()
        self._send_error: OSError | None = None
        self.unsent_bytes = 0

    # Connecting

    def start(self) -> None:
        """Never from within `connect`, which the listener may not be called from."""
        if self._listener is not None:
            self._network.jobs.later("connect-timeout", self._timeout_ms, self._connect_timed_out)
            self._network.resolver.resolve(self._host, self._port, self._resolved)

    def _resolved(self, result: list[SocketAddress] | str) -> None:
        if self._listener is None:
            return
        if isinstance(result, str):
            self._end(CloseReason.UNREACHABLE, result)
            return
        self._addresses.extend(result)
        self._try_next()

    def _try_next(self) -> None:
        """Begin to connect to the next address; without one, the connect has failed."""
        while self._addresses:
            target = self._addresses.popleft()
            try:
                self._begin(target)
                return
            except OSError as error:
                self._failed(target, error)
        is_refused = 0 < self._refused == len(self._failures)
        reason = CloseReason.REFUSED if is_refused else CloseReason.UNREACHABLE
        self._end(reason, "; ".join(self._failures))

    def _begin(self, target: SocketAddress) -> None:
        sock = socket.socket(target.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            code = sock.connect_ex(target.address)
            if code not in (0, errno.EINPROGRESS):
                raise OSError(code, os.strerror(code))
            self._network.reactor.add(sock.fileno(), WRITABLE, self._on_events)
        except OSError:
            sock.close()
            raise
        self._socket, self._target = sock, target
        self._events = WRITABLE
        if self._addresses:
            left_ms = max(self._deadline_ms - self._network.clock.monotonic_ms(), 0)
            share_ms = left_ms // (len(self._addresses) + 1)
            self._network.jobs.later("connect-timeout", share_ms, partial(self._address_timed_out, sock))

    def _connect_ended(self) -> None:
        assert self._socket is not None
        error = _connect_error(self._socket)
        if error is None:
            self._connected()
        else:
            self._address_failed(error)

    def _address_failed(self, error: OSError) -> None:
        assert self._target is not None
        self._drop_socket()
        self._failed(self._target, error)
        self._try_next()

    def _failed(self, target: SocketAddress, error: OSError) -> None:
        self._refused += error.errno == errno.ECONNREFUSED
        self._failures.append(f"{target}: {error.strerror}")

    def _address_timed_out(self, sock: socket.socket) -> None:
        if self._socket is sock and not self._is_connected:
            self._address_failed(OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)))

    def _connect_timed_out(self) -> None:
        if self._listener is not None and not self._is_connected:
            self._failures.append(f"no connection within {self._timeout_ms} ms")
            self._end(CloseReason.UNREACHABLE, "; ".join(self._failures))

    def _connected(self) -> None:
        assert self._listener is not None
        self._is_connected = True
        self._listener.connected()
        self._write()

    # Bytes

    def _on_events(self, events: int) -> None:
        if not self._is_connected:
            self._connect_ended()
            return
        if events & WRITABLE:
            self._write()
        if events & ~WRITABLE and self._listener is not None:
            self._read()

    def send(self, parts: Sequence[Buffer]) -> None:
        if self._listener is None or self._send_error is not None:
            return
        was_idle = not self._out
        for part in parts:
            view = memoryview(part).cast("B")
            if view:
                self._out.append(view)
                self.unsent_bytes += len(view)
        if was_idle and self._is_connected:
            self._write()

    def _write(self) -> None:
        """What the socket takes. The listener is not called from here: it may be the caller of `send`."""
        if self._socket is None or self._send_error is not None:
            return  # the listener closed the stream
        out, is_full = self._out, False
        while out and not is_full:
            parts = list(islice(out, PARTS_PER_WRITE))
            try:
                count = self._socket.sendmsg(parts)
            except BlockingIOError:
                break
            except OSError as error:
                self._send_error = error
                self._drop_output()
                self._network.reactor.soon(self._end_after_failed_send)
                break
            self.unsent_bytes -= count
            is_full = count < sum(map(len, parts))
            while out and count >= len(out[0]):
                count -= len(out.popleft())
            if count:
                out[0] = out[0][count:]
        self._watch(READABLE | WRITABLE if out else READABLE)

    def _watch(self, events: int) -> None:
        if events != self._events and self._socket is not None:
            self._events = events
            self._network.reactor.change(self._socket.fileno(), events)

    def _read(self) -> bool:
        """Read once and hand on; whether there may be more."""
        assert self._socket is not None
        assert self._listener is not None
        buffer = self._network.buffer
        try:
            count = self._socket.recv_into(buffer)
        except BlockingIOError:
            return False
        except OSError as error:
            self._end(CloseReason.RESET if error.errno in _RESET else CloseReason.UNREACHABLE, str(error.strerror))
            return False
        if not count:
            if self._send_error is None:
                self._end(CloseReason.CLOSED, "end of stream")
            return False
        self._listener.received(buffer[:count])
        return True

    def _end_after_failed_send(self) -> None:
        """What arrived before is received first. The error was reported to `send`, so reading may find a mere end."""
        error = self._send_error
        assert error is not None
        for _ in range(MAX_LAST_READS):
            if self._listener is None or not self._read():
                break
        reason = CloseReason.RESET if error.errno in _RESET else CloseReason.UNREACHABLE
        self._end(reason, str(error.strerror))

    # End

    def close(self) -> None:
        self._listener = None
        self._addresses.clear()
        self._drop_output()
        self._drop_socket()
        self._network.streams.discard(self)

    def _end(self, reason: CloseReason, detail: str) -> None:
        listener = self._listener
        if listener is not None:
            self.close()
            listener.closed(reason, detail)

    def _drop_output(self) -> None:
        self._out.clear()
        self.unsent_bytes = 0

    def _drop_socket(self) -> None:
        sock, self._socket = self._socket, None
        if sock is not None:
            self._network.drop(sock)


def _connect_error(sock: socket.socket) -> OSError | None:
    """None if the socket is connected to another one.

    A connect to an unused port of this host can meet itself: the system chooses the port as the local one, too. Then no
    process listens there, and the socket would keep the port from the process that wants to.
    """
    code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code == 0:
        try:
            if sock.getsockname() != sock.getpeername():
                return None
            code = errno.ECONNREFUSED
        except OSError as error:
            return error
    return OSError(code, os.strerror(code))
