"""Variable-length integers of the record format: seven bits a byte, the lowest first, bit 7 set on all but the last.

    varint   int32, zigzag (0, −1, 1, −2 … become 0, 1, 2, 3 …)   1 to 5 bytes
    varlong  int64, zigzag                                        1 to 10 bytes
    uvarint  uint32, as it is                                     1 to 5 bytes

Readers take more bytes than a number needs (`80 00` is 0), as Kafka does; they refuse a number of too many bytes, or
one whose bits do not fit its type, and never look at `limit` or beyond. All refusals are `InvalidRecordError`.
"""

from __future__ import annotations

from typing import Final

from tailrace.env.files import Buffer
from tailrace.model.errors import InvalidRecordError

VARINT_BYTES: Final = 5
VARLONG_BYTES: Final = 10

_INT32: Final = 1 << 31
_INT64: Final = 1 << 63
_UINT32: Final = 1 << 32
_ONE_BYTE: Final = [bytes((value,)) for value in range(128)]


def encode_varint(value: int) -> bytes:
    if -64 <= value < 64:
        return _ONE_BYTE[value << 1 ^ value >> 31]
    encoded = bytearray()
    append_varint(encoded, value)
    return bytes(encoded)


def encode_varlong(value: int) -> bytes:
    encoded = bytearray()
    append_varlong(encoded, value)
    return bytes(encoded)


def encode_uvarint(value: int) -> bytes:
    encoded = bytearray()
    append_uvarint(encoded, value)
    return bytes(encoded)


def append_varint(target: bytearray, value: int) -> None:
    if not -_INT32 <= value < _INT32:
        raise InvalidRecordError(f"{value} does not fit a varint of 32 bits")
    _append(target, value << 1 ^ value >> 31)


def append_varlong(target: bytearray, value: int) -> None:
    if not -_INT64 <= value < _INT64:
        raise InvalidRecordError(f"{value} does not fit a varlong of 64 bits")
    _append(target, value << 1 ^ value >> 63)


def append_uvarint(target: bytearray, value: int) -> None:
    if not 0 <= value < _UINT32:
        raise InvalidRecordError(f"{value} does not fit an unsigned varint of 32 bits")
    _append(target, value)


def varint_size(value: int) -> int:
    """Bytes that `encode_varint` takes."""
    return uvarint_size(value << 1 ^ value >> 31)


def varlong_size(value: int) -> int:
    """Bytes that `encode_varlong` takes."""
    return uvarint_size(value << 1 ^ value >> 63)


def uvarint_size(value: int) -> int:
    """Bytes that `encode_uvarint` takes."""
    return (value.bit_length() + 6) // 7 or 1


def decode_varint(buffer: Buffer, position: int, limit: int) -> tuple[int, int]:
    """The number at `position` and the position behind it."""
    if 0 <= position < limit and position < len(buffer) and (byte := buffer[position]) < 0x80:
        return byte >> 1 ^ -(byte & 1), position + 1
    value, position = _decode(buffer, position, limit, VARINT_BYTES, 0x0F)
    return value >> 1 ^ -(value & 1), position


def decode_varlong(buffer: Buffer, position: int, limit: int) -> tuple[int, int]:
    """The number at `position` and the position behind it."""
    if 0 <= position < limit and position < len(buffer) and (byte := buffer[position]) < 0x80:
        return byte >> 1 ^ -(byte & 1), position + 1
    value, position = _decode(buffer, position, limit, VARLONG_BYTES, 0x01)
    return value >> 1 ^ -(value & 1), position


def decode_uvarint(buffer: Buffer, position: int, limit: int) -> tuple[int, int]:
    """The number at `position` and the position behind it."""
    return _decode(buffer, position, limit, VARINT_BYTES, 0x0F)


def _append(target: bytearray, unsigned: int) -> None:
    while unsigned > 0x7F:
        target.append(unsigned & 0x7F | 0x80)
        unsigned >>= 7
    target.append(unsigned)


def _decode(buffer: Buffer, position: int, limit: int, max_bytes: int, greatest_last_byte: int) -> tuple[int, int]:
    """`greatest_last_byte` is what the last of `max_bytes` may hold for the number to fit its type."""
    start = position
    limit = min(limit, len(buffer))
    if start < 0:
        raise InvalidRecordError(f"a number cannot begin at position {start}")
    value = shift = 0
    while position < limit:
        byte = buffer[position]
        position += 1
        if position - start == max_bytes and byte > greatest_last_byte:
            raise InvalidRecordError(f"the number at position {start} has too many bits for {max_bytes} bytes")
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise InvalidRecordError(f"the number at position {start} is cut off at position {limit}")
