"""Every batch of a data file with the CRC its bytes really have: for tools, which trust nothing and change nothing.

Memory is bounded whatever the file says: a batch longer than MAX_HELD_BYTES is hashed piece by piece and handed out
without its bytes. Bytes that are appended while the walk goes on are walked too.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from tailrace.env import File
from tailrace.model.errors import CorruptMessageError
from tailrace.record.batch import ATTRIBUTES_AT, HEADER_BYTES, MAGIC_AT
from tailrace.record.checksum import crc32c
from tailrace.record.shallow import ShallowBatch, next_batch

CHUNK_BYTES: Final = 1 << 20
MAX_HELD_BYTES: Final = 16 << 20


class WalkedBatch(NamedTuple):
    """A batch at `position` of its file. `batch.position` is its place in `window`, which is None for a huge batch."""

    position: int
    batch: ShallowBatch
    window: bytes | None
    found_crc: int

    @property
    def is_intact(self) -> bool:
        return self.found_crc == self.batch.crc


class LogWalk:
    """Iterate once. `position` is where the last batch handed out ended: after an error, where the damage begins."""

    __slots__ = ("_file", "_size", "_window", "_window_start", "position")

    def __init__(self, file: File) -> None:
        self._file = file
        self._size = 0
        self._window = b""
        self._window_start = 0
        self.position = 0

    def __iter__(self) -> Iterator[WalkedBatch]:
        """Raises CorruptMessageError where no whole batch with a known magic stands."""
        while True:
            batch = self._next_batch()
            if batch is None:
                return
            start = self.position
            held = batch.end <= len(self._window)
            found_crc = crc_in(self._window, batch) if held else self._crc_in_file(batch)
            self.position = start + batch.size
            yield WalkedBatch(start, batch, self._window if held else None, found_crc)

    def _next_batch(self) -> ShallowBatch | None:
        if self.position >= self._size:
            self._size = self._file.size()
            if self.position >= self._size:
                return None
        while (batch := self._header()) is None:
            if not self._has_grown():
                raise CorruptMessageError(f"the batch at position {self.position} is not whole")
        if batch.end > len(self._window) and batch.size <= MAX_HELD_BYTES:
            self._ensure(batch.size)
            return next_batch(self._window, self.position - self._window_start, len(self._window))
        return batch

    def _header(self) -> ShallowBatch | None:
        """The batch at the position, unless the file ends within it."""
        self._ensure(HEADER_BYTES)
        return next_batch(self._window, self.position - self._window_start, self._size - self._window_start)

    def _has_grown(self) -> bool:
        """A writer is at work: what looked like the end was none."""
        before, self._size = self._size, self._file.size()
        self._window = b""
        return self._size > before

    def _ensure(self, wanted_bytes: int) -> None:
        """Have `wanted_bytes` from the position on in the window, as far as the file goes."""
        wanted_end = min(self.position + wanted_bytes, self._size)
        if self.position < self._window_start or wanted_end > self._window_start + len(self._window):
            self._window_start = self.position
            length = min(max(CHUNK_BYTES, wanted_bytes), self._size - self.position)
            self._window = self._file.read_at(length, self.position)
            if len(self._window) < min(wanted_bytes, length):
                raise CorruptMessageError(f"the file ends at {self.position + len(self._window)} while it is read")

    def _crc_in_file(self, batch: ShallowBatch) -> int:
        position = self.position + (ATTRIBUTES_AT if batch.is_v2 else MAGIC_AT)
        end = self.position + batch.size
        crc = 0
        while position < end:
            piece = self._file.read_at(min(CHUNK_BYTES, end - position), position)
            if not piece:
                break
            crc = int(crc32c(piece, crc)) if batch.is_v2 else zlib.crc32(piece, crc)
            position += len(piece)
        return crc


def crc_in(buffer: bytes, batch: ShallowBatch) -> int:
    """The CRC that the bytes of a batch have, by the rule of its magic."""
    whole = memoryview(buffer)[batch.position : batch.end]
    return int(crc32c(whole[ATTRIBUTES_AT:])) if batch.is_v2 else zlib.crc32(whole[MAGIC_AT:])


def is_zero_from(file: File, position: int) -> bool:
    """Whether every byte from `position` on is zero, as in a file that was made longer before it was filled."""
    size = file.size()
    while position < size:
        piece = file.read_at(min(CHUNK_BYTES, size - position), position)
        if not piece:
            break
        if piece.count(0) != len(piece):
            return False
        position += len(piece)
    return True
