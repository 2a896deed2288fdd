"""The bytes of a data file that are being looked at: one buffer, filled again and again."""

from __future__ import annotations

from typing import Final

from tailrace.env import File
from tailrace.env.memory import zeroed_memory

WINDOW_BYTES: Final = 4 << 20  # larger ones leave the cache before they are checked; smaller ones cost more calls
MOST_HELD_BYTES: Final = 64 << 20
"""No batch that is larger is ever held: its CRC is taken from the file, block by block."""


class Window:
    """`view` is what there is from `position` on. The file is read to `limit`, or to where it ends now."""

    def __init__(self, file: File, position: int, limit: int) -> None:
        self.file = file
        self.position = position
        self.limit = limit
        self.read_bytes = 0
        self._buffer = zeroed_memory(WINDOW_BYTES)
        self._first = 0
        self._behind = 0

    @property
    def view(self) -> memoryview:
        return self._buffer[self._first : self._behind]

    @property
    def held(self) -> int:
        return self._behind - self._first

    @property
    def left(self) -> int:
        """Bytes from `position` to the end of what is to be read."""
        return self.limit - self.position

    def fill(self, wanted: int = WINDOW_BYTES) -> None:
        """Have `wanted` bytes, or all that are left; at most MOST_HELD_BYTES."""
        wanted = min(max(wanted, WINDOW_BYTES), MOST_HELD_BYTES, self.left)
        held = self.held
        if wanted <= held:
            return
        before = self.view
        if wanted > len(self._buffer) or max(wanted, held) <= WINDOW_BYTES < len(self._buffer):
            self._buffer = zeroed_memory(max(wanted, WINDOW_BYTES))
        self._buffer[:held] = before
        read = self.file.read_into(self._buffer[held:wanted], self.position + held)
        self.read_bytes += read
        self._first, self._behind = 0, held + read
        if self.held < wanted:  # cut meanwhile
            self.limit = self.position + self.held

    def go_to(self, position: int) -> None:
        """Forget everything before `position`, which is not before the present one."""
        self._first = min(self._first + position - self.position, self._behind)
        self.position = position
