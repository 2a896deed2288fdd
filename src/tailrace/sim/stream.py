"""One end of a simulated connection: what `Network.connect` returns, and what a listening process gets.

What happens in the kernel (bytes arrive, a reset arrives) happens also while the process is paused; the process is
notified when it goes on. A process that does not take bytes lets its inbox fill up, which stops the sender.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from tailrace.env.files import Buffer
from tailrace.env.network import CloseReason, StreamListener
from tailrace.sim.pipe import Chunk, Pipe

if TYPE_CHECKING:
    from tailrace.sim.network import SimListener
    from tailrace.sim.process import Process


class _State(Enum):
    CONNECTING = "connecting"
    OPEN = "open"
    CLOSED = "closed"
    """For the kernel; the process may not know yet."""


class SimStream:
    """Implements `env.Stream`. `set_reading` and `when_drained` are for servers."""

    def __init__(self, process: Process, peer_host: str, listener: StreamListener | None) -> None:
        self.process = process
        self.machine = process.machine
        self.peer_host = peer_host
        self.inbox_bytes = 0
        self.is_gone = False
        """The machine has lost power since it was opened."""
        self.when_drained: Callable[[], None] | None = None
        """Called once, as an event of the process, when everything sent was handed to the system."""
        self._listener = listener
        self._state = _State.CONNECTING
        self._inbox: list[bytes] = []
        self._is_reading = True
        self._is_notifying = False
        self._has_ended = False
        self._out: Pipe | None = None
        self._in: Pipe | None = None
        self._accepted_by: SimListener | None = None
        self._early: list[bytes] = []  # sent before the connection is open
        process.streams[self] = None

    # For the process

    @property
    def unsent_bytes(self) -> int:
        return sum(map(len, self._early)) if self._out is None else self._out.queued_bytes

    def send(self, parts: Sequence[Buffer]) -> None:
        if self._state is _State.CLOSED:
            return
        data = b"".join(parts)
        if not data:
            return
        if self._out is None:
            self._early.append(data)
        else:
            self._out.send(data)

    def set_reading(self, is_reading: bool) -> None:
        """While it is off, what arrives stays with the kernel, up to the window of the connection."""
        self._is_reading = is_reading
        if is_reading and (self._inbox or self._has_ended):
            self._notify()

    def close(self) -> None:
        """Unread bytes make it a reset, as with a real socket."""
        if self._state is _State.CLOSED:
            return
        self._leave()
        if self._out is None:
            return
        if self._inbox:
            self._inbox.clear()
            self.inbox_bytes = 0
            self._out.reset()
        else:
            self._out.finish()

    def attach(self, listener: StreamListener) -> None:
        """The process has accepted the connection."""
        self._listener = listener
        if self._inbox or self._has_ended:
            self._notify()

    def discard(self) -> None:
        """Nothing listens any longer: what arrives is refused."""
        self._leave()

    def _leave(self) -> None:
        self._state = _State.CLOSED
        self.process.streams.pop(self, None)

    # For the kernel

    @property
    def is_connecting(self) -> bool:
        return self._state is _State.CONNECTING and not self.is_gone

    @property
    def is_closed(self) -> bool:
        return self._state is _State.CLOSED

    @property
    def takes_bytes(self) -> bool:
        return self._state is _State.OPEN and not self.is_gone

    def open(self, outwards: Pipe, inwards: Pipe, accepted_by: SimListener | None = None) -> None:
        self._state = _State.OPEN
        self._out, self._in = outwards, inwards
        self._accepted_by = accepted_by

    def connected(self) -> None:
        """The handshake is complete on the side that connects."""
        assert self._out is not None
        self._out.begin()
        early, self._early = self._early, []
        for data in early:
            self._out.send(data)
        assert self._listener is not None
        self.process.perform(self._listener.connected)

    def take(self, chunk: Chunk) -> None:
        """A chunk has arrived."""
        if chunk.is_first:
            if self._accepted_by is not None:
                self._accepted_by.arrived(self)
            return
        if chunk.is_last:
            self._has_ended = True
        else:
            self._inbox.append(chunk.data)
            self.inbox_bytes += len(chunk.data)
            what = self.machine.network.describe(chunk.data, self._accepted_by is not None)
            text = (
                f"{self.peer_host} → {self.machine.name} {what}{', ' if what else ''}"
                f"{len(chunk.data)} bytes crc {zlib.crc32(chunk.data):08x}"
            )
            assert self._in is not None
            sender = self._in.source.process
            self.machine.universe.log.add(
                self.machine.name, "message", text, peer=self.peer_host, sent_us=chunk.sent_us, data=sender
            )
        if self._is_reading and not self._is_notifying and self._listener is not None:
            self._is_notifying = True
            self.process.perform(self._deliver)

    def _notify(self) -> None:
        if not self._is_notifying and self._listener is not None:
            self._is_notifying = True
            self.process.after(0, self._deliver)

    def _deliver(self) -> None:
        self._is_notifying = False
        if self._state is not _State.OPEN or not self._is_reading or self._listener is None:
            return
        if self._inbox:
            data = b"".join(self._inbox)
            self._inbox.clear()
            self.inbox_bytes = 0
            assert self._in is not None
            self._in.window_opened()
            self._listener.received(memoryview(data))
        if self._has_ended and not self._inbox and self._state is _State.OPEN:
            self.close()
            detail = f"{self.peer_host} has closed the connection"
            self._log(detail)
            self._listener.closed(CloseReason.CLOSED, detail)

    def _log(self, detail: str) -> None:
        self.machine.note("closed", detail)

    def notify_drained(self) -> None:
        drained, self.when_drained = self.when_drained, None
        if drained is not None:
            self.process.after(0, drained)

    def fail(self, reason: CloseReason, detail: str) -> None:
        """The connection is over, or was never opened."""
        if self._state is _State.CLOSED or self.is_gone:
            return
        self._leave()
        self._log(detail)
        if self._out is not None:
            self._out.drop()
        if self._listener is not None:
            self.process.perform(partial(self._listener.closed, reason, detail))

    def expire(self, detail: str) -> None:
        """The time for connecting is over."""
        if self._state is _State.CONNECTING:
            self.fail(CloseReason.UNREACHABLE, detail)

    def reset_by_peer(self) -> None:
        self.fail(CloseReason.RESET, f"connection reset by {self.peer_host}")

    def gave_up(self) -> None:
        self.fail(CloseReason.RESET, f"{self.peer_host} does not answer: connection timed out")

    def vanish(self) -> None:
        """The machine has lost power: neither side is notified."""
        self.is_gone = True
        if self._out is not None:
            self._out.drop()
