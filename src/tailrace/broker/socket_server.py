"""The listeners of a process and the connections that came in on them: how many, how idle, how much they may hold."""

from __future__ import annotations

import errno
import logging
import resource
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from tailrace.broker.byte_budget import ByteBudget
from tailrace.broker.channel import Channel, Transport
from tailrace.broker.connection import Connection
from tailrace.broker.frame_buffers import FrameBuffers
from tailrace.broker.metrics import BrokerMetrics
from tailrace.broker.reactor import READABLE, Reactor
from tailrace.config.listeners import Listener
from tailrace.config.server import ServerConfig
from tailrace.env import Jobs
from tailrace.env.memory import zeroed_memory

_log = logging.getLogger(__name__)

RECEIVE_BUFFER_BYTES: Final = 512 << 10
ACCEPTS_AT_A_TIME: Final = 64
SHORT_OF_DESCRIPTORS_MS: Final = 100  # how long no connection is accepted when the process has no descriptor for it
FILES_SHARE: Final = 8  # of the descriptors, so many-th are left to files: a log that cannot open one is lost
FEWEST_FOR_FILES: Final = 64
RATE_WINDOW_MS: Final = 1000
DAWDLER_SWEEP_MS: Final = 1000
IDLE_SWEEPS: Final = 20  # in the time after which an idle connection is closed
_NO_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_FROM_SYSTEM: Final = -1

MakeChannel = Callable[[Transport, str, str], Channel]


