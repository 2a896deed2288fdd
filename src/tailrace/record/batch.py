"""The header of a record batch (format v2), read from and patched in the buffer that holds it.

    position  bytes  field                   covered by the CRC
    0         8      baseOffset              no
    8         4      batchLength             no   bytes after this field
    12        4      partitionLeaderEpoch    no
    16        1      magic                   no   2
    17        4      crc                     no   CRC-32C of everything from attributes to the end
    21        2      attributes              yes
    23        4      lastOffsetDelta         yes
    27        8      baseTimestamp           yes
    35        8      maxTimestamp            yes
    43        8      producerId              yes
    51        2      producerEpoch           yes
    53        4      baseSequence            yes
    57        4      record count            yes
    61               records, or one compressed block

Offsets and the leader epoch are outside the CRC, so a broker assigns them without touching it.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from tailrace.env.files import Buffer
from tailrace.model.errors import CorruptMessageError
from tailrace.record.checksum import crc32c

LOG_OVERHEAD: Final = 12  # baseOffset and batchLength stand before every entry of a log, whatever its magic
HEADER_BYTES: Final = 61
MAGIC_AT: Final = 16
EPOCH_AT: Final = 12
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
MAX_TIMESTAMP_AT: Final = 35
MAGIC_V2: Final = 2

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

HEADER: Final = Struct(">qiibIhiqqqhii")
_OFFSET: Final = Struct(">q")
_INT: Final = Struct(">i")
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_MAX_TIMESTAMP: Final = Struct(">q")


class BatchHeader(NamedTuple):
    """The 13 fields in file order. `BatchHeader.at(buffer, position)` reads one; nothing is checked but the room."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @classmethod
    def at(cls, buffer: Buffer, position: int = 0) -> BatchHeader:
        """Raises struct.error when fewer than 61 bytes are left."""
        return cls._make(HEADER.unpack_from(buffer, position))

    def pack(self) -> bytes:
        return HEADER.pack(*self)

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        return (self.attributes & TIMESTAMP_TYPE_BIT) >> 3

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > -1

    @property
    def last_sequence(self) -> int:
        """Sequences wrap from 2147483647 to 0; −1 when the batch has none."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def crc_of(buffer: Buffer, position: int, size: int) -> int:
    """CRC-32C of a batch of `size` bytes at `position`, as its crc field should have it."""
    return int(crc32c(memoryview(buffer)[position + ATTRIBUTES_AT : position + size]))


def set_crc(batch: bytearray) -> None:
    """Of a buffer that holds one whole batch."""
    _CRC.pack_into(batch, CRC_AT, crc_of(batch, 0, len(batch)))


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    if header.length < HEADER_BYTES - LOG_OVERHEAD:
        raise CorruptMessageError(f"batch at offset {header.base_offset} states a length of {header.length} bytes")
    found = crc_of(buffer, position, header.size)
    if found != header.crc:
        raise CorruptMessageError(
            f"batch at offset {header.base_offset} has CRC {found:08x} but states {header.crc:08x}"
        )


def set_base_offset(buffer: bytearray | memoryview, position: int, base_offset: int) -> None:
    _OFFSET.pack_into(buffer, position, base_offset)


def set_leader_epoch(buffer: bytearray | memoryview, position: int, leader_epoch: int) -> None:
    _INT.pack_into(buffer, position + EPOCH_AT, leader_epoch)


def set_max_timestamp(
    buffer: bytearray | memoryview, position: int, header: BatchHeader, timestamp_type: int, max_timestamp: int
) -> None:
    """Patch timestamp type and maximum, and the CRC over them; a no-op when both are so already."""
    if header.timestamp_type == timestamp_type and header.max_timestamp == max_timestamp:
        return
    attributes = header.attributes & ~TIMESTAMP_TYPE_BIT | timestamp_type << 3
    _ATTRIBUTES.pack_into(buffer, position + ATTRIBUTES_AT, attributes)
    _MAX_TIMESTAMP.pack_into(buffer, position + MAX_TIMESTAMP_AT, max_timestamp)
    _CRC.pack_into(buffer, position + CRC_AT, crc_of(buffer, position, header.size))
