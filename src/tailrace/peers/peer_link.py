"""The connection to one node, and the requests that wait for it.

    IDLE         no stream; a request begins to connect, not before `_retry_ms`
    CONNECTING   a stream without `connected`
    CONNECTED    versions are agreed on, then requests are sent while fewer than `max_in_flight` have no response

What a request becomes, in the order of the checks:

    queue is full                                  QUEUE_FULL
    deadline passes while it waits                 TIMEOUT, not sent; the connection stays
    connecting or agreeing on versions fails       REFUSED, UNREACHABLE, DISCONNECTED, TIMEOUT, BAD_RESPONSE, not sent
    no common version                              UNSUPPORTED_VERSION, not sent
    deadline passes without a response             TIMEOUT, sent; the connection is dropped: the response may follow
    bytes that are not its response                BAD_RESPONSE, sent; the connection is dropped
    the connection ends otherwise                  DISCONNECTED, sent

Requests that wait survive the end of a connection that worked: they are sent on the next one.

Memory. At most `max_queued` requests as objects, `max_in_flight` requests as bytes, and one unfinished response.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from tailrace.config.voters import Address
from tailrace.env import CloseReason, Env, Stream
from tailrace.model.errors import UnencodableMessageError, UnsupportedVersionError
from tailrace.model.line_limit import LineLimit
from tailrace.model.listeners import Listeners
from tailrace.peers.backoff import ReconnectBackoff
from tailrace.peers.callback_queue import CallbackQueue
from tailrace.peers.outcome import FailureKind, PeerEvent, PeerEventKind, PeerFailure
from tailrace.peers.settings import PeerSettings
from tailrace.protocol.conversation import Conversation, State, VersionsAgreed
from tailrace.protocol.conversation_errors import ConversationError, ResponseTimeoutError
from tailrace.protocol.message import Request, Response
from tailrace.protocol.response_frames import ResponseFrames

_log = logging.getLogger(__name__)

Done = Callable[[Response | PeerFailure], None]

_EVENTS: Final = {
    CloseReason.REFUSED: PeerEventKind.REFUSED,
    CloseReason.UNREACHABLE: PeerEventKind.UNREACHABLE,
    CloseReason.CLOSED: PeerEventKind.CLOSED,
    CloseReason.RESET: PeerEventKind.RESET,
}
_CONNECT_FAILURES: Final = {
    CloseReason.REFUSED: FailureKind.REFUSED,
    CloseReason.UNREACHABLE: FailureKind.UNREACHABLE,
}


class Call(NamedTuple):
    request: Request
    version: int | None
    deadline_ms: int
    done: Done


class PeerLink:
    """Implements `StreamListener`."""

    def __init__(
        self,
        address: Address,
        settings: PeerSettings,
        env: Env,
        callbacks: CallbackQueue,
        on_event: Listeners[PeerEvent],
        set_timer: Callable[[int], None],
    ) -> None:
        """`set_timer` has `run_due` called at a time, or earlier."""
        self.address = address
        self._settings = settings
        self._env = env
        self._callbacks = callbacks
        self._on_event = on_event
        self._set_timer = set_timer
        self._queue: deque[Call] = deque()
        self._in_flight: deque[Call] = deque()
        self._stream: Stream | None = None
        self._is_connected = False
        self._conversation = self._new_conversation()
        self._backoff = ReconnectBackoff(settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms, env.random)
        self._retry_ms = 0
        self._active_ms = 0
        self._lines = LineLimit()

    @property
    def is_connected(self) -> bool:
        return self._is_connected

    # The owner's calls

    def submit(self, call: Call) -> None:
        if len(self._queue) >= self._settings.max_queued:
            self._fail(call, FailureKind.QUEUE_FULL, False, f"{len(self._queue)} requests wait")
            return
        self._queue.append(call)
        self._active_ms = self._now_ms()
        self._advance()
        self._set_timer(self.due_ms())

    def close(self) -> None:
        """Close the connection and fail all requests. The link is not used again."""
        if self._stream is not None:
            self._stream.close()
        self._fail_in_flight(FailureKind.CLOSED, "closed while in flight")
        self._fail_queue(FailureKind.CLOSED, "closed while waiting")

    # Time

    def due_ms(self) -> int:
        """When `run_due` has something to do."""
        if self._queue:
            due_ms = min(call.deadline_ms for call in self._queue)
            if self._stream is None:
                due_ms = min(due_ms, self._retry_ms)
        elif self._in_flight:
            due_ms = self._in_flight[0].deadline_ms
        else:
            due_ms = self._active_ms + self._settings.idle_ms
        conversation_ms = self._conversation.due_ms
        return due_ms if conversation_ms is None else min(due_ms, conversation_ms)

    def run_due(self, now_ms: int) -> bool:
        """Whether the link is still of use: an idle one is closed, and not used again."""
        overdue = [call for call in self._queue if call.deadline_ms <= now_ms]
        if overdue:
            self._queue = deque(call for call in self._queue if call.deadline_ms > now_ms)
            for call in overdue:
                self._fail(call, FailureKind.TIMEOUT, False, "it waited for a connection or for earlier requests")
        try:
            self._conversation.tick(now_ms)
        except ResponseTimeoutError as error:
            self._drop(error, now_ms)
        if not self._queue and not self._in_flight and now_ms >= self._active_ms + self._settings.idle_ms:
            if self._stream is not None:
                self._stream.close()
                self._report(PeerEventKind.DROPPED, "idle")
            return False
        self._advance()
        return True

    # The stream's events

    def connected(self) -> None:
        self._is_connected = True
        self._active_ms = self._now_ms()
        self._report(PeerEventKind.CONNECTED, "")
        self._conversation.begin(self._active_ms + self._settings.connect_timeout_ms)
        self._end_event()

    def received(self, data: memoryview) -> None:
        self._active_ms = self._now_ms()
        try:
            for event in self._conversation.receive(data):
                self._backoff.reset()
                if not isinstance(event, VersionsAgreed):
                    self._callbacks.add(partial(self._in_flight.popleft().done, event.response))
        except ConversationError as error:
            self._drop(error, self._active_ms)
        self._end_event()

    def closed(self, reason: CloseReason, detail: str) -> None:
        was_ready = self._is_connected and self._conversation.state is State.READY
        self._stream_ended()
        self._report(_EVENTS[reason], detail)
        self._fail_in_flight(FailureKind.DISCONNECTED, f"{reason.value}: {detail}")
        if not was_ready:
            kind = _CONNECT_FAILURES.get(reason, FailureKind.DISCONNECTED)
            self._fail_queue(kind, detail)
        self._end_event()

    def _end_event(self) -> None:
        self._advance()
        self._set_timer(self.due_ms())
        self._callbacks.run()

    # Steps

    def _advance(self) -> None:
        """Connect if there is a reason to, and send what may be sent."""
        conversation = self._conversation
        if self._stream is None:
            if self._queue and self._now_ms() >= self._retry_ms:
                self._stream = self._env.network.connect(
                    self.address.host, self.address.port, self, self._settings.connect_timeout_ms
                )
            return
        while self._queue and conversation.can_send:
            call = self._queue.popleft()
            try:
                conversation.send(call.request, call.version, deadline_ms=call.deadline_ms)
            except UnsupportedVersionError as error:
                self._fail(call, FailureKind.UNSUPPORTED_VERSION, False, str(error))
            except UnencodableMessageError as error:
                self._fail(call, FailureKind.NOT_ENCODABLE, False, str(error))
            else:
                self._in_flight.append(call)
        if output := conversation.take_output():
            self._stream.send(output)

    def _drop(self, error: ConversationError, now_ms: int) -> None:
        """End the connection because of what the other node sent, or did not send."""
        assert self._stream is not None, "without a stream, nothing is received and nothing is awaited"
        was_agreed = self._conversation.versions is not None or not self._settings.discovers
        self._stream.close()
        self._stream_ended()
        self._report(PeerEventKind.DROPPED, str(error), error.hint)
        is_timeout = isinstance(error, ResponseTimeoutError)
        kind = FailureKind.TIMEOUT if is_timeout else FailureKind.BAD_RESPONSE
        calls, self._in_flight = self._in_flight, deque()
        for index, call in enumerate(calls):
            is_cause = call.deadline_ms <= now_ms if is_timeout else index == 0
            self._fail(call, kind if is_cause else FailureKind.DISCONNECTED, True, str(error))
        if not was_agreed:
            self._fail_queue(kind, str(error))

    def _stream_ended(self) -> None:
        self._stream = None
        self._is_connected = False
        self._conversation = self._new_conversation()
        self._retry_ms = self._now_ms() + self._backoff.next_ms()

    def _new_conversation(self) -> Conversation:
        settings = self._settings
        return Conversation(
            settings.client_id,
            f"the node at {self.address}",
            ResponseFrames(settings.max_response_bytes, settings.trusted_bytes),
            discovers=settings.discovers,
            max_in_flight=settings.max_in_flight,
            max_elements=settings.max_elements,
        )

    def _now_ms(self) -> int:
        return self._env.clock.monotonic_ms()

    # Ends

    def _report(self, kind: PeerEventKind, detail: str, hint: str = "") -> None:
        """Notify and log, each kind of end at growing intervals: there may be several attempts a second."""
        if kind is not PeerEventKind.CONNECTED and self._lines.is_due(kind, self._now_ms()):
            level = logging.WARNING if hint else logging.INFO
            next_step = f"; next step: {hint}" if hint else ""
            _log.log(level, "%s address=%s: %s%s", kind.value, self.address, detail, next_step)
        self._callbacks.add(partial(self._on_event, PeerEvent(self.address, kind, detail)))

    def _fail(self, call: Call, kind: FailureKind, was_sent: bool, detail: str) -> None:
        self._callbacks.add(partial(call.done, PeerFailure(self.address, kind, was_sent, detail)))

    def _fail_in_flight(self, kind: FailureKind, detail: str) -> None:
        calls, self._in_flight = self._in_flight, deque()
        for call in calls:
            self._fail(call, kind, True, detail)

    def _fail_queue(self, kind: FailureKind, detail: str) -> None:
        calls, self._queue = self._queue, deque()
        for call in calls:
            self._fail(call, kind, False, detail)
