"""Lines of a file or a pipe as bytes, without the end of line; `None` where there are none for the moment."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from typing import Final

from tailrace.cli.output import CommandError

CHUNK_BYTES: Final = 1 << 18
IDLE_S: Final = 0.1
LONGEST_LINE_BYTES: Final = 64 << 20


class LineSource:
    """`bytes_read` tells how far it is. A file that is no pipe never has to be waited for."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.bytes_read = 0

    @property
    def total_bytes(self) -> int | None:
        """None where nobody knows."""
        size = os.fstat(self.descriptor).st_size
        return size or None

    def __iter__(self) -> Iterator[bytes | None]:
        rest = b""
        is_idle = False
        while True:
            if not is_idle and not select.select([self.descriptor], [], [], IDLE_S)[0]:
                is_idle = True
                yield None
                continue
            chunk = os.read(self.descriptor, CHUNK_BYTES)
            is_idle = False
            self.bytes_read += len(chunk)
            if not chunk:
                break
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (line.removesuffix(b"\r") for line in lines)
            if len(rest) > LONGEST_LINE_BYTES:
                raise CommandError(
                    f"a line is longer than {LONGEST_LINE_BYTES >> 20} MiB", "is this text? each line is one record"
                )
        if rest:
            yield rest
