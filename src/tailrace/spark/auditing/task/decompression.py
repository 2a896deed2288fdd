"""The records of a compressed batch, as they were before.

LZ4 in the one form in which every client writes it, a frame of independent blocks without checksums, is taken block by
block here: that takes half of the time that a frame takes which may be anything. All else, and all that is odd, goes
the way of `record.compression`.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

import lz4.block
import lz4.frame

from tailrace.record.compression import LZ4, blocks

MOST_HELD_BYTES: Final = 16 << 20
"""Of a batch that is held whole when it is decompressed; a larger one comes block by block."""

_FRAME_HEADER_BYTES: Final = 7
_FLAGS_AT: Final = 4
_SIMPLE_FLAGS: Final = 0x60
_BLOCK_BYTES_BY_CODE: Final = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
_STORED_BIT: Final = 0x8000_0000
_UINT: Final = Struct("<I")

_block_bytes_of_header: Final[dict[bytes, int]] = {}
"""Headers of frames that were found right; there are few."""


def decompressed(codec: int, payload: memoryview) -> tuple[bytes, Iterator[bytes] | None]:
    """The records of a batch, and what follows them where there are too many to be held.

    Raises CorruptMessageError and UnsupportedCompressionError, and so does what follows.
    """
    if not payload:
        return b"", None  # a cleaner took all its records
    if codec == LZ4:
        whole = _simple_frame(payload)
        if whole is not None:
            return whole, None
    pieces = blocks(codec, payload)
    data = next(pieces, b"")
    following = next(pieces, None)
    if following is None:
        return data, None
    gathered, total = [data, following], len(data) + len(following)
    for piece in pieces:
        gathered.append(piece)
        total += len(piece)
        if total > MOST_HELD_BYTES:
            return b"".join(gathered), pieces
    return b"".join(gathered), None


def _simple_frame(payload: memoryview) -> bytes | None:
    """None unless it is such a frame, right from its first byte to its last, and not large."""
    header = bytes(payload[:_FRAME_HEADER_BYTES])
    block_bytes = _block_bytes_of_header.get(header)
    if block_bytes is None:
        block_bytes = _block_bytes(header)
        if block_bytes is None:
            return None
        _block_bytes_of_header[header] = block_bytes
    position, end = _FRAME_HEADER_BYTES, len(payload)
    found: list[bytes] = []
    total = 0
    try:
        while position + _UINT.size <= end and total <= MOST_HELD_BYTES - block_bytes:
            (size,) = _UINT.unpack_from(payload, position)
            position += _UINT.size
            if not size:
                return found[0] if len(found) == 1 else b"".join(found)
            is_stored, size = size & _STORED_BIT, size & ~_STORED_BIT
            if size > end - position:
                return None
            block = payload[position : position + size]
            data = bytes(block) if is_stored else lz4.block.decompress(block, uncompressed_size=block_bytes)
            if len(data) > block_bytes:
                return None
            found.append(data)
            total += len(data)
            position += size
    except lz4.block.LZ4BlockError:
        pass
    return None


def _block_bytes(header: bytes) -> int | None:
    """The greatest size of blocks, if the header of the frame is right and as simple as can be."""
    if len(header) < _FRAME_HEADER_BYTES or header[_FLAGS_AT] != _SIMPLE_FLAGS:
        return None
    try:
        lz4.frame.get_frame_info(header)
    except RuntimeError:
        return None
    return _BLOCK_BYTES_BY_CODE.get(header[_FLAGS_AT + 1] >> 4)
