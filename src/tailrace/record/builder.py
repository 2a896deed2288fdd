"""Record batches of format v2, written as Kafka's own builder writes them.

    record: length (varint), attributes (int8, 0), timestampDelta (varlong), offsetDelta (varint),
            keyLength (varint, −1 for null), key, valueLength (varint, −1 for null), value,
            header count (varint), and per header: keyLength (varint), key (UTF-8), valueLength (varint), value

Deltas count from the batch's baseOffset and baseTimestamp. baseTimestamp is the first record's timestamp, or the
delete horizon when that is set; maxTimestamp is the greatest of the records, or the append time under LogAppendTime.

One thread builds one batch. For clients, tests, markers and the filter; the broker's produce path never builds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Final

from tailrace.env.files import Buffer
from tailrace.model.errors import InvalidRecordError
from tailrace.record.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    CREATE_TIME,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_V2,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    set_crc,
)
from tailrace.record.compression import compress
from tailrace.record.shallow import NO_TIMESTAMP
from tailrace.record.varint import append_varint, append_varlong

Headers = Iterable[tuple[str, Buffer | None]]


MAX_INT32: Final = 0x7FFF_FFFF
MAX_INT64: Final = 0x7FFF_FFFF_FFFF_FFFF
KNOWN_ATTRIBUTES: Final = CODEC_MASK | TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT


def encode_header_key(key: str) -> bytes:
    """The bytes a header's key stands for; those that are no UTF-8 were escaped when they were read."""
    try:
        return key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as cause:
        raise InvalidRecordError(f"header key {key!r} has no UTF-8 form") from cause


def decode_header_key(key: bytes) -> str:
    """Never fails and loses nothing: `encode_header_key` gives the same bytes back."""
    return key.decode("utf-8", "surrogateescape")


def _append_nullable(out: bytearray, data: Buffer | None) -> None:
    if data is None:
        out.append(0x01)  # varint of −1
    else:
        append_varint(out, len(data))
        out += data


def append_record(
    out: bytearray, offset_delta: int, timestamp_delta: int, key: Buffer | None, value: Buffer | None, headers: Headers
) -> None:
    """Write one record behind what `out` holds."""
    body = bytearray(1)
    append_varlong(body, timestamp_delta)
    append_varint(body, offset_delta)
    _append_nullable(body, key)
    _append_nullable(body, value)
    pairs = tuple(headers)
    append_varint(body, len(pairs))
    for name, content in pairs:
        _append_nullable(body, encode_header_key(name))
        _append_nullable(body, content)
    append_varint(out, len(body))
    out += body


class BatchBuilder:
    """Append records in order of offset, then `build` once or more.

    `log_append_time_ms` is needed under LOG_APPEND_TIME. `delete_horizon_ms` sets bit 6 and baseTimestamp.
    `unused_attributes` carries bits 7–15 of a batch that is rewritten, which are nobody's and stay as they were.
    Raises InvalidRecordError for whatever cannot be written in the format.
    """

    def __init__(
        self,
        base_offset: int = 0,
        codec: int = 0,
        timestamp_type: int = CREATE_TIME,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        leader_epoch: int = -1,
        transactional: bool = False,
        control: bool = False,
        delete_horizon_ms: int | None = None,
        log_append_time_ms: int = NO_TIMESTAMP,
        level: int | None = None,
        unused_attributes: int = 0,
    ) -> None:
        if timestamp_type == LOG_APPEND_TIME and log_append_time_ms < 0:
            raise InvalidRecordError("a batch under LogAppendTime needs its append time")
        if delete_horizon_ms is not None and delete_horizon_ms < 0:
            raise InvalidRecordError(f"delete horizon {delete_horizon_ms} is negative")
        _check_producer(producer_id, producer_epoch, base_sequence, transactional, control)
        self._base_offset = base_offset
        self._codec = codec
        self._level = level
        self._append_time_ms = log_append_time_ms if timestamp_type == LOG_APPEND_TIME else None
        self._producer = (producer_id, producer_epoch, base_sequence)
        self._leader_epoch = leader_epoch
        self._attributes = unused_attributes & ~KNOWN_ATTRIBUTES | _attributes(
            codec, timestamp_type, transactional, control, delete_horizon_ms is not None
        )
        self._base_timestamp = delete_horizon_ms
        self._max_timestamp = NO_TIMESTAMP
        self._last_offset = base_offset - 1
        self._count = 0
        self._records = bytearray()

    @property
    def record_count(self) -> int:
        return self._count

    @property
    def next_offset(self) -> int:
        """Where `append` puts the next record."""
        return self._last_offset + 1

    @property
    def uncompressed_bytes(self) -> int:
        """Size of the batch if it were built now without compression."""
        return HEADER_BYTES + len(self._records)

    def append(self, timestamp: int, key: Buffer | None, value: Buffer | None, headers: Headers = ()) -> None:
        self.append_at(self._last_offset + 1, timestamp, key, value, headers)

    def append_at(
        self, offset: int, timestamp: int, key: Buffer | None, value: Buffer | None, headers: Headers = ()
    ) -> None:
        """Append a record at an offset of its own; offsets between it and the last one stay empty."""
        if offset <= self._last_offset:
            raise InvalidRecordError(f"offset {offset} does not follow {self._last_offset}")
        if offset - self._base_offset > MAX_INT32:
            raise InvalidRecordError(f"offset {offset} is too far from the batch's base offset {self._base_offset}")
        if not NO_TIMESTAMP <= timestamp <= MAX_INT64:
            raise InvalidRecordError(f"timestamp {timestamp} of the record at offset {offset} is out of range")
        base_timestamp = timestamp if self._base_timestamp is None else self._base_timestamp
        append_record(self._records, offset - self._base_offset, timestamp - base_timestamp, key, value, headers)
        self._base_timestamp = base_timestamp
        self._last_offset = offset
        self._max_timestamp = max(self._max_timestamp, timestamp)
        self._count += 1

    def build(self, last_offset: int | None = None) -> bytearray:
        """The batch. A `last_offset` beyond the last record's keeps the end of a batch that lost its last records."""
        if not self._count or self._base_timestamp is None:
            raise InvalidRecordError("a batch without records is made by empty_batch")
        end = self._last_offset if last_offset is None else last_offset
        if not self._last_offset <= end <= self._base_offset + MAX_INT32:
            raise InvalidRecordError(f"last offset {end} does not fit a batch of {self._base_offset} and later")
        payload = compress(self._codec, bytes(self._records), self._level) if self._codec else self._records
        return _assemble(
            BatchHeader(
                base_offset=self._base_offset,
                length=HEADER_BYTES - LOG_OVERHEAD + len(payload),
                leader_epoch=self._leader_epoch,
                magic=MAGIC_V2,
                crc=0,
                attributes=self._attributes,
                last_offset_delta=end - self._base_offset,
                base_timestamp=self._base_timestamp,
                max_timestamp=self._max_timestamp if self._append_time_ms is None else self._append_time_ms,
                producer_id=self._producer[0],
                producer_epoch=self._producer[1],
                base_sequence=self._producer[2],
                record_count=self._count,
            ),
            payload,
        )


