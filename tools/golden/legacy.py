"""Message sets of magic 0 and 1 as old brokers left them, which no living Kafka writes any more.

Plain messages and the inner ones of wrappers are kafka-python's; the wrapper around a compressed set is made here,
since kafka-python leaves its offset and timestamp to the broker. Kafka 4 still reads them: it judges what this makes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence

from kafka.codec import gzip_encode, lz4_encode, snappy_encode
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from golden.broker import Message

NO_TIMESTAMP = -1
LOG_APPEND_TIME = 0x08
CODECS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "gzip": (1, gzip_encode),
    "snappy": (2, snappy_encode),
    "lz4": (3, lz4_encode),
}


def message_set(magic: int, offsets: Sequence[int], messages: Sequence[Message]) -> bytes:
    """Uncompressed messages with these offsets."""
    out = bytearray()
    for offset, message in zip(offsets, messages, strict=True):
        builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
        builder.append(offset, message.timestamp_ms if magic else None, message.key, message.value)
        out += builder.build()
    return bytes(out)


def wrapper(
    magic: int, codec: str, offsets: Sequence[int], messages: Sequence[Message], append_time_ms: int | None = None
) -> bytes:
    """One compressed message that holds the set. Inner offsets are absolute in magic 0, relative to the first in 1."""
    code, compress = CODECS[codec]
    inner = offsets if magic == 0 else [offset - offsets[0] for offset in offsets]
    value = compress(message_set(magic, inner, messages))
    attributes = code | (LOG_APPEND_TIME if append_time_ms is not None else 0)
    newest_ms = max(message.timestamp_ms for message in messages)
    return envelope(magic, offsets[-1], attributes, newest_ms if append_time_ms is None else append_time_ms, value)


def envelope(magic: int, offset: int, attributes: int, timestamp_ms: int, value: bytes) -> bytes:
    """A message without key, from its fields."""
    body = struct.pack(">bb", magic, attributes)
    if magic == 1:
        body += struct.pack(">q", timestamp_ms)
    body += struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def batch(
    codec: int,
    base_offset: int,
    messages: Sequence[Message],
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """A v2 batch; `producer` is id, epoch and base sequence."""
    builder = DefaultRecordBatchBuilder(2, codec, False, *producer, 1 << 20)
    for delta, message in enumerate(messages):
        builder.append(delta, message.timestamp_ms, message.key, message.value, list(message.headers))
    made = bytearray(builder.build())
    struct.pack_into(">q", made, 0, base_offset)  # before the CRC's range
    return bytes(made)
