"""What a Schema Registry's serializers put before a value, so that its reader finds the schema.

magic       1 byte      0
schema id   4 bytes     big endian
path        Protobuf only: which message of the schema's file. Zigzag varints: how many, then so many indexes, from
            the outermost message inwards; a lone 0 stands for [0], the file's first message
payload     the rest
"""

from __future__ import annotations

import struct
from typing import Final

from tailrace.spark.errors import PipelineError

MAGIC: Final = 0
HEADER_BYTES: Final = 5
MessagePath = tuple[int, ...]
FIRST_MESSAGE: Final[MessagePath] = (0,)

_MAX_VARINT_BYTES: Final = 5
_HEADER: Final = struct.Struct(">bi")


class BadFrameError(PipelineError):
    """A value that does not begin as a registry's serializers let it begin."""


def schema_id(value: bytes) -> int:
    """The id that a value is marked with; its payload, or its path, is behind `HEADER_BYTES`."""
    if len(value) < HEADER_BYTES:
        raise BadFrameError(f"{len(value)} bytes are too few for a schema's id: it takes {HEADER_BYTES}")
    magic, found = _HEADER.unpack_from(value)
    if magic != MAGIC:
        raise BadFrameError(f"begins with byte {value[0]}, not with {MAGIC} and a schema's id")
    if found < 0:
        raise BadFrameError(f"schema id {found} is negative")
    return int(found)


def framed(identity: int, payload: bytes) -> bytes:
    """A value as a registry's serializers write it."""
    return _HEADER.pack(MAGIC, identity) + payload


def message_path(value: bytes, start: int = HEADER_BYTES) -> tuple[MessagePath, int]:
    """The path of a Protobuf value, and where its payload begins."""
    count, at = _zigzag(value, start)
    if count == 0:
        return FIRST_MESSAGE, at
    if not 0 < count <= len(value) - at:
        raise BadFrameError(f"a message's path of {count} indexes in {len(value)} bytes")
    path = []
    for _ in range(count):
        index, at = _zigzag(value, at)
        if index < 0:
            raise BadFrameError(f"a message's path with index {index}")
        path.append(index)
    return tuple(path), at


def path_bytes(path: MessagePath) -> bytes:
    """The opposite of `message_path`."""
    if path == FIRST_MESSAGE:
        return b"\x00"
    return b"".join(_zigzag_bytes(number) for number in (len(path), *path))


def _zigzag(value: bytes, at: int) -> tuple[int, int]:
    raw = 0
    for place, byte in enumerate(value[at : at + _MAX_VARINT_BYTES]):
        raw |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), at + place + 1
    raise BadFrameError("a message's path that does not end")


def _zigzag_bytes(number: int) -> bytes:
    raw = number << 1 if number >= 0 else ~(number << 1)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)
