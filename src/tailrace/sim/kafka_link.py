"""A simulated client's connection to a broker: one request at a time, over whatever the network does.

A request that is not answered in time, and one whose connection ends, is lost: the broker may have handled it or not,
and may still. The next request opens a new connection.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tailrace.env.network import CloseReason, Stream
from tailrace.model.errors import InvalidDataError
from tailrace.protocol.frame import SIZE_BYTES, decode_response, encode_request
from tailrace.protocol.message import Request
from tailrace.sim.process import Process

MAX_RESPONSE_BYTES = 64 << 20

Done = Callable[[Any], None]
"""Gets the response, or None when it is lost."""


class KafkaLink:
    def __init__(self, process: Process, host: str, port: int, timeout_ms: int) -> None:
        self._process = process
        self._address = host, port
        self._timeout_ms = timeout_ms
        self._connection: _Connection | None = None
        self._correlation_id = 0

    @property
    def is_busy(self) -> bool:
        """A request is waiting for its response."""
        return self._connection is not None and self._connection.is_waiting

    def ask(self, request: Request, version: int, done: Done) -> None:
        """Only when no other request is waiting for its response."""
        self._correlation_id += 1
        if self._connection is None:
            connection = self._connection = _Connection(self._lost)
            host, port = self._address
            connection.stream = self._process.env.network.connect(host, port, connection, self._timeout_ms)
        connection = self._connection
        connection.expect(request.KEY, version, self._correlation_id, done)
        frame = encode_request(request, version, self._correlation_id, self._process.machine.name)
        connection.stream.send([bytes(part) for part in frame])
        expired = partial(connection.expire, self._correlation_id)
        self._process.env.jobs.later("request-timeout", self._timeout_ms, expired)

    def _lost(self, connection: _Connection) -> None:
        if self._connection is connection:
            self._connection = None


class _Connection:
    """The listener of one stream."""

    stream: Stream

    def __init__(self, lost: Callable[[_Connection], None]) -> None:
        self._lost = lost
        self._data = bytearray()
        self._expected: tuple[int, int, int, Done] | None = None

    @property
    def is_waiting(self) -> bool:
        return self._expected is not None

    def expect(self, key: int, version: int, correlation_id: int, done: Done) -> None:
        self._expected = key, version, correlation_id, done

    def expire(self, correlation_id: int) -> None:
        if self._expected is not None and self._expected[2] == correlation_id:
            self.stream.close()
            self._end()

    def connected(self) -> None:
        """Requests wait in the stream until then."""

    def received(self, data: memoryview) -> None:
        self._data += data
        while len(self._data) >= SIZE_BYTES:
            size = int.from_bytes(self._data[:SIZE_BYTES], "big")
            if size > MAX_RESPONSE_BYTES:  # not a broker
                self.stream.close()
                self._end()
                return
            if len(self._data) < SIZE_BYTES + size:
                return
            frame = bytes(self._data[SIZE_BYTES : SIZE_BYTES + size])
            del self._data[: SIZE_BYTES + size]
            expected, self._expected = self._expected, None
            if expected is None:
                continue
            key, version, _, done = expected
            try:
                response = decode_response(key, version, frame)[1]
            except InvalidDataError:  # not a broker either
                response = None
            done(response)

    def closed(self, reason: CloseReason, detail: str) -> None:
        self._end()

    def _end(self) -> None:
        self._lost(self)
        expected, self._expected = self._expected, None
        if expected is not None:
            expected[3](None)
