"""A batch of any magic seen from outside: nothing is decompressed and no record is read.

A log is a row of entries. All of them begin with an offset and a length, and all have their magic at byte 16:

    magic  entry            offset in the entry      least length  CRC
    0      one message      its own, or the last of  14            CRC-32, from the magic byte to the end
    1      (maybe a wrapper the messages inside      22            CRC-32, from the magic byte to the end
           of compressed messages)
    2      a batch          its first                49            CRC-32C, from the attributes to the end

`next_batch` believes only the length, the magic and that the last offset has a successor; `check_integrity` proves the
bytes. Everything else in a `ShallowBatch` is what they claim: a caller that acts on it has checked the CRC, or
validates what it needs.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from tailrace.env.files import Buffer
from tailrace.model.errors import CorruptMessageError
from tailrace.model.offsets import GREATEST_OFFSET
from tailrace.record.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    crc_of,
)

NO_TIMESTAMP: Final = -1
NO_TIMESTAMP_TYPE: Final = -1  # messages of magic 0 have no timestamp
UNKNOWN: Final = -1

LEAST_LENGTH: Final = {0: 14, 1: 22, 2: HEADER_BYTES - LOG_OVERHEAD}
UP_TO_MAGIC_BYTES: Final = MAGIC_AT + 1

_LENGTH: Final = Struct(">8xi")
_LENGTH_AND_MAGIC: Final = Struct(">8xi4xb")
_LEGACY_V0: Final = Struct(">qiIbb")
_LEGACY_V1: Final = Struct(">qiIbbq")

_unpack_header = HEADER.unpack_from
_tuple = tuple.__new__


class ShallowBatch(NamedTuple):
    """One entry of a log, `size` bytes at `position` of its buffer.

    Magic 2: the header's fields. Magic 0 and 1: `base_offset` is the message's offset, or UNKNOWN for a wrapper,
    whose first offset is only known inside; `last_offset` is the entry's offset; `max_timestamp` its timestamp
    (NO_TIMESTAMP for magic 0); `record_count` is 1, or UNKNOWN for a wrapper; epoch, producer and sequence are −1.
    """

    position: int
    size: int
    magic: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    leader_epoch: int
    attributes: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    crc: int
    base_timestamp: int

    @property
    def end(self) -> int:
        """The position after the batch."""
        return self.position + self.size

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def is_v2(self) -> bool:
        return self.magic == MAGIC_V2

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        """CREATE_TIME, LOG_APPEND_TIME, or NO_TIMESTAMP_TYPE for magic 0."""
        if self.magic == 0:
            return NO_TIMESTAMP_TYPE
        return (self.attributes & TIMESTAMP_TYPE_BIT) >> 3

    @property
    def is_transactional(self) -> bool:
        return self.magic == MAGIC_V2 and bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return self.magic == MAGIC_V2 and bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers of this batch may go; None before a cleaner has set it."""
        if self.magic == MAGIC_V2 and self.attributes & DELETE_HORIZON_BIT:
            return self.base_timestamp
        return None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > -1

    @property
    def last_sequence(self) -> int:
        """Sequences wrap from 2147483647 to 0; −1 when the batch has none."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset - self.base_offset) & 0x7FFFFFFF


def next_batch(buffer: Buffer, position: int, limit: int) -> ShallowBatch | None:
    """The batch at `position`, or None when it does not lie whole before `limit` (at most the buffer's length).

    Raises CorruptMessageError when its length is less than its magic's minimum, the magic is unknown, or it ends at an
    offset that no log can reach.
    """
    # Recovery asks this once per batch: one unpack, literal numbers, and no keyword arguments until something is odd.
    if limit - position >= HEADER_BYTES:
        (
            base_offset,
            length,
            leader_epoch,
            magic,
            crc,
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            record_count,
        ) = _unpack_header(buffer, position)
        if magic == 2 and length >= 49:
            if length > limit - position - 12:
                return None
            last_offset = base_offset + last_offset_delta
            if last_offset > 0x7FFF_FFFF_FFFF_FFFE:
                raise _beyond_offsets(position, last_offset)
            return _tuple(
                ShallowBatch,
                (
                    position,
                    length + 12,
                    2,
                    base_offset,
                    last_offset,
                    max_timestamp,
                    leader_epoch,
                    attributes,
                    producer_id,
                    producer_epoch,
                    base_sequence,
                    record_count,
                    crc,
                    base_timestamp,
                ),
            )
    return _short_or_legacy(buffer, position, limit)


def _short_or_legacy(buffer: Buffer, position: int, limit: int) -> ShallowBatch | None:
    """Everything that is not a whole batch of magic 2."""
    room = limit - position
    if room < LOG_OVERHEAD:
        return None
    if room < UP_TO_MAGIC_BYTES:
        (length,) = _LENGTH.unpack_from(buffer, position)
        magic, least = 0, LEAST_LENGTH[0]
    else:
        length, magic = _LENGTH_AND_MAGIC.unpack_from(buffer, position)
        known = LEAST_LENGTH.get(magic)
        if known is None:
            raise CorruptMessageError(f"batch at position {position} has magic {magic}; 0, 1 and 2 are known")
        least = known
    if length < least:
        raise CorruptMessageError(
            f"batch at position {position} states a length of {length} bytes; magic {magic} needs at least {least}"
        )
    if length > room - LOG_OVERHEAD:
        return None
    return _legacy_entry(buffer, position, magic)


def _legacy_entry(buffer: Buffer, position: int, magic: int) -> ShallowBatch:
    timestamp = NO_TIMESTAMP
    if magic == 0:
        offset, length, crc, _, attributes = _LEGACY_V0.unpack_from(buffer, position)
    else:
        offset, length, crc, _, attributes, timestamp = _LEGACY_V1.unpack_from(buffer, position)
    if offset > GREATEST_OFFSET:
        raise _beyond_offsets(position, offset)
    is_wrapper = attributes & CODEC_MASK
    return ShallowBatch(
        position=position,
        size=length + LOG_OVERHEAD,
        magic=magic,
        base_offset=UNKNOWN if is_wrapper else offset,
        last_offset=offset,
        max_timestamp=timestamp,
        leader_epoch=-1,
        attributes=attributes,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=UNKNOWN if is_wrapper else 1,
        crc=crc,
        base_timestamp=timestamp,
    )


def _beyond_offsets(position: int, last_offset: int) -> CorruptMessageError:
    return CorruptMessageError(f"batch at position {position} ends at offset {last_offset}, beyond {GREATEST_OFFSET}")


def batches(buffer: Buffer, start: int = 0, limit: int | None = None) -> Iterator[ShallowBatch]:
    """Every whole batch from `start` on; a partial one at the end is left out."""
    end = len(buffer) if limit is None else min(limit, len(buffer))
    batch = next_batch(buffer, start, end)
    while batch is not None:
        yield batch
        batch = next_batch(buffer, batch.position + batch.size, end)


def check_integrity(buffer: Buffer, batch: ShallowBatch) -> None:
    """Raises CorruptMessageError unless the bytes have the CRC they state."""
    if batch.magic == MAGIC_V2:
        found = crc_of(buffer, batch.position, batch.size)
    else:
        found = zlib.crc32(memoryview(buffer)[batch.position + MAGIC_AT : batch.position + batch.size])
    if found != batch.crc:
        raise CorruptMessageError(
            f"batch of magic {batch.magic} with last offset {batch.last_offset} at position {batch.position} "
            f"has CRC {found:08x} but states {batch.crc:08x}"
        )