def empty_batch(
    base_offset: int,
    last_offset: int,
    *,
    max_timestamp: int = NO_TIMESTAMP,
    timestamp_type: int = CREATE_TIME,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = -1,
    transactional: bool = False,
    control: bool = False,
    unused_attributes: int = 0,
) -> bytearray:
    """What a cleaner leaves of a batch that lost all its records: offsets, sequences and maxTimestamp, no records.

    It keeps the producer's last sequence in the log. baseTimestamp is −1, there is no codec and no delete horizon.
    """
    if not base_offset <= last_offset <= base_offset + MAX_INT32:
        raise InvalidRecordError(f"offsets {base_offset} to {last_offset} do not make a batch")
    attributes = unused_attributes & ~KNOWN_ATTRIBUTES | _attributes(0, timestamp_type, transactional, control, False)
    return _assemble(
        BatchHeader(
            base_offset=base_offset,
            length=HEADER_BYTES - LOG_OVERHEAD,
            leader_epoch=leader_epoch,
            magic=MAGIC_V2,
            crc=0,
            attributes=attributes,
            last_offset_delta=last_offset - base_offset,
            base_timestamp=NO_TIMESTAMP,
            max_timestamp=max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=0,
        ),
        b"",
    )


def batch_of(
    records: Iterable[tuple[int, Buffer | None, Buffer | None] | tuple[int, Buffer | None, Buffer | None, Headers]],
    **fields: Any,
) -> bytearray:
    """One batch of (timestamp, key, value) or (timestamp, key, value, headers); `fields` as for BatchBuilder."""
    builder = BatchBuilder(**fields)
    for record in records:
        builder.append(*record)
    return builder.build()


def _attributes(codec: int, timestamp_type: int, transactional: bool, control: bool, delete_horizon: bool) -> int:
    if not 0 <= codec <= CODEC_MASK:
        raise InvalidRecordError(f"codec {codec} does not fit the attributes")
    if timestamp_type not in (CREATE_TIME, LOG_APPEND_TIME):
        raise InvalidRecordError(f"timestamp type {timestamp_type} is neither CreateTime nor LogAppendTime")
    return (
        codec
        | timestamp_type << 3
        | (TRANSACTIONAL_BIT if transactional else 0)
        | (CONTROL_BIT if control else 0)
        | (DELETE_HORIZON_BIT if delete_horizon else 0)
    )


def _check_producer(
    producer_id: int, producer_epoch: int, base_sequence: int, transactional: bool, control: bool
) -> None:
    if producer_id < 0:
        if transactional:
            raise InvalidRecordError("a transactional batch needs a producer id")
        return
    if producer_epoch < 0:
        raise InvalidRecordError(f"producer {producer_id} has epoch {producer_epoch}")
    if base_sequence < 0 and not control:
        raise InvalidRecordError(f"producer {producer_id} has base sequence {base_sequence}")


def _assemble(header: BatchHeader, payload: Buffer) -> bytearray:
    try:
        batch = bytearray(header.pack())
    except struct.error as cause:
        raise InvalidRecordError(f"a field does not fit the batch header: {header}") from cause
    batch += payload
    set_crc(batch)
    return batch
