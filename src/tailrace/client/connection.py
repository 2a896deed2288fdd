"""One blocking connection to a broker: a socket under a `Conversation`.

`open` connects and asks with ApiVersions which versions the broker has; every request is then sent in the highest
version that both sides have. Requests may follow each other without waiting (`submit`); a broker responds in their
order (`receive`). `call` is one of each. `protocol/conversation.py` splits frames, agrees on versions and matches
responses with requests.

A deadline that passes in the middle of a frame loses nothing: the next `receive` continues with it. Every other failure
closes the connection: ConnectionLostError, and the requests in flight may or may not have been handled.

With `reuses_memory` all responses are received into the same memory, whose allocation is the main cost of large ones:
the views in a response (records) are valid until the next one is received.

One thread.
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from tailrace.client.address import Address
from tailrace.client.deadline import Deadline
from tailrace.client.errors import BrokerUnreachableError, ConnectionLostError, NoAnswerError, error_of
from tailrace.protocol.conversation import SOFTWARE_NAME, Conversation, Event, ResponseReceived, VersionsAgreed
from tailrace.protocol.conversation_errors import ConversationError, NegotiationError
from tailrace.protocol.message import Request, Response
from tailrace.protocol.messages.api_versions import ApiVersionsResponse
from tailrace.protocol.peer_versions import PeerVersions
from tailrace.protocol.response_frames import ResponseFrames
from tailrace.protocol.schema import Payload

MAX_RESPONSE_BYTES: Final = 1 << 28
PARTS_PER_WRITE: Final = 512  # below every system's limit on one sendmsg

__all__ = ["MAX_RESPONSE_BYTES", "SOFTWARE_NAME", "Connection", "wait_for"]


class Connection:
    def __init__(
        self,
        link: socket.socket,
        address: Address,
        client_id: str,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        *,
        reuses_memory: bool = False,
    ) -> None:
        """`link` is connected. `negotiate` comes before the first request."""
        self.address = address
        self.client_id = client_id
        self.broker: ApiVersionsResponse = ApiVersionsResponse()
        self._link = link
        # A broker that was chosen by address is trusted with its sizes, up to the limit: large responses arrive faster.
        frames = ResponseFrames(max_response_bytes, max_response_bytes, reuses_memory=reuses_memory)
        self._conversation = Conversation(client_id, f"the broker at {address}", frames)
        self.is_closed = False

    @classmethod
    def open(
        cls,
        address: Address,
        *,
        client_id: str = SOFTWARE_NAME,
        timeout_s: float = 10.0,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        reuses_memory: bool = False,
    ) -> Connection:
        deadline = Deadline(timeout_s)
        try:
            link = socket.create_connection(address, timeout=timeout_s)
        except OSError as cause:
            why = "no answer" if isinstance(cause, TimeoutError) else cause.strerror or str(cause)
            raise BrokerUnreachableError(f"no broker at {address}: {why}") from cause
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = cls(link, address, client_id, max_response_bytes, reuses_memory=reuses_memory)
        try:
            connection.negotiate(deadline)
        except BaseException:
            connection.close()
            raise
        return connection

    # Versions

    def negotiate(self, deadline: Deadline) -> None:
        """Before the first request: agree on versions."""
        conversation = self._conversation
        conversation.begin()
        event = None
        while event is None:
            if output := conversation.take_output():
                self._write(output, deadline)
            try:
                event = self._read(deadline)
            except NegotiationError as error:
                raise error_of(error.error_code, f"{self.address} does not state its versions") from None
        assert isinstance(event, VersionsAgreed)
        self.broker = event.response

    def has_api(self, api_key: int) -> bool:
        return self._versions.has_api(api_key)

    def version_for(self, api_key: int, newest: int | None = None) -> int:
        """The highest that both sides have, and not above `newest`; else UnsupportedVersionError."""
        return self._versions.version_for(api_key, newest)

    @property
    def _versions(self) -> PeerVersions:
        versions = self._conversation.versions
        assert versions is not None, "negotiate comes first"
        return versions

    # Requests and responses

    @property
    def awaited(self) -> int:
        """Responses that have not arrived."""
        return self._conversation.in_flight

    def call(self, request: Request, timeout_s: float, *, newest: int | None = None) -> Any:
        """The response to `request`. No other request may be in flight."""
        deadline = Deadline(timeout_s)
        if self.awaited:
            raise ConnectionLostError(f"{self.awaited} responses of {self.address} are still to come")
        self._send(request, deadline, newest)
        try:
            return self._receive(deadline).response
        except NoAnswerError:
            self.close()  # the response may still arrive, and would be taken for that to another request
            raise

    def submit(self, request: Request, timeout_s: float, *, newest: int | None = None, is_answered: bool = True) -> int:
        """Send without waiting; the correlation id that `receive` returns with the response."""
        return self._send(request, Deadline(timeout_s), newest, is_answered)

    def receive(self, timeout_s: float) -> tuple[int, Response]:
        """The next response. NoAnswerError if it does not arrive in time: the caller may try again."""
        return self._receive(Deadline(timeout_s))

    def has_answer(self) -> bool:
        """Whether bytes, or an end, are there to be read."""
        return not self.is_closed and bool(wait_for([self], 0))

    def close_if_lost(self) -> None:
        """Brokers close idle connections: one that is closed already is not left to the next request to find."""
        if not self.awaited and self.has_answer():
            self.close()

    def fileno(self) -> int:
        return self._link.fileno()

    def close(self) -> None:
        self.is_closed = True
        self._link.close()

    # Bytes

    def _send(self, request: Request, deadline: Deadline, newest: int | None, is_answered: bool = True) -> int:
        if self.is_closed:
            raise ConnectionLostError(f"the connection to {self.address} is closed")
        conversation = self._conversation
        correlation_id = conversation.send(request, newest=newest, is_answered=is_answered)
        self._write(conversation.take_output(), deadline)
        return correlation_id

    def _write(self, parts: list[Payload], deadline: Deadline) -> None:
        try:
            self._link.settimeout(deadline.check(f"sending to {self.address}"))
            sent = self._link.sendmsg(parts[:PARTS_PER_WRITE])
            if sent == sum(map(len, parts)):
                return
            views = deque(memoryview(part) for part in parts)
            while True:
                while views and sent >= len(views[0]):
                    sent -= len(views.popleft())
                if not views:
                    return
                views[0] = views[0][sent:]
                self._link.settimeout(deadline.check(f"sending to {self.address}"))
                sent = self._link.sendmsg([views[at] for at in range(min(len(views), PARTS_PER_WRITE))])
        except (TimeoutError, NoAnswerError):  # a part of the request may have been sent
            self.close()
            raise NoAnswerError(f"{self.address} took no request for {deadline}") from None
        except OSError as cause:
            raise self._lost(cause) from cause

    def _receive(self, deadline: Deadline) -> ResponseReceived:
        if self.is_closed:
            raise ConnectionLostError(f"the connection to {self.address} is closed")
        if not self.awaited:
            raise ConnectionLostError(f"no request to {self.address} waits for a response")
        event = None
        while event is None:
            event = self._read(deadline)
        assert isinstance(event, ResponseReceived)
        return event

    def _read(self, deadline: Deadline) -> Event | None:
        """Read once; the event that the bytes complete."""
        try:
            buffer = self._conversation.wanted()
            self._link.settimeout(max(deadline.left_s, 0.000_1))  # zero would make the socket non-blocking
            count = self._link.recv_into(buffer)
            if count:
                return self._conversation.filled(count)
        except TimeoutError:
            raise NoAnswerError(f"no response of {self.address} for {deadline}") from None
        except NegotiationError:
            raise
        except (OSError, ConversationError) as cause:
            raise self._lost(cause) from cause
        raise self._lost("it closed")

    def _lost(self, why: object) -> ConnectionLostError:
        self.close()
        return ConnectionLostError(f"lost the connection to {self.address}: {why}")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self.close()


def wait_for(connections: Iterable[Connection], timeout_s: float) -> list[Connection]:
    """Those of which one has something to be read, as soon as one has."""
    poll, by_number = select.poll(), {}
    for connection in connections:
        by_number[connection.fileno()] = connection
        poll.register(connection.fileno(), select.POLLIN)
    return [by_number[number] for number, _ in poll.poll(timeout_s * 1000)]
