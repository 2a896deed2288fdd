"""One socket: bytes from it to a channel, answers from the channel to it.

Reading. All connections read into one buffer of the server's. Whole requests are handled right there; what is left of
a small one is kept aside and put back in front of the next read. A large one that is not there whole gets a buffer of
its own, and takes as much from the server's byte budget. A connection that sends nothing holds no buffer.

Writing. An answer goes out at once, file ranges by sendfile. What the socket does not take is kept, and until it is
gone no further request of this connection is handled: a client that does not read holds the memory of its last answers
and no more. What would have to be read from the disk first is read by a job meanwhile.
"""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from tailrace.broker.channel import Channel
from tailrace.broker.file_range import FileRange
from tailrace.broker.frame_buffers import OWN_BUFFER_BYTES
from tailrace.broker.reactor import READABLE, WRITABLE
from tailrace.model.errors import SegmentGoneError, TailraceError
from tailrace.protocol.frame import SIZE_BYTES
from tailrace.protocol.schema import Payload

if TYPE_CHECKING:
    from tailrace.broker.socket_server import SocketServer

_log = logging.getLogger(__name__)

MOST_PER_SENDFILE: Final = 1 << 20
LONGEST_PAUSE_MS: Final = 5_000  # within a large request, while others wait to send theirs
LONGEST_REQUEST_MS: Final = 30_000  # what clients give a request before they give it up


