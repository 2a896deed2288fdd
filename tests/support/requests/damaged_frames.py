"""What can be wrong with a request's bytes, one thing at a time."""

from __future__ import annotations

import struct
from collections.abc import Iterator

HEADER_BYTES = 8  # key, version, correlation id
CLIENT_ID_AT = HEADER_BYTES + 2
LARGEST_INT = 0x7FFF_FFFF

SIZES = (-1, -LARGEST_INT, 0, 1, 7, 9, 104_857_601, LARGEST_INT)
"""Of requests that cannot be."""


def damaged(frame: bytes, unknown_version: int, *, is_flexible: bool) -> Iterator[tuple[str, bytes]]:
    """`frame` has its size in front, as have those that come back; its client id is not empty."""
    body = frame[4:]
    client_id_end = CLIENT_ID_AT + int.from_bytes(body[HEADER_BYTES:CLIENT_ID_AT], "big")
    yield "cut by a byte", sized(body[:-1])
    yield "cut in the middle", sized(body[: max(len(body) * 2 // 3, HEADER_BYTES + 2)])
    yield "cut in its header", sized(body[: CLIENT_ID_AT + 1])
    yield "with more behind it", sized(body + b"\0\0junk")
    yield "of an unknown version", sized(body[:2] + struct.pack(">h", unknown_version) + body[4:])
    yield "of version -1", sized(body[:2] + b"\xff\xff" + body[4:])
    yield "of an unknown API", sized(struct.pack(">h", 9999) + body[2:])
    yield "of API -1", sized(b"\xff\xff" + body[2:])
    yield "without a client id", sized(body[:HEADER_BYTES] + b"\xff\xff" + body[client_id_end:])
    yield "with a client id of length -2", sized(body[:HEADER_BYTES] + b"\xff\xfe" + body[client_id_end:])
    yield "with a client id that is no text", sized(body[:CLIENT_ID_AT] + b"\xff" + body[CLIENT_ID_AT + 1 :])
    if is_flexible:
        before, behind = body[:client_id_end], body[client_id_end + 1 :]
        yield "with an unknown tag", sized(before + b"\1\x63\2ab" + behind)
        yield "with a tag that does not end", sized(before + b"\1\x63\x7f" + behind)
        yield "with a tag twice", sized(before + b"\2\x63\1a\x63\1b" + behind)
        yield "with tags in disorder", sized(before + b"\2\x63\1a\x62\1b" + behind)
        yield "with more tags than there are", sized(before + b"\xff\xff\xff\xff\x07" + behind)
        yield "with a number that does not end", sized(before + b"\xff" * 6 + behind)


def damaged_text(frame: bytes, text: bytes) -> bytes:
    """With bytes that are no UTF-8 where `text` stands first."""
    body = frame[4:]
    place = body.index(text, CLIENT_ID_AT)
    return sized(body[:place] + b"\xff" * len(text) + body[place + len(text) :])


def sized(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body
