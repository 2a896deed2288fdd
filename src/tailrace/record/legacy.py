"""Message sets of format v0 and v1, as old segments hold them and old clients send them.

    offset     int64   of this message; in a wrapper, of its last inner message
    length     int32   bytes after this field
    crc        int32   CRC-32 from magic to the end
    magic      int8    0 or 1
    attributes int8    bits 0–2 codec (v0: 0–2, v1: 0–3), bit 3 timestamp type (v1)
    timestamp  int64   v1 only
    key        int32 length (−1 for null) and bytes; null in a wrapper
    value      int32 length (−1 for null) and bytes; in a wrapper, a compressed message set

A message with a codec is a wrapper. Inner messages have absolute offsets in a v0 wrapper; in a v1 wrapper they count
from the wrapper's first, so that a broker places them all by the wrapper's offset alone. A v1 wrapper under
LogAppendTime gives its timestamp to all its messages. A wrapper in a wrapper is refused. Bytes behind a message's
value, and part of a message at the end of a wrapper, are passed over as Kafka passes over them.

Pure functions over bytes; nothing read here is trusted before its CRC has been checked.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from tailrace.env.files import Buffer
from tailrace.model.errors import CorruptMessageError, InvalidRecordError, UnsupportedCompressionError
from tailrace.record.batch import CODEC_MASK, CREATE_TIME, LOG_APPEND_TIME, TIMESTAMP_TYPE_BIT
from tailrace.record.compression import compress, decompress
from tailrace.record.shallow import (
    NO_TIMESTAMP,
    NO_TIMESTAMP_TYPE,
    ShallowBatch,
    batches,
    check_integrity,
)

GREATEST_CODEC: Final = {0: 2, 1: 3}  # lz4 came with v1, zstd with v2
KEY_AT: Final = {0: 18, 1: 26}

_INT: Final = Struct(">i")
_OFFSET_AND_LENGTH: Final = Struct(">qi")
_CRC: Final = Struct(">I")
_ATTRIBUTES_V0: Final = Struct(">bb")
_ATTRIBUTES_V1: Final = Struct(">bbq")


class LegacyMessage(NamedTuple):
    """One message with its absolute offset, and the timestamp that counts.

    `magic` is the message's own: logs exist in which it differs from its wrapper's.
    """

    offset: int
    magic: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None


def check_codec(magic: int, codec: int) -> None:
    if codec > GREATEST_CODEC[magic]:
        raise UnsupportedCompressionError(f"messages of magic {magic} know no codec {codec}")


def messages_of(buffer: Buffer, entry: ShallowBatch, max_decompressed_bytes: int) -> Iterator[LegacyMessage]:
    """The message, or the messages in the wrapper, that `entry` is. The caller has checked the entry's CRC."""
    if entry.codec:
        yield from _inner_messages(buffer, entry, max_decompressed_bytes)
        return
    key, value = key_and_value(buffer, entry)
    yield LegacyMessage(entry.last_offset, entry.magic, entry.max_timestamp, entry.timestamp_type, key, value)


def key_and_value(buffer: Buffer, entry: ShallowBatch) -> tuple[bytes | None, bytes | None]:
    """Raises CorruptMessageError when they reach beyond the entry."""
    key, position = _nullable_bytes(buffer, entry.position + KEY_AT[entry.magic], entry)
    value, _ = _nullable_bytes(buffer, position, entry)
    return key, value


def _nullable_bytes(buffer: Buffer, position: int, entry: ShallowBatch) -> tuple[bytes | None, int]:
    start = position + _INT.size
    if start > entry.end:
        raise CorruptMessageError(f"message at offset {entry.last_offset} ends before its value's length")
    (size,) = _INT.unpack_from(buffer, position)
    if size < 0:
        return None, start
    if size > entry.end - start:
        raise CorruptMessageError(
            f"message at offset {entry.last_offset} states a field of {size} bytes where {entry.end - start} are left"
        )
    return memoryview(buffer)[start : start + size].tobytes(), start + size


def _inner_messages(buffer: Buffer, wrapper: ShallowBatch, max_decompressed_bytes: int) -> Iterator[LegacyMessage]:
    check_codec(wrapper.magic, wrapper.codec)
    _, compressed = key_and_value(buffer, wrapper)
    if compressed is None:
        raise InvalidRecordError(f"wrapper at offset {wrapper.last_offset} has a null value")
    data = decompress(wrapper.codec, compressed, max_decompressed_bytes)
    shift = _offset_shift(data, wrapper)
    for inner in _inner_entries(data, wrapper):
        check_integrity(data, inner)
        key, value = key_and_value(data, inner)
        timestamp, timestamp_type = inner.max_timestamp, NO_TIMESTAMP_TYPE
        if inner.magic == 1:
            timestamp_type = wrapper.timestamp_type
            if timestamp_type == LOG_APPEND_TIME:
                timestamp = wrapper.max_timestamp
        yield LegacyMessage(inner.last_offset + shift, inner.magic, timestamp, timestamp_type, key, value)


