"""A client's connection as the node sees it: requests in, answers out, in order. It knows no socket.

Kafka handles one request of a connection at a time. Here produce requests are taken together: all that have arrived
are appended with as few writes as possible, and more may come while earlier ones wait for their acknowledgement. A
request of any other kind is handled when everything before it is answered, and nothing behind it before it is.

What a client has sent that is no request raises InvalidRequestError: the connection is to be closed.
"""

from __future__ import annotations

import logging
import struct
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Final, Protocol

from tailrace.broker.answer_errors import refusal
from tailrace.broker.commit_lane import CommitLane
from tailrace.broker.context import RequestContext, Slot
from tailrace.broker.fetch_lane import FetchLane
from tailrace.broker.produce_run import ProduceRun
from tailrace.model.errors import InvalidRequestError, TailraceError
from tailrace.protocol.apis import APIS, FETCH, OFFSET_COMMIT, PRODUCE
from tailrace.protocol.frame import (
    MIN_REQUEST_BYTES,
    SIZE_BYTES,
    decode_request,
    decode_request_header,
    encode_response,
    wrong_size,
)
from tailrace.protocol.message import Response
from tailrace.protocol.schema import Payload

if TYPE_CHECKING:
    from tailrace.broker.dispatch import Dispatch
    from tailrace.broker.node import Node

_log = logging.getLogger(__name__)

MAX_WAITING_PRODUCES: Final = 1000
MOST_IN_A_TURN: Final = 16  # requests other than produce; a client that pipelines does not keep the others waiting
_SIZE_KEY_VERSION_CORRELATION: Final = struct.Struct(">ihhi")


class Transport(Protocol):
    """What carries the bytes. None of its methods may call back into the channel."""

    def send(self, parts: list[Payload]) -> bool:
        """Take the parts; False when they could not all be sent at once: no more requests, please."""

    def send_soon(self, data: bytes) -> None:
        """Take the data, to be sent in its order but not before others are served; then `choked` if need be."""

    def resume(self) -> None:
        """The channel can go on: offer it what it has not taken; asked for during `receive`, after others."""

    def close(self) -> None:
        """Soon, without sending anything more."""


