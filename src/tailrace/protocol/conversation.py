"""The client's side of a connection to a broker, without the connection: requests to bytes, bytes to responses.

    conversation.begin(deadline_ms)      the first bytes to send: ApiVersions
    conversation.send(request)           bytes to send
    conversation.receive(data)           events: `VersionsAgreed` once, `ResponseReceived` for each response
    conversation.take_output()           what to send now: after each of the calls above
    conversation.tick(now_ms)            raises when a response is overdue

It knows no sockets and no clock. A caller that can read into a given buffer uses `wanted` and `filled` in place of
`receive`, and saves a copy.

States, in this order:

    NEW            connected; nothing is sent
    NEGOTIATING    ApiVersions is sent, in the newest version; a broker that does not know it responds in version 0 with
                   UNSUPPORTED_VERSION and its own range, and is asked again in the highest common one
    READY          requests may be sent: each in the highest common version, or in the version that the caller gives
    BROKEN         after a ConversationError; the connection must be closed

Without discovery, NEW is followed by READY, and the caller gives every version: this is how Kafka's replica fetchers
and senders of transaction markers talk to brokers.

Security. TLS is a layer between the connection and this class, and changes none of it. Authentication is a state
between NEGOTIATING and READY: the exchange of SaslHandshake and SaslAuthenticate requests belongs in `_agreed`, where
the versions are known, and READY belongs after its end. No other request is sent before READY.

A broker responds in the order of the requests. A response to another request, bytes that are no response, a size above
the limit, or bytes without a request raise the ConversationError that names it.

Memory. A conversation holds at most one unfinished frame (`ResponseFrames`) and `max_in_flight` small tuples.
"""

from __future__ import annotations

import struct
import sys
from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

from tailrace import __version__
from tailrace.env.files import Buffer
from tailrace.model.errors import InvalidDataError
from tailrace.model.invariant import InvariantError, invariant
from tailrace.protocol.apis import API_VERSIONS, api_of
from tailrace.protocol.conversation_errors import (
    ConversationError,
    CorrelationError,
    NegotiationError,
    ResponseFormatError,
    ResponseTimeoutError,
)
from tailrace.protocol.frame import decode_response, encode_request
from tailrace.protocol.message import Request, Response
from tailrace.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tailrace.protocol.peer_versions import PeerVersions
from tailrace.protocol.response_frames import ResponseFrames
from tailrace.protocol.schema import Payload

SOFTWARE_NAME: Final = "tailrace"
MAX_CORRELATION_ID: Final = 0x7FFF_FFFF
NO_ERROR: Final = 0
UNSUPPORTED_VERSION: Final = 35

_ID_AND_ERROR: Final = struct.Struct(">ih")


class State(Enum):
    NEW = "new"
    NEGOTIATING = "negotiating"
    READY = "ready"
    BROKEN = "broken"


class VersionsAgreed(NamedTuple):
    """The conversation is READY."""

    response: ApiVersionsResponse


class ResponseReceived(NamedTuple):
    correlation_id: int
    response: Response


Event = VersionsAgreed | ResponseReceived


class _Exchange(NamedTuple):
    correlation_id: int
    api_key: int
    version: int
    deadline_ms: int | None


