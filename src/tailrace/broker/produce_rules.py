"""What a produce request may bring, by the headers of its batches alone; their records are the log's to check.

one batch for each partition, whole, of format 2
zstd only from version 7 on
transactional batches and markers only in the name of a transaction
"""

from __future__ import annotations

import struct
from typing import Final

from tailrace.model.errors import (
    InvalidRecordError,
    TailraceError,
    TransactionalIdAuthorizationError,
    UnsupportedCompressionError,
)

ZSTD: Final = 4
ZSTD_FROM: Final = 7
_CODEC: Final = 0x07
_TRANSACTIONAL: Final = 0x10
_LENGTH_AT: Final = 12  # what stands before, and is not counted in, a batch's length
_HEADER: Final = struct.Struct(">8xi4xb4xh")  # length, magic, attributes
_MAGIC: Final = 2


def refusal(records: memoryview | bytes | None, version: int, has_transaction: bool) -> TailraceError | None:
    """Why one partition's records are not taken; None when they are."""
    if not records:
        return InvalidRecordError("a produce request must have a record batch for each partition")
    if len(records) < _HEADER.size:
        return InvalidRecordError(f"a record batch of {len(records)} bytes is not whole")
    length, magic, attributes = _HEADER.unpack_from(records)
    if magic != _MAGIC:
        return InvalidRecordError(f"a record batch of format {magic}; produce requests have format {_MAGIC}")
    if length + _LENGTH_AT != len(records):
        return InvalidRecordError(
            f"{len(records)} bytes for a record batch of {length + _LENGTH_AT}: there must be one, and it must be whole"
        )
    if attributes & _CODEC == ZSTD and version < ZSTD_FROM:
        return UnsupportedCompressionError(f"zstd needs version {ZSTD_FROM} of Produce, not {version}")
    if attributes & _TRANSACTIONAL and not has_transaction:
        return TransactionalIdAuthorizationError("a transactional batch in a request without a transactional id")
    return None