class Channel:
    def __init__(
        self,
        node: Node,
        dispatch: Dispatch,
        transport: Transport,
        listener: str,
        peer_host: str,
        max_request_bytes: int,
    ) -> None:
        self.node = node
        self.listener = listener
        self.peer_host = peer_host
        self.is_open = True
        self.is_failed = False
        """What it has sent behind is not handled any more."""
        self._dispatch = dispatch
        self._transport = transport
        self._max_request_bytes = max_request_bytes
        self._slots: deque[Slot] = deque()
        self._only_produces = True
        """Nothing but produce requests is unanswered."""
        self._is_receiving = False
        self._takes_more = True
        """The transport could send everything so far."""
        self._when_closed: dict[Hashable, Callable[[], None]] = {}
        self._fetches = FetchLane(node)
        self._commits = CommitLane(node)
        self._produces = ProduceRun(self) if dispatch.serves(PRODUCE) else None

    @property
    def is_waiting(self) -> bool:
        """Some request is unanswered."""
        return bool(self._slots)

    # In

    def receive(self, buffer: memoryview, begin: int, end: int) -> int:
        """Handle the requests that stand whole in the buffer, as far as that may be now.

        Returns the position behind the last one handled. The buffer may be used again as soon as this returns.
        """
        self._is_receiving = True
        produces = self._produces
        handled = 0
        try:
            while end - begin >= _SIZE_KEY_VERSION_CORRELATION.size:
                size, key, version, correlation_id = _SIZE_KEY_VERSION_CORRELATION.unpack_from(buffer, begin)
                if not MIN_REQUEST_BYTES <= size <= self._max_request_bytes:
                    raise self._wrong_size(size)
                frame, frame_end = begin + SIZE_BYTES, begin + SIZE_BYTES + size
                if frame_end > end or not self._takes_more:
                    break
                if key == PRODUCE and produces is not None:
                    if not self._only_produces or len(self._slots) >= MAX_WAITING_PRODUCES:
                        break
                    behind = produces.add_alike(buffer, begin, end, self._max_request_bytes)
                    if behind > begin:
                        begin = behind
                        continue
                    produces.add(buffer, frame, frame_end, version, correlation_id)
                else:
                    if produces is not None and not produces.is_empty:
                        produces.finish()
                    if self._slots or not self._takes_more:
                        break
                    if handled == MOST_IN_A_TURN:
                        self._transport.resume()
                        break
                    handled += 1
                    data = bytes(buffer[frame:frame_end])
                    parts = self._fetches.answer(data, version, correlation_id) if key == FETCH else None
                    if parts is not None:
                        self.send(parts)
                    elif key != OFFSET_COMMIT or not self._commits.take(self, data, version, correlation_id):
                        self._handle(data)
                begin = frame_end
            else:
                self._check_size(buffer, begin, end)
            return begin
        finally:
            self._is_receiving = False
            if produces is not None and not produces.is_empty:
                produces.finish()

    def _check_size(self, buffer: memoryview, begin: int, end: int) -> None:
        """Refuse a size as soon as it is there: what follows it may never come."""
        if end - begin >= SIZE_BYTES:
            size = int.from_bytes(buffer[begin : begin + SIZE_BYTES], "big", signed=True)
            if not MIN_REQUEST_BYTES <= size <= self._max_request_bytes:
                raise self._wrong_size(size)

    def _wrong_size(self, size: int) -> InvalidRequestError:
        return wrong_size(size, self._max_request_bytes)

    def _handle(self, frame: bytes) -> None:
        header, position = decode_request_header(frame)
        key, version = header.request_api_key, header.request_api_version
        handle = self._dispatch.handler(key, version)
        api = APIS[key]
        slot = Slot()
        self._slots.append(slot)
        self._only_produces = False
        if handle is None:  # ApiVersions in a version to come
            response = self._dispatch.unknown_api_versions()
            self.answer(slot, encode_response(header, response, version=0))
            return
        request = decode_request(header, frame, position)
        if key == FETCH and not self._dispatch.is_controller:  # there, fetches are about the metadata log
            self._fetches.learn(header, request, frame)
        elif key == OFFSET_COMMIT:
            self._commits.learn(header, request, frame)
        now_ms = self.node.env.clock.now_ms()
        context = RequestContext(
            version,
            header.client_id or "",
            self.listener,
            self.peer_host,
            now_ms,
            is_controller_listener=self._dispatch.is_controller,
            correlation_id=header.correlation_id,
            slot=slot,
            connection=self,
        )
        counters = self.node.counters.api(key)
        began_ns = time.perf_counter_ns()

        def reply(response: Response) -> None:
            if slot.parts is None:
                counters.total_time_us.record((time.perf_counter_ns() - began_ns) // 1000)
                counters.answered(response)
                try:
                    parts = encode_response(header, response)
                except TailraceError as error:  # whoever has called cannot help that the version has no words for it
                    self.fail(error)
                else:
                    self.answer(slot, parts)

        counters.requests[version] += 1
        try:
            handle(self.node, context, request, reply)
        except TailraceError as error:
            self._refuse(api.response, error, reply)
        except Exception:
            _log.exception("%s v%s from %s (client %r) failed", api.name, version, self.peer_host, context.client_id)
            self._transport.close()

    def _refuse(self, kind: type[Response], error: TailraceError, reply: Callable[[Response], None]) -> None:
        """A handler let an error out: the whole request has failed."""
        response = refusal(kind, error)
        if response is None:
            _log.warning("%s is answered by closing the connection: %s", kind.__name__, error)
            self._transport.close()
        else:
            reply(response)

    # Out

    def new_slot(self) -> Slot:
        """For a produce request that has to wait."""
        slot = Slot()
        self._slots.append(slot)
        return slot

    def hold(self) -> Slot:
        """For a produce request that is not appended yet: nothing behind it is taken before it is answered."""
        self._only_produces = False
        return self.new_slot()

    def send(self, parts: list[Payload]) -> None:
        """Answers to the requests that came first; only when none before them is unanswered."""
        if not self._transport.send(parts):
            self._takes_more = False

    def send_soon(self, data: bytes) -> None:
        """As `send`, but others may be served first."""
        self._transport.send_soon(data)

    def choked(self) -> None:
        """The transport could not send everything."""
        self._takes_more = False

    def answer(self, slot: Slot, parts: list[Payload]) -> None:
        """An answer, empty for a request that gets none; it is sent when those before it are."""
        if not self.is_open or slot.parts is not None:
            return
        slot.parts = parts
        slots = self._slots
        if slots[0] is not slot:
            return
        ready: list[Payload] = []
        while slots and slots[0].parts is not None:
            ready += slots.popleft().parts or ()
        if not slots:
            self._only_produces = True
        if ready:
            self.send(ready)
        if not self._is_receiving and self._takes_more:
            self._transport.resume()

    def drained(self) -> None:
        """The transport has sent everything that it was given."""
        self._takes_more = True

    def fail(self, error: Exception) -> None:
        """The client cannot be answered any more in a way it would understand; what it sent behind is not handled."""
        _log.info("connection of %s is closed: %s", self.peer_host, error)
        self.is_failed = True
        self._takes_more = False
        self._transport.close()

    def when_closed(self, key: Hashable, action: Callable[[], None]) -> None:
        """`action` is called when the client has gone away; under the same key there is only the last one."""
        self._when_closed[key] = action

    def closed(self) -> None:
        """The client is gone: nobody waits for what is still unanswered."""
        self.is_open = False
        slots, self._slots = self._slots, deque()
        for slot in slots:
            if slot.when_dropped is not None:
                slot.when_dropped()
        actions, self._when_closed = self._when_closed, {}
        for action in actions.values():
            action()