class Conversation:
    def __init__(
        self,
        client_id: str,
        peer: str,
        frames: ResponseFrames,
        *,
        discovers: bool = True,
        max_in_flight: int = sys.maxsize,
        max_elements: int | None = None,
    ) -> None:
        """`peer` names the other side in errors. `max_elements` bounds all arrays of one response together."""
        self.state = State.NEW
        self.versions: PeerVersions | None = None
        self._client_id = client_id
        self._peer = peer
        self._frames = frames
        self._discovers = discovers
        self._max_in_flight = max_in_flight
        self._max_elements = max_elements
        self._in_flight: deque[_Exchange] = deque()
        self._last_id = 0
        self._output: list[Payload] = []
        self._due_ms: int | None = None

    # Requests

    @property
    def in_flight(self) -> int:
        """Requests without their response, ApiVersions included."""
        return len(self._in_flight)

    @property
    def can_send(self) -> bool:
        return self.state is State.READY and len(self._in_flight) < self._max_in_flight

    def begin(self, deadline_ms: int | None = None) -> None:
        """Once connected."""
        invariant(self.state is State.NEW, "a conversation begins once")
        if self._discovers:
            self.state = State.NEGOTIATING
            self._ask_versions(api_of(API_VERSIONS).last_version, deadline_ms)
        else:
            self.state = State.READY

    def send(
        self,
        request: Request,
        version: int | None = None,
        *,
        newest: int | None = None,
        deadline_ms: int | None = None,
        is_answered: bool = True,
    ) -> int:
        """Add a request to the output; its correlation id.

        UnsupportedVersionError if there is no common version (or if the request needs another one), and
        UnencodableMessageError: nothing has changed then. Without `is_answered`, no response is expected (acks=0).
        """
        if not self.can_send:
            raise InvariantError(f"no request may be sent: {self.state.value}, {len(self._in_flight)} in flight")
        if version is None:
            assert self.versions is not None, "without discovery, the caller gives the version"
            version = self.versions.version_for(request.KEY, newest)
        return self._send(request, version, deadline_ms, is_answered)

    def take_output(self) -> list[Payload]:
        """What to send, in order. It is not returned again."""
        output, self._output = self._output, []
        return output

    def _send(self, request: Request, version: int, deadline_ms: int | None, is_answered: bool = True) -> int:
        correlation_id = self._last_id + 1 if self._last_id < MAX_CORRELATION_ID else 1
        parts = encode_request(request, version, correlation_id, self._client_id)
        self._last_id = correlation_id
        self._output += parts
        if is_answered:
            self._in_flight.append(_Exchange(correlation_id, request.KEY, version, deadline_ms))
            if deadline_ms is not None and (self._due_ms is None or deadline_ms < self._due_ms):
                self._due_ms = deadline_ms
        return correlation_id

    # Responses

    def receive(self, data: Buffer) -> Iterator[Event]:
        """The events of these bytes, in order. The caller may stop when it closes the connection.

        `data` is copied: records in a response are views of memory that belongs to the response.
        """
        view, position = memoryview(data), 0
        while position < len(view):
            buffer = self.wanted()
            count = min(len(buffer), len(view) - position)
            buffer[:count] = view[position : position + count]
            position += count
            event = self.filled(count)
            if event is not None:
                yield event

    def wanted(self) -> memoryview:
        """Where the next bytes that arrive go; never empty. CorrelationError if no request waits for them."""
        if not self._in_flight:
            raise self._broken(CorrelationError("it sends a response without a request"))
        return self._frames.wanted()

    def filled(self, count: int) -> Event | None:
        """Take note that `count` bytes are in the buffer that `wanted` returned."""
        invariant(self.state is not State.BROKEN, "nothing is received after a conversation has broken")
        try:
            frame = self._frames.filled(count)
        except ConversationError as error:
            raise self._broken(error) from None
        return None if frame is None else self._received(frame)

    def _received(self, frame: memoryview) -> Event | None:
        exchange = self._in_flight.popleft()
        if exchange.deadline_ms is not None and exchange.deadline_ms == self._due_ms:
            self._due_ms = min(
                (each.deadline_ms for each in self._in_flight if each.deadline_ms is not None), default=None
            )
        try:
            correlation_id, response = decode_response(
                exchange.api_key, _response_version(exchange, frame), frame, self._max_elements
            )
        except InvalidDataError as error:
            raise self._broken(ResponseFormatError(f"it sends what is not a response: {error}")) from error
        if correlation_id != exchange.correlation_id:
            raise self._broken(
                CorrelationError(f"it responds to request {correlation_id} instead of {exchange.correlation_id}")
            )
        if self.state is State.NEGOTIATING:
            assert isinstance(response, ApiVersionsResponse)
            return self._negotiated(response, exchange)
        return ResponseReceived(correlation_id, response)

    # Versions

    def _ask_versions(self, version: int, deadline_ms: int | None) -> None:
        self._send(api_versions_request(), version, deadline_ms)

    def _negotiated(self, response: ApiVersionsResponse, exchange: _Exchange) -> Event | None:
        if response.error_code == NO_ERROR:
            return self._agreed(response)
        theirs = {each.api_key: each.max_version for each in response.api_keys}.get(API_VERSIONS, 0)
        lower = min(theirs, exchange.version - 1)
        if response.error_code != UNSUPPORTED_VERSION or lower < api_of(API_VERSIONS).first_version:
            raise self._broken(NegotiationError(response.error_code))
        self._ask_versions(lower, exchange.deadline_ms)
        return None

    def _agreed(self, response: ApiVersionsResponse) -> VersionsAgreed:
        """The versions are known. Authentication would be next: see the module."""
        self.versions = PeerVersions(response, self._peer)
        self.state = State.READY
        return VersionsAgreed(response)

    # Time

    @property
    def due_ms(self) -> int | None:
        """The earliest deadline, on the clock of the deadlines given."""
        return self._due_ms

    def tick(self, now_ms: int) -> None:
        """ResponseTimeoutError if a response is overdue. It may still arrive, so the connection is of no more use."""
        if self._due_ms is not None and now_ms >= self._due_ms:
            overdue = next(each for each in self._in_flight if each.deadline_ms == self._due_ms)
            name = api_of(overdue.api_key).name
            raise self._broken(ResponseTimeoutError(f"it has not responded to {name} in time"))

    def _broken(self, error: ConversationError) -> ConversationError:
        self.state = State.BROKEN
        return error


def api_versions_request() -> ApiVersionsRequest:
    """A request for versions and features, which may be sent again at any time: feature levels change."""
    return ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)


def _response_version(exchange: _Exchange, frame: memoryview) -> int:
    """That of the request, except that a broker refuses an unknown version of ApiVersions in version 0."""
    if exchange.api_key != API_VERSIONS or len(frame) < _ID_AND_ERROR.size:
        return exchange.version
    return 0 if _ID_AND_ERROR.unpack_from(frame)[1] == UNSUPPORTED_VERSION else exchange.version
