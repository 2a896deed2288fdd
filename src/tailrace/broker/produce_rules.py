"""What a produce request may bring, by the headers of its batches alone; their records are the log's to check.

one batch for each partition, whole, of format 2
zstd only from version 7 on
transactional batches and markers only in the name of a transaction

Bytes behind the batch that are no whole batch are left out, as in Kafka.
"""

from __future__ import annotations

import struct
from typing import Final

from tailrace.model.errors import (
    CorruptMessageError,
    InvalidRecordError,
    TailraceError,
    TransactionalIdAuthorizationError,
    UnsupportedCompressionError,
)

ZSTD: Final = 4
ZSTD_FROM: Final = 7
_CODEC: Final = 0x07
_TRANSACTIONAL: Final = 0x10
_LENGTH_AT: Final = 8
_LOG_OVERHEAD: Final = 12  # what stands before, and is not counted in, a batch's length
_MAGIC_AT: Final = 16
_LEAST_LENGTH: Final = 14  # of the oldest format
_HEADER: Final = struct.Struct(">8xi4xb4xh")  # length, magic, attributes
_MAGIC: Final = 2


def refusal(records: memoryview | bytes | None, version: int, has_transaction: bool) -> TailraceError | None:
    """Why one partition's records are not taken; None when they are."""
    if not records or len(records) < _HEADER.size:
        return _no_batch(records or b"")
    length, magic, attributes = _HEADER.unpack_from(records)
    size = length + _LOG_OVERHEAD
    if magic != _MAGIC or size > len(records) or length < _LEAST_LENGTH:
        return _no_batch(records)
    if attributes & _CODEC == ZSTD and version < ZSTD_FROM:
        return UnsupportedCompressionError(f"zstd needs version {ZSTD_FROM} of Produce, not {version}")
    if size < len(records):
        rest = memoryview(records)[size:]
        error = _damage(rest)
        if error is not None:
            return error
        if _is_whole(rest):
            return InvalidRecordError("a produce request must have exactly one record batch for each partition")
    if attributes & _TRANSACTIONAL and not has_transaction:
        return TransactionalIdAuthorizationError("a transactional batch in a request without a transactional id")
    return None


def _no_batch(records: memoryview | bytes) -> TailraceError:
    error = _damage(records)
    if error is not None:
        return error
    if not _is_whole(records):
        return InvalidRecordError("a produce request must have a whole record batch for each partition")
    return InvalidRecordError(f"a record batch of format {records[_MAGIC_AT]}; produce requests have format {_MAGIC}")


def _damage(records: memoryview | bytes) -> CorruptMessageError | None:
    """Of the entry at the beginning, as far as it is there."""
    if len(records) < _LOG_OVERHEAD:
        return None
    length = _length(records)
    if length < _LEAST_LENGTH:
        return CorruptMessageError(f"a record batch states a length of {length} bytes")
    if len(records) > _MAGIC_AT and records[_MAGIC_AT] > _MAGIC:
        return CorruptMessageError(f"a record batch states format {records[_MAGIC_AT]}")
    return None


def _is_whole(records: memoryview | bytes) -> bool:
    return len(records) > _MAGIC_AT and len(records) >= _length(records) + _LOG_OVERHEAD


def _length(records: memoryview | bytes) -> int:
    return int.from_bytes(records[_LENGTH_AT:_LOG_OVERHEAD], "big", signed=True)
