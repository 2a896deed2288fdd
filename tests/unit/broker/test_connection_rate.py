"""max.connection.creation.rate, with a clock that the test sets: connections are real, and wait in the backlog."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, cast

from tailrace.broker.metrics import BrokerMetrics
from tailrace.broker.reactor import READABLE, Reactor
from tailrace.broker.socket_server import SocketServer
from tailrace.config.listeners import Listener
from tailrace.config.server import ServerConfig


class SteppedReactor:
    """Runs the callbacks of all descriptors when it is told to, at the time that it is told."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._callbacks: dict[int, Callable[[int], None]] = {}
        self._soon: list[Callable[[], None]] = []

    def add(self, fd: int, events: int, callback: Callable[[int], None]) -> None:
        self._callbacks[fd] = callback

    def remove(self, fd: int) -> None:
        self._callbacks.pop(fd, None)

    def soon(self, action: Callable[[], None]) -> None:
        self._soon.append(action)

    def run_at(self, now_ms: int, server: SocketServer) -> None:
        self.now_ms = now_ms
        server.run_due(now_ms)
        for callback in list(self._callbacks.values()):
            callback(READABLE)
        self.end_round()

    def end_round(self) -> None:
        actions, self._soon = self._soon, []
        for action in actions:
            action()


class SilentChannel:
    def closed(self) -> None:
        pass


def test_every_second_as_many_connections_are_accepted_as_the_rate_allows() -> None:
    reactor = SteppedReactor()
    config = ServerConfig.single_node({"log.dirs": "/data", "max.connection.creation.rate": "3"})
    server = SocketServer(
        cast(Reactor, reactor),
        cast(Any, None),
        lambda: config,
        BrokerMetrics(),
        lambda *_: cast(Any, SilentChannel()),
    )
    port = server.bind(Listener("PLAINTEXT", "127.0.0.1", 0))
    server.start()
    with ExitStack() as clients:
        for _ in range(8):
            clients.enter_context(socket.create_connection(("127.0.0.1", port), 10))
        accepted = {}
        for now_ms in (5000, 5001, 5999, 6000, 6999, 7000, 7999, 8000):
            reactor.run_at(now_ms, server)
            accepted[now_ms] = server.count
        server.close()
        reactor.end_round()
    assert accepted == {5000: 3, 5001: 3, 5999: 3, 6000: 6, 6999: 6, 7000: 8, 7999: 8, 8000: 8}


def test_listeners_are_started_one_after_the_other() -> None:
    """A voter accepts other controllers before it is ready for clients."""
    reactor, names = SteppedReactor(), list[str]()
    config = ServerConfig.single_node({"log.dirs": "/data"})

    def channel(transport: Any, listener: str, host: str) -> Any:
        names.append(listener)
        return SilentChannel()

    server = SocketServer(cast(Reactor, reactor), cast(Any, None), lambda: config, BrokerMetrics(), channel)
    with ExitStack() as stack:
        for name in ("PLAINTEXT", "CONTROLLER"):
            port = server.bind(Listener(name, "127.0.0.1", 0))
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        reactor.run_at(0, server)
        assert names == []
        server.start(["CONTROLLER"])
        reactor.run_at(1, server)
        assert names == ["CONTROLLER"]
        server.start()
        server.start()
        reactor.run_at(2, server)
        assert names == ["CONTROLLER", "PLAINTEXT"]
        server.close()
        reactor.end_round()
