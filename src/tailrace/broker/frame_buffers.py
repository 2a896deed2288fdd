"""Buffers for requests that come in several reads, handed from one to the next.

A request of 32 KB and more that is not there whole goes on being read into a buffer of its own size, so that what has
come is moved once. Buffers come from the operating system and take up memory only as they are filled: announcing a
request costs nobody anything. Those up to 1 MB are kept for the next one, 16 MB in all; larger ones go back at once.
"""

from __future__ import annotations

from typing import Final

from tailrace.env.memory import zeroed_memory

OWN_BUFFER_BYTES: Final = 32 << 10
LARGEST_KEPT_BYTES: Final = 1 << 20
ALL_KEPT_BYTES: Final = 16 << 20


class FrameBuffers:
    def __init__(self) -> None:
        self._kept: dict[int, list[memoryview]] = {}
        self._kept_bytes = 0

    def take(self, size: int) -> memoryview:
        """Exactly `size` bytes, with anything in them."""
        if size > LARGEST_KEPT_BYTES:
            return zeroed_memory(size)
        capacity = 1 << (size - 1).bit_length()
        kept = self._kept.get(capacity)
        if kept:
            self._kept_bytes -= capacity
            return kept.pop()[:size]
        return zeroed_memory(capacity)[:size]

    def give_back(self, buffer: memoryview) -> None:
        """Nobody uses it any more."""
        whole = memoryview(buffer.obj)
        if len(whole) <= LARGEST_KEPT_BYTES and self._kept_bytes + len(whole) <= ALL_KEPT_BYTES:
            self._kept.setdefault(len(whole), []).append(whole)
            self._kept_bytes += len(whole)
