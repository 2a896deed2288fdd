"""One direction of a simulated TCP connection: bytes in order, sent again until they arrive or the sender gives up.

    send ─▶ queue ─▶ flight ═════ link ═════▶ inbox of the other end ─▶ received
            process   sender's kernel          receiver's kernel         process

The flight, the inbox, and what has arrived without the sender knowing it are together at most WINDOW_BYTES; the queue
is what `Stream.unsent_bytes` counts. A chunk that the link loses stalls everything that follows it: after a timeout
that doubles, all of the flight is sent again. While acknowledgements get lost the sender cannot tell, and sends again
too.

The kernel of the sending machine owns a pipe. It goes on after the process has ended, until everything has arrived, and
ends without a word when the machine loses power.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from tailrace.sim.link import Link
    from tailrace.sim.stream import SimStream
    from tailrace.sim.universe import Universe

WINDOW_BYTES: Final = 256 << 10
MAX_CHUNK_BYTES: Final = 64 << 10
FIRST_TIMEOUT_US: Final = 200_000
MAX_TIMEOUT_US: Final = 120_000_000
GIVE_UP_US: Final = 924_600_000  # Linux with tcp_retries2 = 15
PROBE_US: Final = 1_000_000


class Chunk(NamedTuple):
    data: bytes
    sent_us: int
    is_first: bool = False
    """Completes the handshake; it has no bytes."""
    is_last: bool = False
    """The end of the stream; it has no bytes."""


class Pipe:
    __slots__ = (
        "_flight",
        "_flight_bytes",
        "_generation",
        "_is_over",
        "_is_stalled",
        "_last_arrival_us",
        "_link",
        "_outages",
        "_queue",
        "_return_link",
        "_stalled_since_us",
        "_timeout_us",
        "_unacknowledged_bytes",
        "_universe",
        "queued_bytes",
        "source",
        "target",
    )

    def __init__(self, universe: Universe, source: SimStream, target: SimStream, link: Link, return_link: Link) -> None:
        self.source = source
        self.target = target
        self.queued_bytes = 0
        self._universe = universe
        self._link = link
        self._return_link = return_link
        self._queue: deque[bytes] = deque()
        self._flight: deque[Chunk] = deque()
        self._flight_bytes = 0
        self._unacknowledged_bytes = 0
        self._last_arrival_us = 0
        self._generation = 0  # chunks of an earlier one were lost
        self._is_stalled = False
        self._is_over = False
        self._stalled_since_us: int | None = None
        self._timeout_us = FIRST_TIMEOUT_US
        self._outages = source.machine.outages

    # Sending

    def send(self, data: bytes) -> None:
        if self._is_over:
            return
        if len(data) <= MAX_CHUNK_BYTES:
            self._queue.append(data)
        else:
            self._queue.extend(data[at : at + MAX_CHUNK_BYTES] for at in range(0, len(data), MAX_CHUNK_BYTES))
        self.queued_bytes += len(data)
        self.fill()

    def begin(self) -> None:
        self._add(Chunk(b"", self._universe.time.now_us, is_first=True))

    def finish(self) -> None:
        """The owner has closed: what is queued is dropped, what is in flight arrives, then the end."""
        self._queue.clear()
        self.queued_bytes = 0
        if not self._is_over:
            self._add(Chunk(b"", self._universe.time.now_us, is_last=True))

    def reset(self) -> None:
        """The owner has closed with unread bytes: the other end gets a reset, if it gets through."""
        self.drop()
        if not self._link.loses():
            now_us = self._universe.time.now_us
            delay_us = self._link.arrival_us(now_us, 0) - now_us
            self._universe.push(delay_us, None, self.target.reset_by_peer)

    def drop(self) -> None:
        """Nothing more arrives through it."""
        self._is_over = True
        self._generation += 1
        self._queue.clear()
        self._flight.clear()
        self.queued_bytes = 0

    def fill(self) -> None:
        """Hand to the kernel what its window has room for."""
        queue = self._queue
        while queue and not self._is_over:
            room = WINDOW_BYTES - self._flight_bytes - self.target.inbox_bytes - self._unacknowledged_bytes
            if room <= 0:
                return
            head = queue[0]
            size = self._link.chunk_size(min(len(head), room))
            if size == len(head):
                queue.popleft()
                data = head
            else:
                data, queue[0] = head[:size], head[size:]
            self.queued_bytes -= size
            self._add(Chunk(data, self._universe.time.now_us))
            if not queue:
                self.source.notify_drained()
                return

    def _add(self, chunk: Chunk) -> None:
        self._flight.append(chunk)
        self._flight_bytes += len(chunk.data)
        if not self._is_stalled:
            self._launch(chunk)

    def _launch(self, chunk: Chunk) -> None:
        if self._link.loses():
            self._log_loss(chunk)
            self._wait_to_send_again()
            return
        universe = self._universe
        now_us = universe.time.now_us
        arrival_us = max(self._link.arrival_us(now_us, len(chunk.data)), self._last_arrival_us)
        self._last_arrival_us = arrival_us
        universe.push(arrival_us - now_us, None, partial(self._arrive, self._generation))

    def _log_loss(self, chunk: Chunk) -> None:
        source, target = self._link.source, self._link.target
        text = f"{source} → {target} {len(chunk.data)} bytes"
        self._universe.log.add(target, "lost", text, peer=source, sent_us=chunk.sent_us)

    # Arriving

    def _arrive(self, generation: int) -> None:
        if generation != self._generation:
            return
        target = self.target
        if self._link.is_cut or not target.machine.is_on:
            self._log_loss(self._flight[0])
            self._stall()
            return
        if not target.takes_bytes:
            self._refused()
            return
        chunk = self._flight.popleft()
        self._flight_bytes -= len(chunk.data)
        if self._return_link.is_cut:
            self._unacknowledged_bytes += len(chunk.data) or 1
            if not self._is_stalled:
                self._wait_to_send_again()
        else:
            self._timeout_us = FIRST_TIMEOUT_US
            self._stalled_since_us = None
            self._unacknowledged_bytes = 0
        target.take(chunk)

    def _refused(self) -> None:
        """The other end is gone, and its host says so if the answer gets through."""
        if self._return_link.is_cut:
            self._stall()
            return
        self.drop()
        now_us = self._universe.time.now_us
        delay_us = self._return_link.arrival_us(now_us, 0) - now_us
        self._universe.push(delay_us, None, self.source.reset_by_peer)

    def window_opened(self) -> None:
        """The receiving process has taken bytes: the sender learns of it if it waits for room."""
        if self._queue and not self._is_over:
            now_us = self._universe.time.now_us
            self._universe.push(self._return_link.arrival_us(now_us, 0) - now_us, None, self._learn_of_window)

    def _learn_of_window(self) -> None:
        if self._return_link.is_cut:
            if self._queue and not self._is_over:
                self._universe.push(PROBE_US, None, self._learn_of_window)
        else:
            self._unacknowledged_bytes = 0
            self.fill()

    # Sending again

    def _stall(self) -> None:
        """A chunk was lost on its way: those that follow it are of no use until it was sent again."""
        self._generation += 1
        if not self._is_stalled:
            self._wait_to_send_again()

    def _wait_to_send_again(self) -> None:
        """Until then nothing more is launched; what was launched before arrives."""
        self._is_stalled = True
        if self._stalled_since_us is None:
            self._stalled_since_us = self._universe.time.now_us
        self._universe.push(self._timeout_us, None, self._send_again)

    def _send_again(self) -> None:
        """Called once for each time that the pipe was stalled."""
        if self._is_over:
            return
        if self.source.machine.outages != self._outages:
            self.drop()
            return
        since_us = self._stalled_since_us
        if since_us is not None and self._universe.time.now_us - since_us >= GIVE_UP_US:
            self.drop()
            self.source.gave_up()
            return
        self._timeout_us = min(2 * self._timeout_us, MAX_TIMEOUT_US)
        is_answered = not self._return_link.is_cut and self.target.machine.is_on
        if self._link.loses() or not (is_answered or self._flight):
            self._universe.push(self._timeout_us, None, self._send_again)
            return
        if is_answered:
            if not self.target.takes_bytes:
                self._refused()
                return
            self._unacknowledged_bytes = 0
        self._is_stalled = False
        self._generation += 1
        for chunk in tuple(self._flight):
            if self._is_stalled:
                break
            self._launch(chunk)
        self.fill()