class Connection:
    __slots__ = (
        "_events",
        "_fd",
        "_is_doomed",
        "_is_offering",
        "_kept",
        "_large",
        "_large_fill",
        "_large_since_ms",
        "_out",
        "_reactor",
        "_reserved_bytes",
        "_server",
        "_socket",
        "_soon",
        "_waits_for_budget",
        "_waits_for_disk",
        "active_ms",
        "channel",
        "peer_host",
    )

    channel: Channel

    def __init__(self, server: SocketServer, sock: socket.socket, peer_host: str) -> None:
        self._server = server
        self._reactor = server.reactor
        self._socket = sock
        self._fd = sock.fileno()
        self._events = READABLE
        self._kept: bytearray | None = None
        self._large: memoryview | None = None
        self._large_fill = 0
        self._large_since_ms = 0
        self._reserved_bytes = 0
        self._waits_for_budget = False
        self._waits_for_disk = False
        self._out: deque[Payload] = deque()
        self._soon: list[bytes] = []
        self._is_doomed = False
        self._is_offering = False
        self.peer_host = peer_host
        self.active_ms = self._reactor.now_ms
        self._reactor.add(self._fd, READABLE, self.on_events)

    def on_events(self, events: int) -> None:
        if events & WRITABLE:
            self._pump()
        if events & ~WRITABLE and not self._is_doomed:
            if self._events & READABLE:
                self._read()
            else:
                self.close()  # it is gone while it was not read from

    # In

    def _read(self) -> None:
        self.active_ms = self._reactor.now_ms
        try:
            if self._large is not None:
                self._read_large(self._large)
            else:
                self._read_shared()
        except BlockingIOError:
            return
        except OSError as error:
            _log.debug("connection of %s: %s", self.peer_host, error)
            self.close()

    def _read_shared(self) -> None:
        buffer, kept = self._server.buffer, self._kept
        begin = 0
        if kept is not None:
            begin = len(kept)
            buffer[:begin] = kept
        count = self._socket.recv_into(buffer[begin:] if begin else buffer)
        if count == 0:
            self.close()
            return
        self._kept = None
        self._offer(buffer, begin + count)

    def _read_large(self, large: memoryview) -> None:
        """The rest of a large request, and what comes behind it in the same read."""
        shared = self._server.buffer
        missing = len(large) - self._large_fill
        count = self._socket.recvmsg_into([large[self._large_fill :], shared])[0]
        if count == 0:
            self.close()
            return
        if count < missing:
            self._large_fill += count
            return
        self._large = None
        behind = count - missing
        self._offer(large, len(large))
        self._end_large(large)
        if not behind or self._is_doomed:
            return
        if self._kept is None:
            self._offer(shared, behind)
        else:
            self._kept += shared[:behind]  # the large one has to wait, and so has everything behind it

    def _end_large(self, large: memoryview) -> None:
        self._server.frame_buffers.give_back(large)
        if self._kept is None:
            self._free_reserved()  # else it waits, as a copy

    def _free_reserved(self) -> None:
        reserved, self._reserved_bytes = self._reserved_bytes, 0
        self._server.budget.give_back(reserved)

    def _offer(self, buffer: memoryview, end: int) -> None:
        """Have the channel take what it can, and keep the rest."""
        self._is_offering = True
        try:
            taken = self.channel.receive(buffer, 0, end)
        except TailraceError as error:
            _log.info("connection of %s is closed: %s", self.peer_host, error)
            self.close()
            return
        except Exception:  # a defect of ours: it may cost this client its connection, and nobody else
            _log.exception("a request of %s failed", self.peer_host)
            self.close()
            return
        finally:
            self._is_offering = False
        if self._is_doomed:
            return
        left = end - taken
        if not left:
            self._listen(True)
            return
        size = int.from_bytes(buffer[taken : taken + SIZE_BYTES], "big") + SIZE_BYTES if left >= SIZE_BYTES else 0
        if SIZE_BYTES <= size <= left:  # a whole request, which has to wait
            self._kept = bytearray(buffer[taken:end])
            self._listen(False)
            return
        self._kept = bytearray(buffer[taken:end])
        if size >= OWN_BUFFER_BYTES:
            self._make_room(size)
        else:
            self._listen(True)

    def _make_room(self, size: int) -> None:
        if self._server.budget.take(size):
            self._begin_large(size)
        else:
            self._listen(False)
            self._waits_for_budget = True
            self._server.budget.wait(size, self._budget_taken)

    def _budget_taken(self) -> None:
        self._waits_for_budget = False
        assert self._kept is not None
        self._begin_large(int.from_bytes(self._kept[:SIZE_BYTES], "big") + SIZE_BYTES)

    def _begin_large(self, size: int) -> None:
        assert self._kept is not None
        self._reserved_bytes = size
        self._large = self._server.frame_buffers.take(size)
        self._large_fill = len(self._kept)
        self._large_since_ms = self._reactor.now_ms
        self._large[: self._large_fill] = self._kept
        self._kept = None
        self._listen(True)

    def is_dawdling(self, now_ms: int) -> bool:
        """It holds bytes of the budget for a request that does not come, or comes too slowly."""
        return self._large is not None and (
            now_ms - self.active_ms > LONGEST_PAUSE_MS or now_ms - self._large_since_ms > LONGEST_REQUEST_MS
        )

    def resume(self) -> None:
        if self._is_offering:
            self._server.jobs.later("resume-connection", 0, self._offer_kept)
        elif self._kept is not None:
            self._reactor.soon(self._offer_kept)

    def _offer_kept(self) -> None:
        kept = self._kept
        if kept is not None and not self._is_doomed and not self._waits_for_budget and not self._out:
            self._kept = None
            if self._reserved_bytes:
                self._free_reserved()
            self._offer(memoryview(kept), len(kept))

    def _listen(self, is_wanted: bool) -> None:
        """Whether to read; a connection that is not read from still says when it is gone."""
        self._want(READABLE if is_wanted else 0, READABLE)

    def _want(self, events: int, among: int) -> None:
        wanted = self._events & ~among | events
        if wanted != self._events and not self._is_doomed:
            self._events = wanted
            self._reactor.change(self._fd, wanted)

    # Out

    def send(self, parts: list[Payload]) -> bool:
        out = self._out
        if self._is_doomed:
            return False
        if self._soon:
            parts = [b"".join(self._soon), *parts]
            self._soon = []
        if out:
            out.extend(parts)
            return False
        self.active_ms = self._reactor.now_ms
        if len(parts) == 1 and type(parts[0]) is bytes:
            data = parts[0]
            try:
                count = self._socket.send(data)
            except BlockingIOError:
                count = 0
            except OSError:
                self.close()
                return False
            if count == len(data):
                return True
            out.append(memoryview(data)[count:])
            self._want(WRITABLE, WRITABLE)
            return False
        out.extend(_joined(parts))
        return self._send_out()

    def send_soon(self, data: bytes) -> None:
        """Send at the end of this round: whoever is woken by an answer would like the processor that we are using."""
        if not self._soon:
            self._reactor.soon(self._send_soon)
        self._soon.append(data)

    def _send_soon(self) -> None:
        if self._soon and not self.send([]):
            self.channel.choked()

    def _send_out(self) -> bool:
        """Whether all of it is gone."""
        out = self._out
        if self._waits_for_disk:
            return False
        try:
            while out:
                head = out[0]
                if type(head) is FileRange:
                    count = min(head.size, MOST_PER_SENDFILE)
                    if head.position + count > head.warm_end and head.is_cold(count):
                        self._warm(head, count)
                        return False
                    sent = os.sendfile(self._fd, head.fileno(), head.position, count)
                    if not sent:
                        raise SegmentGoneError("the file is shorter than what was to be sent of it")
                    head.sent(sent)
                    if not head.size:
                        out.popleft()
                        head.check()
                    elif sent < count:  # the socket is full: asking again would only say so
                        self._want(WRITABLE, WRITABLE)
                        return False
                else:
                    more = socket.MSG_MORE if len(out) > 1 else 0
                    count = self._socket.send(head, more)
                    out.popleft()
                    if count < len(head):
                        out.appendleft(memoryview(head)[count:])
        except BlockingIOError:
            self._want(WRITABLE, WRITABLE)
            return False
        except (OSError, SegmentGoneError) as error:
            _log.debug("connection of %s: %s", self.peer_host, error)
            self.close()
            return False
        return True

    def _warm(self, part: FileRange, count: int) -> None:
        """Have the disk read by a job, and go on then; this connection waits, the others do not."""
        self._want(0, WRITABLE)
        self._waits_for_disk = True

        def go_on(_: object) -> None:
            self._waits_for_disk = False
            if not self._is_doomed:
                self._pump()

        # Should it fail, sendfile meets the same error, and deals with it.
        self._server.jobs.run("read-cold-segment", partial(part.warm, count), go_on, go_on)

    def _pump(self) -> None:
        self.active_ms = self._reactor.now_ms
        if self._send_out():
            self._want(0, WRITABLE)
            self.channel.drained()
            if self._kept is not None:
                self._offer_kept()

    # The end

    def close(self) -> None:
        """At the end of this round."""
        if self._soon and not self._is_doomed:
            self._send_soon()  # what was answered before it went wrong
        if not self._is_doomed:
            self._is_doomed = True
            self._reactor.remove(self._fd)
            self._reactor.soon(self._end)

    def _end(self) -> None:
        if self._waits_for_budget:
            self._server.budget.give_up(self._budget_taken)
        if self._large is not None:
            self._server.frame_buffers.give_back(self._large)
        if self._reserved_bytes:
            self._free_reserved()
        self._large = self._kept = None
        self._out.clear()
        self._socket.close()
        self._server.forget(self)
        self.channel.closed()


def _joined(parts: list[Payload]) -> list[Payload]:
    """Neighbouring buffers as one."""
    joined: list[Payload] = []
    run: list[Payload] = []
    for part in parts:
        if type(part) is FileRange:
            if run:
                joined.append(b"".join(run))
                run = []
            joined.append(part)
        else:
            run.append(part)
    if run:
        joined.append(b"".join(run))
    return joined
