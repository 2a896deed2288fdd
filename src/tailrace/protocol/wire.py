"""What the compiled codecs call: variable-length integers, packers for runs of numbers, refusals.

    uvarint   seven bits a byte, the lowest first, bit 7 set on all but the last; at most 5 bytes

A compiled decoder reads the first byte of a uvarint itself and comes here only for a second. A refusal is a
`MalformedField`, which the codec turns into the typed error of the message at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from tailrace.env.files import Buffer

UVARINT_LAST_SHIFT: Final = 28
MAX_STRING_BYTES: Final = 0x7FFF
MAX_TAGS: Final = 100  # in one struct; no message has ten, and a hundred megabytes of them would take long to go over
CACHED_RUN: Final = 64  # runs of up to so many numbers keep their packers
CACHED_UVARINTS: Final = 4096
_ONE_BYTE: Final = 128


class MalformedField(Exception):  # noqa: N818 (never leaves the package)
    """Bytes that cannot be what the schema says; the message names the field."""


class AbsentField(Exception):  # noqa: N818 (never leaves the package)
    """A value for a field that the version does not have."""


class UnfitField(Exception):  # noqa: N818 (never leaves the package)
    """A value that its field cannot hold."""


def uvarint(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Go on after `first`, a byte with bit 7 set: the number and the position behind it."""
    value, shift = first & 0x7F, 7
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < _ONE_BYTE:
            return value, position
        shift += 7
        if shift > UVARINT_LAST_SHIFT:
            raise MalformedField(f"a variable-length number at byte {position - 5} does not end")


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    first = buffer[position]
    return (first, position + 1) if first < _ONE_BYTE else uvarint(buffer, position + 1, first)


class _Uvarints(dict[int, bytes]):
    """Encoded numbers, the small ones kept."""

    def __missing__(self, value: int) -> bytes:
        if not 0 <= value < 1 << 32:
            raise OverflowError(f"{value} does not fit an unsigned varint")
        encoded, rest = bytearray(), value
        while rest >= _ONE_BYTE:
            encoded.append(rest & 0x7F | 0x80)
            rest >>= 7
        encoded.append(rest)
        if value < CACHED_UVARINTS:
            self[value] = bytes(encoded)
        return bytes(encoded)


UVARINTS: Final = _Uvarints()


class RunUnpackers(dict[int, Callable[[Buffer, int], tuple[Any, ...]]]):
    """By their number: unpackers of a run of values of one type."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self.code = code

    def __missing__(self, count: int) -> Callable[[Buffer, int], tuple[Any, ...]]:
        unpack = Struct(f">{run_format(self.code, count)}").unpack_from
        if count <= CACHED_RUN:
            self[count] = unpack
        return unpack


class RunPackers(dict[int, Callable[..., bytes]]):
    """By their number: packers of a run of values of one type with its length before it.

    Call with the length as it goes over the wire (one more than the number in the compact form), then the values.
    """

    def __init__(self, code: str, compact: bool) -> None:
        super().__init__()
        self.code = code
        self.compact = compact

    def __missing__(self, count: int) -> Callable[..., bytes]:
        if self.compact and count + 1 >= _ONE_BYTE:
            values = Struct(f">{run_format(self.code, count)}")
            return lambda length, *numbers: UVARINTS[length] + values.pack(*numbers)
        pack = Struct(f">{'B' if self.compact else 'i'}{run_format(self.code, count)}").pack
        if count <= CACHED_RUN:
            self[count] = pack
        return pack


def run_format(code: str, count: int) -> str:
    return f"{count}{code}" if len(code) == 1 else code * count


def payload_bytes(value: Any) -> int:
    """The size of a payload, be it a buffer or something that stands for bytes elsewhere."""
    return value.nbytes if type(value) is memoryview else len(value)


def refuse_length(name: str, length: int, left: int) -> MalformedField:
    """For strings and bytes: `length` as it stood on the wire, without the compact form's one more."""
    if length < 0:
        return MalformedField(f"{name} is null" if length == -1 else f"{name} has length {length}")
    if length <= left:
        return MalformedField(f"{name} has {length} bytes, more than {MAX_STRING_BYTES}")
    return MalformedField(f"{name} has {length} bytes, but only {left} follow")


def refuse_count(name: str, count: int, least_bytes: int, left: int, elements_left: int) -> MalformedField:
    if count < 0:
        return MalformedField(f"{name} is null" if count == -1 else f"{name} has {count} elements")
    if count * least_bytes > left:
        return MalformedField(f"{name} has {count} elements of {least_bytes} or more bytes, but only {left} follow")
    return MalformedField(f"{name} has {count} elements, when the message may have {elements_left} more")


def refuse_tag(name: str, size: int, read: int) -> MalformedField:
    return MalformedField(f"tagged field {name} has {size} bytes, but its value takes {read}")


def refuse_tags(count: int) -> MalformedField:
    return MalformedField(f"{count} tagged fields in one struct, more than {MAX_TAGS}")


def skip_tags(buffer: Buffer, position: int, first: int, end: int) -> int:
    """Go over tagged fields that nobody here knows; `first` is the first byte of their number."""
    count = first
    if first >= _ONE_BYTE:
        count, position = uvarint(buffer, position, first)
    if count > MAX_TAGS:
        raise refuse_tags(count)
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        if size > end - position:
            raise refuse_length(f"tagged field {tag}", size, end - position)
        position += size
    return position


def absent(name: str, value: object) -> AbsentField:
    return AbsentField(f"has no field {name}, which is {value!r}")


def too_long(name: str, size_bytes: int) -> UnfitField:
    return UnfitField(f"{name} has {size_bytes} bytes, more than {MAX_STRING_BYTES}")


def no_uuid(name: str, value: object) -> UnfitField:
    return UnfitField(f"{name} is not 16 bytes: {value!r}")
