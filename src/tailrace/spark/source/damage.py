"""What can still be told of batches that are damaged: which offsets they took, and where the next sound one begins."""

from __future__ import annotations

from struct import Struct
from typing import Final

from tailrace.env.files import Buffer
from tailrace.model.errors import CorruptMessageError
from tailrace.model.offsets import GREATEST_OFFSET
from tailrace.record.batch import MAGIC_AT, MAGIC_V2
from tailrace.record.shallow import ShallowBatch, check_integrity, next_batch

_OFFSET_AND_MAGIC: Final = Struct(">q8xb")
_MOST_TRIES: Final = 1000  # a CRC each: bytes made to look like batches must not take forever


class UnframedError(CorruptMessageError):
    """Nobody knows where the batch at `position` of a buffer ends."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


def extent_of(buffer: Buffer, batch: ShallowBatch, next_offset: int) -> tuple[int, int]:
    """The offsets [first, end) that a damaged batch had, where `next_offset` was to come; at least one.

    First offsets are what to go by: this batch's own, and that of the batch behind it. The last offset it states is
    believed only when it has a record for each. Messages older than format v2 state nothing but their last offset.
    """
    last = batch.last_offset
    if not batch.is_v2 and last >= next_offset:
        return (next_offset if batch.codec else last), last + 1
    first = batch.base_offset if next_offset <= batch.base_offset < GREATEST_OFFSET else next_offset
    if len(buffer) - batch.end >= _OFFSET_AND_MAGIC.size:
        follower, magic = _OFFSET_AND_MAGIC.unpack_from(buffer, batch.end)
        if magic == MAGIC_V2 and 0 <= batch.base_offset < follower <= GREATEST_OFFSET:
            return min(first, follower - 1), follower
    if batch.base_offset >= 0 and last - batch.base_offset == batch.record_count - 1 >= 0:
        return min(first, last), last + 1
    return first, first + 1


def next_sound_batch(buffer: Buffer, position: int, least_offset: int, end_offset: int) -> ShallowBatch | None:
    """The first batch of format v2 from `position` on that begins in [least_offset, end_offset] and has its CRC."""
    data = bytes(memoryview(buffer)[position:])
    tries = 0
    at = data.find(MAGIC_V2, MAGIC_AT)
    while at >= 0 and tries < _MOST_TRIES:
        start = position + at - MAGIC_AT
        base_offset, _ = _OFFSET_AND_MAGIC.unpack_from(buffer, start)
        if least_offset <= base_offset <= end_offset:
            tries += 1
            try:
                batch = next_batch(buffer, start, len(buffer))
                if batch is not None:
                    check_integrity(buffer, batch)
                    return batch
            except CorruptMessageError:
                pass
        at = data.find(MAGIC_V2, at + 1)
    return None
