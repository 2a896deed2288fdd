"""Requests as bytes, to any server that speaks Kafka's protocol."""

from __future__ import annotations

import socket
import struct
from types import TracebackType

from tailrace.protocol.frame import decode_response, encode_request
from tailrace.protocol.message import Request, Response

TIMEOUT_SECONDS = 6


class NoAnswer(Exception):  # noqa: N818 - it is an outcome, not an error
    """`str` of it says how that showed."""


class RawClient:
    """One connection at a time; a new one is made where the server has closed it."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.address = host, int(port)
        self._socket: socket.socket | None = None
        self._correlation_id = 0

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self, request: Request, version: int) -> Response:
        return self.answer_to(request.KEY, version, self.frame_of(request, version))

    def frame_of(self, request: Request, version: int) -> bytes:
        """With its size."""
        self._correlation_id += 1
        return b"".join(bytes(part) for part in encode_request(request, version, self._correlation_id, "raw"))

    def answer_to(self, key: int, version: int, frame: bytes) -> Response:
        """NoAnswer where there is none."""
        _, response = decode_response(key, version, self.exchange(frame))
        return response

    def exchange(self, data: bytes) -> bytes:
        """The answering frame without its size."""
        if self._socket is None:
            self._socket = socket.create_connection(self.address, TIMEOUT_SECONDS)
        try:
            self._socket.sendall(data)
            (size,) = struct.unpack(">i", self._received(4))
            return self._received(size)
        except (ConnectionError, TimeoutError) as error:
            self.close()
            raise NoAnswer("silence" if isinstance(error, TimeoutError) else "closed") from None

    def _received(self, size: int) -> bytes:
        assert self._socket is not None
        parts = []
        while size:
            part = self._socket.recv(size)
            if not part:
                raise ConnectionResetError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
