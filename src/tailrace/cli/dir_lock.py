"""Who uses a data directory: asked of the kernel, which knows the locks on a file, without taking one.

A broker, Kafka's or ours, holds a write lock on `.lock` as long as it runs. Only the question is put whether such a
lock could be had; nothing is written, and a broker that starts at this moment is not refused.
"""

from __future__ import annotations

import fcntl
import os
import struct
from typing import Final, NamedTuple

_FLOCK: Final = "hhqqi0q"  # struct flock of 64-bit Linux
_ANYBODY: Final = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


class LockHolder(NamedTuple):
    """`pid` is None where the kernel does not tell: for a Tailrace broker, and for one in another container."""

    pid: int | None


def lock_holder(path: str) -> LockHolder | None:
    """Who holds the lock on a file; None when nobody does, or there is no such file. An OSError passes through."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        answer = fcntl.fcntl(fd, getattr(fcntl, "F_OFD_GETLK", fcntl.F_GETLK), _ANYBODY)
    finally:
        os.close(fd)
    kind, _, _, _, pid = struct.unpack(_FLOCK, answer)
    if kind == fcntl.F_UNLCK:
        return None
    return LockHolder(pid if pid > 0 else None)
