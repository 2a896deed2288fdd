"""A node as the program of a simulated machine: what `broker.main` is to a real process.

Listeners are bound at the start, and connections wait in the backlog until the node is ready. A connection is the
transport of a channel. What cannot be sent, and requests that have to wait, stop the reading, so that the sender stops
as well.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from tailrace.broker.channel import Channel
from tailrace.broker.file_range import FileRange
from tailrace.broker.node import Node
from tailrace.config.listeners import Listener
from tailrace.config.server import ServerConfig
from tailrace.env.network import CloseReason
from tailrace.model.errors import NoLiveLogDirError, TailraceError
from tailrace.protocol.frame import SIZE_BYTES
from tailrace.protocol.schema import Payload
from tailrace.sim.machine import Boot
from tailrace.sim.process import Process
from tailrace.sim.stream import SimStream

_log = logging.getLogger(__name__)

MAX_OPEN_FILES = 1000
FIRST_FREE_PORT = 32768  # of those that a listener with port 0 gets


def node_boot(settings: Mapping[str, str]) -> Boot:
    """For `Universe.add_machine`: a node that is alone. Settings have Kafka's names."""
    return partial(NodeProgram, config=ServerConfig.single_node(settings))


def member_boot(settings: Mapping[str, str]) -> Boot:
    """A node of a cluster, whose directories are formatted. All settings that a cluster needs must be there."""
    return partial(NodeProgram, config=ServerConfig.of(settings))


class NodeProgram:
    def __init__(
        self, process: Process, config: ServerConfig, watch: Callable[[Node], object] = lambda node: None
    ) -> None:
        """`watch` may put observers into the node before it starts."""
        self.process = process
        self.is_ready = False
        bound = tuple(
            Listener(each.name, each.host, each.port or FIRST_FREE_PORT + index)
            for index, each in enumerate(config.listeners)
        )
        self._listeners = {each.name: process.listen(each.port, partial(self._accept, each.name)) for each in bound}
        self._opened: set[str] = set()
        self.node = Node(process.env, config, MAX_OPEN_FILES, self._failed)
        watch(self.node)
        self.node.start(bound, self._ready)
        if not config.is_alone:
            self._open(listener.name for listener in config.controller_listeners)

    def due_ms(self) -> int | None:
        return self.node.purgatory.due_ms

    def run_due(self, now_ms: int) -> None:
        self.node.purgatory.expire_due(now_ms)

    def ends_with(self, error: Exception) -> bool:
        return isinstance(error, NoLiveLogDirError)

    def shutdown(self) -> None:
        """Cleanly. Called as an event of the process."""
        for listener in self._listeners.values():
            listener.close()
        self.node.shutdown(partial(self.process.exit, "shut down"))

    def _ready(self) -> None:
        self.is_ready = True
        self.process.machine.note("ready", f"process {self.process.number}")
        self._open(self._listeners)

    def _open(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._opened:
                self._opened.add(name)
                self._listeners[name].open()

    def _failed(self, error: Exception) -> None:
        self.process.exit(str(error))

    def _accept(self, listener: str, stream: SimStream) -> NodeConnection:
        return NodeConnection(self, stream, listener)


class NodeConnection:
    """Between a stream and a channel: the transport of one, the listener of the other."""

    def __init__(self, program: NodeProgram, stream: SimStream, listener: str) -> None:
        self._process = program.process
        self._stream = stream
        self._kept = bytearray()
        self._is_over = False
        self._channel: Channel = program.node.open_channel(self, listener, stream.peer_host)

    # The channel's transport

    def send(self, parts: list[Payload]) -> bool:
        self._stream.send([part.read() if isinstance(part, FileRange) else part for part in parts])
        if not self._stream.unsent_bytes:
            return True
        self._stream.when_drained = self._drained
        return False

    def send_soon(self, data: bytes) -> None:
        if not self.send([data]):
            self._process.after(0, self._channel.choked)

    def resume(self) -> None:
        self._process.after(0, self._offer)

    def close(self) -> None:
        """At the end of this event, so that the channel is not called back from within."""
        self._process.after(0, self._close)

    def _close(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._stream.close()
            self._channel.closed()

    def _drained(self) -> None:
        if not self._is_over:
            self._channel.drained()
            self._offer()

    # The stream's listener

    def connected(self) -> None:
        """Never called on the side that listens."""

    def received(self, data: memoryview) -> None:
        if self._kept:
            self._kept += data
        else:
            self._kept = bytearray(data)
        self._offer()

    def closed(self, reason: CloseReason, detail: str) -> None:
        if not self._is_over:
            self._is_over = True
            self._channel.closed()

    def _offer(self) -> None:
        """Have the channel take what it can. What is left goes into a new buffer, as the channel may hold the old."""
        if self._is_over:
            return
        kept = self._kept
        if kept:
            try:
                taken = self._channel.receive(memoryview(kept), 0, len(kept))
            except TailraceError as error:
                _log.info("connection closed peer=%s reason=%s", self._stream.peer_host, error)
                self._close()
                return
            self._kept = kept = kept[taken:]
        size = int.from_bytes(kept[:SIZE_BYTES], "big") + SIZE_BYTES if len(kept) >= SIZE_BYTES else None
        self._stream.set_reading(size is None or len(kept) < size)
