"""What a chunk of a connection is, in words for the event log: the request or response that begins with it.

Produce v9 #12        request, version, correlation id
response #12
(nothing)             the chunk continues a frame, or is not Kafka's protocol
"""

from __future__ import annotations

import struct
from typing import Final

from tailrace.protocol.apis import APIS

_REQUEST: Final = struct.Struct(">ihhi")
_RESPONSE: Final = struct.Struct(">ii")
MAX_SHOWN_FRAME_BYTES: Final = 1 << 28
MAX_SHOWN_CORRELATION_ID: Final = 1 << 28  # what lies beyond is rather the middle of a frame


def describe_chunk(data: bytes, to_listener: bool) -> str:
    """A guess for readers: a chunk may look like the beginning of a frame and be another part of one."""
    if not to_listener:
        if len(data) < _RESPONSE.size:
            return ""
        size, correlation_id = _RESPONSE.unpack_from(data)
        return f"response #{correlation_id}" if _is_plausible(size, correlation_id) else ""
    if len(data) < _REQUEST.size:
        return ""
    size, key, version, correlation_id = _REQUEST.unpack_from(data)
    api = APIS.get(key)
    if api is None or not api.first_version <= version <= api.last_version or not _is_plausible(size, correlation_id):
        return ""
    return f"{api.name} v{version} #{correlation_id}"


def _is_plausible(size: int, correlation_id: int) -> bool:
    return 0 < size <= MAX_SHOWN_FRAME_BYTES and 0 <= correlation_id <= MAX_SHOWN_CORRELATION_ID
