"""What can be wrong with a request's bytes, one thing at a time."""

from __future__ import annotations

import struct
from collections.abc import Iterator

HEADER_BYTES = 8  # key, version, correlation id
LARGEST_INT = 0x7FFF_FFFF


def damaged(frame: bytes, unknown_version: int) -> Iterator[tuple[str, bytes]]:
    """`frame` has its size in front, as have those that come back."""
    body = frame[4:]
    yield "cut by a byte", sized(body[:-1])
    yield "cut in the middle", sized(body[: max(len(body) * 2 // 3, HEADER_BYTES + 2)])
    yield "with more behind it", sized(body + b"\0\0junk")
    yield "of an unknown version", sized(body[:2] + struct.pack(">h", unknown_version) + body[4:])
    yield "of version -1", sized(body[:2] + b"\xff\xff" + body[4:])
    yield "of an unknown API", sized(struct.pack(">h", 9999) + body[2:])
    yield "of API -1", sized(b"\xff\xff" + body[2:])


def sized(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body
