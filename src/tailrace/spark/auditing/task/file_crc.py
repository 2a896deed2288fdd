"""CRCs of bytes of a file that are not held in memory."""

from __future__ import annotations

from typing import Final

from crc32c import crc32c

from tailrace.env import File

_BLOCK_BYTES: Final = 1 << 20


def crc32c_in(file: File, position: int, end: int) -> int:
    """Of the bytes from `position` to `end`, or to where the file ends before that."""
    crc = 0
    while position < end:
        data = file.read_at(min(_BLOCK_BYTES, end - position), position)
        if not data:
            break
        crc = int(crc32c(data, crc))
        position += len(data)
    return crc
