"""Splits the bytes of a connection into frames: an int32 size, and as many bytes.

The reader says where the next bytes go (`wanted`), and the caller puts them there, from a socket or from a buffer. It
never asks for more than the rest of one frame, so nothing is read that has no reader yet.

Memory. A size is a promise of an untrusted process: up to `trusted_bytes` are allocated at once, and from there on the
buffer doubles as the bytes arrive.
"""

from __future__ import annotations

import struct
from typing import Final

from tailrace.protocol.conversation_errors import ResponseSizeError
from tailrace.protocol.frame import SIZE_BYTES

MIN_RESPONSE_BYTES: Final = 4  # a correlation id

_SIZE: Final = struct.Struct(">i")


class ResponseFrames:
    __slots__ = (
        "_buffer",
        "_filled",
        "_frame",
        "_head",
        "_max_bytes",
        "_memory",
        "_reuses_memory",
        "_size",
        "_trusted_bytes",
    )

    def __init__(self, max_bytes: int, trusted_bytes: int, *, reuses_memory: bool = False) -> None:
        """With `reuses_memory`, a frame is valid until bytes of the next one are wanted."""
        self._max_bytes = max_bytes
        self._trusted_bytes = trusted_bytes
        self._reuses_memory = reuses_memory
        self._head = memoryview(bytearray(SIZE_BYTES))
        self._buffer = self._head
        """Of the size, then of the frame or its beginning."""
        self._filled = 0
        self._frame = False
        """Whether the buffer is that of a frame."""
        self._size = 0
        self._memory = memoryview(bytearray())

    def wanted(self) -> memoryview:
        """Where the next bytes go; never empty."""
        return self._buffer[self._filled :]

    def filled(self, count: int) -> memoryview | None:
        """Take note that `count` bytes are there; a frame without its size if it is complete."""
        self._filled += count
        buffer = self._buffer
        if self._filled < len(buffer):
            return None
        if not self._frame:
            (self._size,) = _SIZE.unpack(buffer)
            if not MIN_RESPONSE_BYTES <= self._size <= self._max_bytes:
                allowed = f"{MIN_RESPONSE_BYTES} to {self._max_bytes}"
                raise ResponseSizeError(f"it announces a response of {self._size} bytes; allowed are {allowed}")
            self._frame, self._filled = True, 0
            self._buffer = self._room(min(self._size, self._trusted_bytes))
            return None
        if self._filled < self._size:
            self._buffer = self._room(min(self._size, 2 * self._filled))
            self._buffer[: self._filled] = buffer
            return None
        self._buffer, self._frame, self._filled = self._head, False, 0
        return buffer

    def _room(self, size: int) -> memoryview:
        if not self._reuses_memory:
            return memoryview(bytearray(size))
        if len(self._memory) < size:
            self._memory = memoryview(bytearray(size))
        return self._memory[:size]