class SocketServer:
    def __init__(
        self,
        reactor: Reactor,
        jobs: Jobs,
        config: Callable[[], ServerConfig],
        metrics: BrokerMetrics,
        make_channel: MakeChannel,
    ) -> None:
        """`config` gives the settings as they are now: limits of connections may change."""
        self.reactor = reactor
        self.jobs = jobs
        self._config = config
        self._metrics = metrics
        self._make_channel = make_channel
        self.buffer = zeroed_memory(RECEIVE_BUFFER_BYTES)
        self.frame_buffers = FrameBuffers()
        self.budget = metrics.budget = ByteBudget(config().queued_max_request_bytes)
        self._descriptors_end = _descriptors_end()
        self._listening: dict[str, socket.socket] = {}
        self._started: set[str] = set()
        """Listeners that accept connections, unless there are too many."""
        self._is_accepting = False
        self._accepts_again_ms: int | None = None
        self._rate_window_end_ms = 0
        self._accepted_in_window = 0
        self._connections: dict[Connection, str] = {}
        self._per_ip: Counter[str] = Counter()
        self._next_sweep_ms = 0
        self._next_dawdler_ms = 0

    # Listening

    def bind(self, listener: Listener) -> int:
        """Take the address; connections are accepted from `start` on. Returns the port."""
        family = socket.AF_INET6 if ":" in listener.host or (not listener.host and socket.has_ipv6) else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6 and not listener.host:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            size = self._config().socket_receive_buffer_bytes
            if size != _FROM_SYSTEM:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
            sock.bind((listener.host, listener.port))
            sock.listen(self._config().socket_listen_backlog_size)
        except OSError:
            sock.close()
            raise
        self._listening[listener.name] = sock
        return int(sock.getsockname()[1])

    def start(self, names: Iterable[str] | None = None) -> None:
        """Accept connections of these listeners, or of all; of those that were started already, go on to."""
        was_accepting = self._is_accepting
        self._accept(False)
        self._started.update(self._listening if names is None else names)
        if was_accepting or not self._accepts_again_ms:
            self._accept(True)

    def _accept(self, is_wanted: bool) -> None:
        if is_wanted == self._is_accepting:
            return
        self._is_accepting = is_wanted
        for name, sock in self._listening.items():
            if name not in self._started:
                continue
            if is_wanted:
                self.reactor.add(sock.fileno(), READABLE, partial(self._incoming, name, sock))
            else:
                self.reactor.remove(sock.fileno())

    def _incoming(self, listener: str, listening: socket.socket, events: int) -> None:
        for _ in range(ACCEPTS_AT_A_TIME):
            if len(self._connections) >= self._config().max_connections:
                self._accept(False)  # until one of them is closed
                return
            if not self._rate_allows():
                return
            try:
                sock, address = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _NO_DESCRIPTORS:
                    self._pause_accepting(str(error))
                    return
                continue  # that client has gone already
            self._accepted_in_window += 1
            if sock.fileno() >= self._descriptors_end:  # descriptors are given out from the lowest
                self._metrics.listener(listener).connections_refused += 1
                sock.close()
                self._pause_accepting("the descriptors that are left are for files")
                return
            self._welcome(listener, sock, str(address[0]).removeprefix("::ffff:"))

    def _pause_accepting(self, reason: str) -> None:
        _log.warning("no connection can be accepted for %s ms: %s", SHORT_OF_DESCRIPTORS_MS, reason)
        self._accept(False)
        self._accepts_again_ms = self.reactor.now_ms + SHORT_OF_DESCRIPTORS_MS

    def _rate_allows(self) -> bool:
        """Whether `max.connection.creation.rate` lets one more in; if not, the rest wait for the next second."""
        now_ms = self.reactor.now_ms
        if now_ms >= self._rate_window_end_ms:
            self._rate_window_end_ms = now_ms + RATE_WINDOW_MS
            self._accepted_in_window = 0
        if self._accepted_in_window >= self._config().max_connection_creation_rate:
            self._accept(False)
            self._accepts_again_ms = self._rate_window_end_ms
            return False
        return True

    def _welcome(self, listener: str, sock: socket.socket, host: str) -> None:
        config, metrics = self._config(), self._metrics.listener(listener)
        limit = config.connection_limits_by_host.get(host, config.max_connections_per_ip)
        if self._per_ip[host] >= limit:
            _log.info("%s has %s connections already: one more is refused", host, limit)
            metrics.connections_refused += 1
            sock.close()
            return
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if config.socket_send_buffer_bytes != _FROM_SYSTEM:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config.socket_send_buffer_bytes)
            connection = Connection(self, sock, host)
        except OSError as error:  # it is gone already, or the system watches no more sockets for us
            _log.info("a connection of %s is refused: %s", host, error)
            sock.close()
            return
        connection.channel = self._make_channel(connection, listener, host)
        self._connections[connection] = listener
        self._per_ip[host] += 1
        metrics.connections += 1
        metrics.connections_opened += 1

    # Connections

    def forget(self, connection: Connection) -> None:
        metrics = self._metrics.listener(self._connections.pop(connection))
        metrics.connections -= 1
        metrics.connections_closed += 1
        host = connection.peer_host
        self._per_ip[host] -= 1
        if not self._per_ip[host]:
            del self._per_ip[host]
        if not self._is_accepting and self._accepts_again_ms is None and self._listening:
            self._accept(True)

    def due_ms(self) -> int:
        due_ms = self._next_sweep_ms if self._accepts_again_ms is None else self._accepts_again_ms
        return min(due_ms, self._next_dawdler_ms) if self.budget.is_contended else due_ms

    def run_due(self, now_ms: int) -> None:
        if self._accepts_again_ms is not None and now_ms >= self._accepts_again_ms:
            self._accepts_again_ms = None
            self._accept(True)
        if now_ms >= self._next_sweep_ms:
            longest_ms = self._config().connections_max_idle_ms
            self._next_sweep_ms = now_ms + max(longest_ms // IDLE_SWEEPS, 100 if longest_ms >= 0 else 60_000)
            if longest_ms >= 0:
                self._close_idle(now_ms - longest_ms)
            if self._connections and self._listening and self._accepts_again_ms is None:
                self._accept(True)  # more of them may be allowed by now
        if self.budget.is_contended and now_ms >= self._next_dawdler_ms:
            self._next_dawdler_ms = now_ms + DAWDLER_SWEEP_MS
            self._close_dawdlers(now_ms)

    def _close_idle(self, before_ms: int) -> None:
        """Close the connections on which no bytes have moved since `before_ms`, even with a request pending, as Kafka
        does: a client that vanished does not keep its connection for as long as its request may wait."""
        for connection in self._connections:
            if connection.active_ms < before_ms:
                self._metrics.expired_connections += 1
                connection.close()

    def _close_dawdlers(self, now_ms: int) -> None:
        for connection in self._connections:
            if connection.is_dawdling(now_ms):
                _log.info("connection of %s is closed: others wait for a large request of it", connection.peer_host)
                connection.close()

    @property
    def count(self) -> int:
        return len(self._connections)

    def stop_listening(self) -> None:
        self._accept(False)
        for sock in self._listening.values():
            sock.close()
        self._listening.clear()

    def hang_up(self) -> None:
        """On everybody. The connections end with this round of the reactor."""
        for connection in self._connections:
            connection.close()

    def close(self) -> None:
        self.stop_listening()
        self.hang_up()


def _descriptors_end() -> int:
    """Sockets get descriptors below it."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    return limit - max(limit // FILES_SHARE, FEWEST_FOR_FILES)
