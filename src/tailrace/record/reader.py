"""The records inside batches of any magic and codec, as values.

For clients, tools, recovery of small logs and tests. The broker itself never makes an object for a record.
Keys and values are handed out as the bytes they are. Header keys are UTF-8 by the format; bytes that are not are
escaped (PEP 383), so that a builder writes the same bytes again.

Whatever the bytes are, reading ends: in records, or in CorruptMessageError, InvalidRecordError or
UnsupportedCompressionError. A compressed batch is decompressed whole, up to a limit that the caller may set and
beyond which it is a MessageTooLargeError.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tailrace.env.files import Buffer
from tailrace.model.errors import InvalidRecordError
from tailrace.record.batch import HEADER_BYTES, LOG_APPEND_TIME
from tailrace.record.builder import decode_header_key
from tailrace.record.compression import decompress
from tailrace.record.legacy import messages_of
from tailrace.record.shallow import ShallowBatch, batches, check_integrity
from tailrace.record.varint import decode_varint, decode_varlong

MAX_DECOMPRESSED_BYTES: Final = 1 << 30


class Record(NamedTuple):
    """`timestamp_type` is CREATE_TIME, LOG_APPEND_TIME, or −1 for magic 0; `sequence` is −1 without a producer."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    sequence: int = -1


def records_of(
    buffer: Buffer, batch: ShallowBatch, max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[Record]:
    """Every record of one batch, control records too. The caller has checked the CRC, or takes what comes."""
    if not batch.is_v2:
        for message in messages_of(buffer, batch, max_decompressed_bytes):
            yield Record(message.offset, message.timestamp, message.timestamp_type, message.key, message.value)
        return
    if batch.record_count < 0:
        raise InvalidRecordError(f"batch at offset {batch.base_offset} states {batch.record_count} records")
    data = memoryview(buffer)[batch.position + HEADER_BYTES : batch.end].tobytes()
    if data and batch.codec:
        data = decompress(batch.codec, data, max_decompressed_bytes)
    position = 0
    for _ in range(batch.record_count):
        record, position = _record_at(data, position, batch)
        yield record
    if position != len(data):
        raise InvalidRecordError(
            f"batch at offset {batch.base_offset} has {len(data) - position} bytes behind its "
            f"{batch.record_count} records"
        )


def application_records(
    buffer: Buffer,
    start: int = 0,
    limit: int | None = None,
    *,
    check_crcs: bool = True,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> Iterator[Record]:
    """The records of all whole batches of a buffer, without control records, which are not for applications."""
    for batch in batches(buffer, start, limit):
        if check_crcs:
            check_integrity(buffer, batch)
        if not batch.is_control:
            yield from records_of(buffer, batch, max_decompressed_bytes)


def _record_at(data: bytes, position: int, batch: ShallowBatch) -> tuple[Record, int]:
    size, position = decode_varint(data, position, len(data))
    end = position + size
    if size < 1 or end > len(data):
        raise InvalidRecordError(
            f"batch at offset {batch.base_offset} has a record of {size} bytes where {len(data) - position} are left"
        )
    timestamp_delta, position = decode_varlong(data, position + 1, end)
    offset_delta, position = decode_varint(data, position, end)
    key, position = _nullable_bytes(data, position, end)
    value, position = _nullable_bytes(data, position, end)
    headers, position = _headers(data, position, end)
    if position != end:
        raise InvalidRecordError(
            f"record {offset_delta} of the batch at offset {batch.base_offset} has {end - position} bytes too many"
        )
    timestamp_type = batch.timestamp_type
    timestamp = batch.max_timestamp if timestamp_type == LOG_APPEND_TIME else batch.base_timestamp + timestamp_delta
    sequence = (batch.base_sequence + offset_delta) & 0x7FFFFFFF if batch.base_sequence >= 0 else -1
    return Record(batch.base_offset + offset_delta, timestamp, timestamp_type, key, value, headers, sequence), end


def _nullable_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = decode_varint(data, position, end)
    if size < 0:
        return None, position
    if size > end - position:
        raise InvalidRecordError(f"a field of {size} bytes in a record with {end - position} bytes left")
    return data[position : position + size], position + size


def _headers(data: bytes, position: int, end: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, position = decode_varint(data, position, end)
    if count == 0:
        return (), position
    if not 0 <= count <= end - position:
        raise InvalidRecordError(f"{count} headers in a record with {end - position} bytes left")
    headers = []
    for _ in range(count):
        key, position = _nullable_bytes(data, position, end)
        if key is None:
            raise InvalidRecordError("a record has a header without a key")
        value, position = _nullable_bytes(data, position, end)
        headers.append((decode_header_key(key), value))
    return tuple(headers), position