def _inner_entries(data: bytes, wrapper: ShallowBatch) -> Iterator[ShallowBatch]:
    for inner in batches(data):
        if inner.is_v2:
            raise InvalidRecordError(f"wrapper at offset {wrapper.last_offset} holds a batch of magic 2")
        if inner.codec:
            raise InvalidRecordError(f"wrapper at offset {wrapper.last_offset} holds a compressed message")
        yield inner


def _offset_shift(data: bytes, wrapper: ShallowBatch) -> int:
    """What to add to an inner offset. Walks the whole set first: only its last message tells."""
    last = None
    for inner in _inner_entries(data, wrapper):
        last = inner.last_offset
    if last is None:
        raise InvalidRecordError(f"wrapper at offset {wrapper.last_offset} holds no messages")
    if wrapper.magic == 0 or wrapper.last_offset == 0:
        return 0  # some producers leave the wrapper's offset at 0 and number only the inner messages
    if wrapper.last_offset < last:
        raise InvalidRecordError(
            f"wrapper at offset {wrapper.last_offset} holds a message of the greater relative offset {last}"
        )
    return wrapper.last_offset - last


def plain_message(
    offset: int,
    timestamp: int,
    key: Buffer | None,
    value: Buffer | None,
    *,
    magic: int,
    timestamp_type: int = CREATE_TIME,
) -> bytes:
    """One uncompressed message as an entry of a log; magic 0 drops the timestamp."""
    return _entry(offset, magic, 0, timestamp, timestamp_type, key, value)


def compressed_wrapper(
    messages: Iterable[tuple[int, int, Buffer | None, Buffer | None]],
    *,
    magic: int,
    codec: int,
    timestamp_type: int = CREATE_TIME,
    log_append_time_ms: int = NO_TIMESTAMP,
    base_offset: int | None = None,
) -> bytes:
    """A wrapper of (offset, timestamp, key, value), offsets absolute and rising; `base_offset` is the first's.

    The wrapper has the last offset and the greatest timestamp, or the append time, which its messages have then too.
    """
    if magic not in GREATEST_CODEC:
        raise InvalidRecordError(f"magic {magic} has no wrappers")
    if codec < 1:
        raise InvalidRecordError(f"codec {codec} compresses nothing: a wrapper needs one")
    check_codec(magic, codec)
    inner = bytearray()
    last_offset, max_timestamp = -1, NO_TIMESTAMP
    for offset, timestamp, key, value in messages:
        if offset <= last_offset:
            raise InvalidRecordError(f"offset {offset} does not follow {last_offset}")
        base_offset = offset if base_offset is None else base_offset
        effective = log_append_time_ms if timestamp_type == LOG_APPEND_TIME else timestamp
        relative = offset - base_offset if magic == 1 else offset
        inner += plain_message(relative, effective, key, value, magic=magic, timestamp_type=timestamp_type)
        last_offset, max_timestamp = offset, max(max_timestamp, effective)
    if not inner:
        raise InvalidRecordError("a wrapper needs at least one message")
    return _entry(last_offset, magic, codec, max_timestamp, timestamp_type, None, compress(codec, bytes(inner)))


def _entry(
    offset: int,
    magic: int,
    codec: int,
    timestamp: int,
    timestamp_type: int,
    key: Buffer | None,
    value: Buffer | None,
) -> bytes:
    if timestamp_type not in (CREATE_TIME, LOG_APPEND_TIME):
        raise InvalidRecordError(f"timestamp type {timestamp_type} is neither CreateTime nor LogAppendTime")
    if timestamp < NO_TIMESTAMP:
        raise InvalidRecordError(f"timestamp {timestamp} of the message at offset {offset} is negative")
    try:
        if magic == 0:
            head = _ATTRIBUTES_V0.pack(0, codec & CODEC_MASK)
        elif magic == 1:
            attributes = codec & CODEC_MASK | (TIMESTAMP_TYPE_BIT if timestamp_type == LOG_APPEND_TIME else 0)
            head = _ATTRIBUTES_V1.pack(1, attributes, timestamp)
        else:
            raise InvalidRecordError(f"magic {magic} is not of a message set")
        covered = head + _sized(key) + _sized(value)
        return _OFFSET_AND_LENGTH.pack(offset, len(covered) + _CRC.size) + _CRC.pack(zlib.crc32(covered)) + covered
    except struct.error as cause:
        raise InvalidRecordError(f"a field of the message at offset {offset} is out of range") from cause


def _sized(data: Buffer | None) -> bytes:
    return _INT.pack(-1) if data is None else _INT.pack(len(data)) + bytes(data)
