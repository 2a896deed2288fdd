"""A batch of format v2 with only some of its records, as a cleaner leaves it.

Stays: first and last offset, base sequence (and with the offsets the last), producer, leader epoch, codec, timestamp
type, the transactional, control and unused bits, the records' offsets, timestamps and bytes.
Changes: the record count; baseTimestamp, to the first kept record's timestamp or the delete horizon, and the deltas
that count from it; maxTimestamp, to the greatest of the kept records (under LogAppendTime it is the append time and
stays). A batch that loses all records may stay as an empty one, for its sequences: then maxTimestamp stays too.

One Python object per record: for small amounts and as the reference; bulk cleaning is a kernel's work.
"""

from __future__ import annotations

from collections.abc import Callable

from tailrace.env.files import Buffer
from tailrace.model.errors import UnsupportedForMessageFormatError
from tailrace.record.batch import LOG_APPEND_TIME
from tailrace.record.builder import BatchBuilder, empty_batch
from tailrace.record.reader import MAX_DECOMPRESSED_BYTES, Record, records_of
from tailrace.record.shallow import NO_TIMESTAMP, ShallowBatch


def filter_batch(
    buffer: Buffer,
    batch: ShallowBatch,
    keep: Callable[[Record], bool],
    *,
    keep_empty: bool,
    delete_horizon_ms: int | None = None,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> bytes | None:
    """The batch without the records that `keep` refuses; None when nothing is left and `keep_empty` is false.

    `delete_horizon_ms` sets the horizon anew; without it, a horizon that the batch has stays. A batch that keeps all
    its records and its horizon is returned as it is, byte for byte.
    """
    if not batch.is_v2:
        raise UnsupportedForMessageFormatError(f"a message of magic {batch.magic} cannot be filtered in place")
    kept = []
    seen = 0
    for record in records_of(buffer, batch, max_decompressed_bytes):
        seen += 1
        if keep(record):
            kept.append(record)
    if not kept:
        return bytes(emptied(batch)) if keep_empty else None
    horizon_ms = batch.delete_horizon_ms if delete_horizon_ms is None else delete_horizon_ms
    if len(kept) == seen and horizon_ms == batch.delete_horizon_ms:
        return memoryview(buffer)[batch.position : batch.end].tobytes()
    return bytes(_rebuilt(batch, kept, horizon_ms))


def _rebuilt(batch: ShallowBatch, kept: list[Record], horizon_ms: int | None) -> bytearray:
    builder = BatchBuilder(
        batch.base_offset,
        codec=batch.codec,
        timestamp_type=batch.timestamp_type,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        leader_epoch=batch.leader_epoch,
        transactional=batch.is_transactional,
        control=batch.is_control,
        delete_horizon_ms=horizon_ms,
        log_append_time_ms=batch.max_timestamp if batch.timestamp_type == LOG_APPEND_TIME else NO_TIMESTAMP,
        unused_attributes=batch.attributes,
    )
    for record in kept:
        builder.append_at(record.offset, record.timestamp, record.key, record.value, record.headers)
    return builder.build(last_offset=batch.last_offset)


def emptied(batch: ShallowBatch) -> bytearray:
    """The batch without any record."""
    return empty_batch(
        batch.base_offset,
        batch.last_offset,
        max_timestamp=batch.max_timestamp,
        timestamp_type=batch.timestamp_type,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        leader_epoch=batch.leader_epoch,
        transactional=batch.is_transactional,
        control=batch.is_control,
        unused_attributes=batch.attributes,
    )
