"""A real broker, with real files and sockets, whose node runs on a thread of the test's own process."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tailrace.broker.node import Node
from tailrace.broker.reactor import Reactor
from tailrace.broker.socket_network import SocketNetwork
from tailrace.broker.socket_server import SocketServer
from tailrace.config.listeners import Listener
from tailrace.config.server import ServerConfig
from tailrace.env import Env
from tailrace.env.real import RealClock, RealFiles, ThreadJobs

TIMEOUT_S = 20
T = TypeVar("T")


class ThreadedBroker:
    """Ready when made; `close` shuts it down cleanly."""

    def __init__(self, folder: Path, **settings: str) -> None:
        """Settings with underscores for dots."""
        given = {name.replace("_", "."): text for name, text in settings.items()}
        given = {"log.dirs": str(folder), "listeners": "PLAINTEXT://127.0.0.1:0", **given}
        config = ServerConfig.single_node(given)
        self.reactor = Reactor()
        clock = RealClock()
        self.jobs = ThreadJobs(clock, 4, self.reactor.wake)
        self.network = SocketNetwork(self.reactor, self.jobs, clock)
        env = Env(files=RealFiles(), clock=clock, jobs=self.jobs, random=random.Random(), network=self.network)
        self.failures: list[Exception] = []
        self.node = Node(env, config, 1000, self.failures.append)
        self.server = SocketServer(
            self.reactor, self.jobs, lambda: self.node.config, self.node.counters, self.node.open_channel
        )
        bound = tuple(Listener(each.name, each.host, self.server.bind(each)) for each in config.listeners)
        self.port = bound[0].port
        self.controller_port = bound[-1].port
        self._is_ready = threading.Event()
        self._is_closed = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(bound,), daemon=True)
        self.thread.start()
        assert self._is_ready.wait(TIMEOUT_S), self.failures

    def _run(self, bound: tuple[Listener, ...]) -> None:
        self.node.start(bound, self._ready)
        self.reactor.run(self)

    def _ready(self) -> None:
        self.server.start()
        self._is_ready.set()

    def due_ms(self) -> int | None:
        dues = (self.server.due_ms(), self.node.purgatory.due_ms, self.jobs.due_ms)
        return min(due for due in dues if due is not None)

    def run_due(self, now_ms: int) -> None:
        self.jobs.step()
        self.node.purgatory.expire_due(now_ms)
        self.server.run_due(now_ms)

    def on_node(self, look: Callable[[], T]) -> T:
        """What `look` finds, on the node's thread."""
        found: list[T] = []
        done = threading.Event()

        def run() -> None:
            found.append(look())
            done.set()

        self.jobs.later("look", 0, run)
        assert done.wait(TIMEOUT_S)
        return found[0]

    def close(self) -> None:
        def ended() -> None:
            self.server.close()
            self.reactor.soon(self.reactor.stop)

        self.jobs.later("shut-down", 0, lambda: self.node.shutdown(ended))
        self.thread.join(TIMEOUT_S)
        assert not self.thread.is_alive()
        self.jobs.close()
        self.network.close()
        self.reactor.close()
