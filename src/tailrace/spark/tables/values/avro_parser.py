"""Avro's bytes → Python's values, strictly.

The library's reader takes what no writer writes: the index -1 of a union or an enum as Python does, for the last one,
and integers of any length. A broken value would become a row. So values are parsed here, and at about the same speed: a
schema becomes one function that is made of those of its parts.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from tailrace.spark.tables.values.avro_schema import AvroNode
from tailrace.spark.tables.values.readers import BadValueError

Parse = Callable[[bytes, int], tuple[Any, int]]
"""Bytes and where a value begins → the value and where it ends. IndexError or struct.error behind the end."""

_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_MAX_LONG_BYTES: Final = 10


def value_parser(top: AvroNode) -> Callable[[bytes], Any]:
    """Of whole values. It raises BadValueError, whatever is in them; a union with several members that are not null
    becomes (index among its node's fields, value)."""
    parse = _parser(top)

    def whole(payload: bytes) -> Any:
        try:
            value, end = parse(payload, 0)
        except (IndexError, struct.error):
            raise BadValueError("the value ends too early") from None
        except UnicodeDecodeError as error:
            raise BadValueError(f"a string that is not UTF-8: {error.reason}") from None
        if end != len(payload):
            raise BadValueError(f"{len(payload) - end} bytes are left behind the value")
        return value

    return whole


def _parser(node: AvroNode) -> Parse:
    if node.written:
        return _union(node)
    if node.kind == "record":
        return _record(node)
    if node.kind == "enum":
        return _enum(node)
    if node.kind == "fixed":
        return _fixed(node.size)
    if node.items is not None:
        return (_array if node.kind == "array" else _map)(_parser(node.items))
    return _PRIMITIVES[node.kind]


def _long(data: bytes, at: int) -> tuple[int, int]:
    raw = data[at]
    at += 1
    if raw >= 0x80:
        raw &= 0x7F
        shift = 7
        while True:
            byte = data[at]
            at += 1
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift >= 7 * _MAX_LONG_BYTES:
                raise BadValueError("an integer of more than ten bytes")
        if raw >= 1 << 64:
            raise BadValueError("an integer of more than 64 bits")
    return (raw >> 1) ^ -(raw & 1), at


def _int(data: bytes, at: int) -> tuple[int, int]:
    number, at = _long(data, at)
    if not -0x80000000 <= number <= 0x7FFFFFFF:
        raise BadValueError(f"{number} where an int of 32 bits should be")
    return number, at


def _null(data: bytes, at: int) -> tuple[None, int]:
    return None, at


def _boolean(data: bytes, at: int) -> tuple[bool, int]:
    byte = data[at]
    if byte > 1:
        raise BadValueError(f"byte {byte} where a boolean should be")
    return byte == 1, at + 1


def _float(data: bytes, at: int) -> tuple[float, int]:
    return _FLOAT.unpack_from(data, at)[0], at + 4


def _double(data: bytes, at: int) -> tuple[float, int]:
    return _DOUBLE.unpack_from(data, at)[0], at + 8


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(data, at)
    end = at + size
    if size < 0 or end > len(data):
        raise BadValueError(f"{size} bytes announced where {len(data) - at} are left")
    return data[at:end], end


def _string(data: bytes, at: int) -> tuple[str, int]:
    size, at = _long(data, at)
    end = at + size
    if size < 0 or end > len(data):
        raise BadValueError(f"a string of {size} bytes announced where {len(data) - at} are left")
    return str(data[at:end], "utf-8"), end


def _fixed(size: int) -> Parse:
    def parse(data: bytes, at: int) -> tuple[bytes, int]:
        end = at + size
        if end > len(data):
            raise BadValueError("the value ends too early")
        return data[at:end], end

    return parse


def _enum(node: AvroNode) -> Parse:
    symbols, name = node.symbols, node.name

    def parse(data: bytes, at: int) -> tuple[str, int]:
        index, at = _long(data, at)
        if not 0 <= index < len(symbols):
            raise BadValueError(f"symbol {index} of {name}, which has {len(symbols)}")
        return symbols[index], at

    return parse


def _record(node: AvroNode) -> Parse:
    fields = [(name, _parser(one)) for name, one in node.fields]

    def parse(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        record = {}
        for name, field in fields:
            record[name], at = field(data, at)
        return record, at

    return parse


def _array(item: Parse) -> Parse:
    def parse(data: bytes, at: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        count, at = _block(data, at)
        while count:
            for _ in range(count):
                value, at = item(data, at)
                items.append(value)
            count, at = _block(data, at)
        return items, at

    return parse


def _map(item: Parse) -> Parse:
    def parse(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        items: dict[str, Any] = {}
        count, at = _block(data, at)
        while count:
            for _ in range(count):
                key, at = _string(data, at)
                items[key], at = item(data, at)
            count, at = _block(data, at)
        return items, at

    return parse


def _block(data: bytes, at: int) -> tuple[int, int]:
    """How many items follow. A negative count has the block's size in bytes behind it, for those who skip it."""
    count, at = _long(data, at)
    if count < 0:
        count = -count
        _, at = _long(data, at)
    return count, at


def _union(node: AvroNode) -> Parse:
    parsers = [_parser(one) for one in node.written]
    lanes = [_lane(node, one) for one in node.written] if node.kind == "union" else None

    def parse(data: bytes, at: int) -> tuple[Any, int]:
        index, at = _long(data, at)
        if not 0 <= index < len(parsers):
            raise BadValueError(f"member {index} of a union that has {len(parsers)}")
        value, at = parsers[index](data, at)
        if lanes is None or value is None:
            return value, at
        return (lanes[index], value), at

    return parse


def _lane(node: AvroNode, member: AvroNode) -> int:
    """The field of a union's struct that a member is in: its own, or that of the wider number."""
    for at, (_, one) in enumerate(node.fields):
        if (one.kind, one.name) == (member.kind, member.name):
            return at
    wider = {"int": "long", "float": "double", "null": ""}[member.kind]
    return next((at for at, (_, one) in enumerate(node.fields) if one.kind == wider), -1)


_PRIMITIVES: Final[dict[str, Parse]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "string": _string,
}
