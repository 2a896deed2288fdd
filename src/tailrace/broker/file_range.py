"""A stretch of a log file on its way to a client, without passing through Python.

What is not in the page cache would hold up the node's thread while the disk is read. So a range is probed before it is
sent, at some places of it, with reads that do not wait; what is cold is read by a job first. Where the system
cannot say, the range counts as warm.
"""

from __future__ import annotations

import os
from typing import Final

from tailrace.storage.fetch import LogSlice

PROBED_EVERY_BYTES: Final = 512 << 10
_NOWAIT: Final = getattr(os, "RWF_NOWAIT", None)
_BYTE: Final = [bytearray(1)]
_WARMING_BYTES: Final = 256 << 10


class FileRange:
    """A payload of an answer: its length is the number of bytes left to send."""

    __slots__ = ("_slice", "position", "size", "warm_end")

    def __init__(self, log_slice: LogSlice) -> None:
        self._slice = log_slice
        self.warm_end = 0
        """Up to here it was asked whether the disk has to be read."""
        self.position = log_slice.position
        self.size = log_slice.size

    def __len__(self) -> int:
        return self.size

    def fileno(self) -> int:
        return self._slice.file.fileno()

    def is_cold(self, count: int) -> bool:
        """Whether the disk would have to be read for the next `count` bytes. Each byte is asked about once."""
        end = self.position + count
        if end <= self.warm_end or _NOWAIT is None:
            return False
        begin, self.warm_end = max(self.position, self.warm_end), end
        fd = self._slice.file.fileno()
        try:
            for place in range(begin, end, PROBED_EVERY_BYTES):
                os.preadv(fd, _BYTE, place, _NOWAIT)
            os.preadv(fd, _BYTE, end - 1, _NOWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False  # the file system does not know such reads
        return False

    def warm(self, count: int) -> None:
        """Read the next `count` bytes into the page cache. For any thread; this waits for the disk."""
        position, end = self.position, self.position + count
        while position < end:
            data = self._slice.file.read_at(min(end - position, _WARMING_BYTES), position)
            if not data:
                return
            position += len(data)

    def sent(self, count: int) -> None:
        self.position += count
        self.size -= count

    def check(self) -> None:
        """SegmentGoneError when the log was cut meanwhile: what was sent may be anything."""
        self._slice.check()

    def read(self) -> bytes:
        """For whoever cannot send from a file."""
        return self._slice.read()
