"""A reactor with its jobs on a thread of the test's own process, and streams over real sockets in it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from tailrace.broker.name_resolution import NameResolver
from tailrace.broker.reactor import Reactor
from tailrace.broker.socket_network import SocketNetwork, SocketStream
from tailrace.env import CloseReason
from tailrace.env.real import RealClock, ThreadJobs

TIMEOUT_S = 10
T = TypeVar("T")


class ReactorThread:
    def __init__(self, lookup: Callable[..., list[tuple[Any, ...]]] | None = None) -> None:
        self.reactor = Reactor()
        self.clock = RealClock()
        self.jobs = ThreadJobs(self.clock, 4, self.reactor.wake)
        resolver = None if lookup is None else NameResolver(self.jobs, lookup)
        self.network = SocketNetwork(self.reactor, self.jobs, self.clock, resolver)
        self.thread = threading.Thread(target=self.reactor.run, args=(self,), daemon=True)
        self.thread.start()

    def due_ms(self) -> int | None:
        return self.jobs.due_ms

    def run_due(self, now_ms: int) -> None:
        self.jobs.step()

    def call(self, action: Callable[[], T]) -> T:
        """The result of `action` on the reactor's thread."""
        results: queue.SimpleQueue[T] = queue.SimpleQueue()
        self.jobs.later("call", 0, lambda: results.put(action()))
        return results.get(timeout=TIMEOUT_S)

    def connect(self, host: str, port: int, timeout_ms: int = 5_000, *, closes: bool = False) -> RecordedStream:
        """With `closes`, the listener closes the stream when it is connected."""
        recorded = RecordedStream(self, closes)

        def connect() -> None:
            recorded.stream = self.network.connect(host, port, recorded, timeout_ms)

        self.call(connect)
        return recorded

    def close(self) -> None:
        self.reactor.stop()
        self.thread.join(TIMEOUT_S)
        assert not self.thread.is_alive()
        self.jobs.close()
        self.network.close()
        self.reactor.close()


class RecordedStream:
    """The listener of one stream; `event` waits for the next event."""

    stream: SocketStream

    def __init__(self, loop: ReactorThread, closes: bool = False) -> None:
        self.loop = loop
        self.events: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.closes = closes

    def connected(self) -> None:
        assert threading.current_thread() is self.loop.thread
        self.events.put("connected")
        if self.closes:
            self.stream.close()

    def received(self, data: memoryview) -> None:
        self.events.put(bytes(data))

    def closed(self, reason: CloseReason, detail: str) -> None:
        self.events.put((reason, detail))

    def event(self) -> Any:
        return self.events.get(timeout=TIMEOUT_S)

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self.event()
        return data

    def send(self, *parts: bytes) -> int:
        """The bytes that are unsent then."""

        def send() -> int:
            self.stream.send(parts)
            return self.stream.unsent_bytes

        return self.loop.call(send)

    def close(self) -> None:
        self.loop.call(self.stream.close)
