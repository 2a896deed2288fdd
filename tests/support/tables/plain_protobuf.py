"""Protobuf, plainly: message types and their bytes for Hypothesis, and a decoder that is nothing but the wire format.

A message type is a list of `PlainField`; `descriptor_set` makes of it what the library reads, of the syntax proto3.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from google.protobuf import descriptor_pb2 as pb
from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]

_TYPES = pb.FieldDescriptorProto
_SCALARS = {
    "int32": (_TYPES.TYPE_INT32, 0),
    "int64": (_TYPES.TYPE_INT64, 0),
    "uint32": (_TYPES.TYPE_UINT32, 0),
    "uint64": (_TYPES.TYPE_UINT64, 0),
    "sint64": (_TYPES.TYPE_SINT64, 0),
    "bool": (_TYPES.TYPE_BOOL, 0),
    "enum": (_TYPES.TYPE_ENUM, 0),
    "double": (_TYPES.TYPE_DOUBLE, 1),
    "fixed64": (_TYPES.TYPE_FIXED64, 1),
    "string": (_TYPES.TYPE_STRING, 2),
    "bytes": (_TYPES.TYPE_BYTES, 2),
    "message": (_TYPES.TYPE_MESSAGE, 2),
    "float": (_TYPES.TYPE_FLOAT, 5),
    "sfixed32": (_TYPES.TYPE_SFIXED32, 5),
}
_DEFAULTS: dict[str, Any] = {"bool": False, "double": 0.0, "float": 0.0, "string": "", "bytes": b"", "enum": "ZERO"}
_UNPACKED = ("string", "bytes", "message")
SYMBOLS = ["ZERO", "ONE", "TWO"]


class BrokenError(Exception):
    """What is no message."""


@dataclass(frozen=True)
class PlainField:
    number: int
    kind: str
    label: str = "single"
    """single, optional, repeated, oneof, map (with keys of text)."""
    message: tuple[PlainField, ...] = field(default=())

    @property
    def name(self) -> str:
        return f"f{self.number}"


Message = tuple[PlainField, ...]


@st.composite
def messages(draw: Draw, depth: int = 2) -> Message:
    fields = []
    for number in sorted(draw(st.sets(st.integers(1, 40), min_size=1, max_size=5))):
        kind = draw(st.sampled_from([one for one in _SCALARS if depth > 0 or one != "message"]))
        label = draw(st.sampled_from(["single", "optional", "repeated", "oneof", "map"]))
        inner = draw(messages(depth - 1)) if kind == "message" else ()
        fields.append(PlainField(number, kind, label, inner))
    return tuple(fields)


# ------------------------------------------------------------------------------------------------------ descriptors


def descriptor_set(message: Message) -> bytes:
    file = pb.FileDescriptorProto(name="plain.proto", package="plain", syntax="proto3")
    symbols = [pb.EnumValueDescriptorProto(name=name, number=number) for number, name in enumerate(SYMBOLS)]
    file.enum_type.add(name="Kind", value=symbols)
    _describe(file.message_type.add(name="Top"), message, ".plain.Top")
    return pb.FileDescriptorSet(file=[file]).SerializeToString()


def _describe(made: Any, message: Message, path: str) -> None:
    optional = []
    if any(one.label == "oneof" for one in message):
        made.oneof_decl.add(name="choice")
    for one in message:
        described = made.field.add(name=one.name, number=one.number, label=_TYPES.LABEL_OPTIONAL)
        target = described
        if one.label == "map":
            entry = made.nested_type.add(name=f"F{one.number}Entry", options=pb.MessageOptions(map_entry=True))
            entry.field.add(name="key", number=1, label=_TYPES.LABEL_OPTIONAL, type=_TYPES.TYPE_STRING)
            target = entry.field.add(name="value", number=2, label=_TYPES.LABEL_OPTIONAL)
            described.type, described.type_name = _TYPES.TYPE_MESSAGE, f"{path}.{entry.name}"
        target.type = _SCALARS[one.kind][0]
        if one.kind == "enum":
            target.type_name = ".plain.Kind"
        if one.kind == "message":
            target.type_name = f"{path}.M{one.number}"
            _describe(made.nested_type.add(name=f"M{one.number}"), one.message, f"{path}.M{one.number}")
        if one.label in ("repeated", "map"):
            described.label = _TYPES.LABEL_REPEATED
        if one.label == "oneof":
            described.oneof_index = 0
        if one.label == "optional":
            described.proto3_optional = True
            optional.append(described)
    for described in optional:
        described.oneof_index = len(made.oneof_decl)
        made.oneof_decl.add(name=f"_{described.name}")


# ------------------------------------------------------------------------------------------------------------ bytes


def encoded(draw: Draw, message: Message) -> bytes:
    """Fields in any order, some of them twice, some that the message does not have."""
    parts = [_field_bytes(draw, one) for one in message if draw(st.booleans())]
    if draw(st.booleans()):
        parts.append(_tag(99, 2) + _sized(draw(st.binary(max_size=3))))
    return b"".join(draw(st.permutations(parts)))


def _field_bytes(draw: Draw, one: PlainField) -> bytes:
    wire = _SCALARS[one.kind][1]
    if one.label == "map":
        entries = [
            _tag(1, 2) + _sized(draw(st.text(max_size=2)).encode()) + _tag(2, wire) + _payload(draw, one)
            for _ in range(draw(st.integers(1, 2)))
        ]
        return b"".join(_tag(one.number, 2) + _sized(entry) for entry in entries)
    items = [_payload(draw, one) for _ in range(draw(st.integers(1, 3)))]
    if one.label == "repeated" and one.kind not in _UNPACKED and draw(st.booleans()):
        return _tag(one.number, 2) + _sized(b"".join(items))
    return b"".join(_tag(one.number, wire) + item for item in items)


def _payload(draw: Draw, one: PlainField) -> bytes:
    wire = _SCALARS[one.kind][1]
    if one.kind == "message":
        return _sized(encoded(draw, one.message))
    if one.kind == "string":
        return _sized(draw(st.text(max_size=4)).encode())
    if wire == 2:
        return _sized(draw(st.binary(max_size=4)))
    if wire == 0:
        top = 4 if one.kind == "enum" else draw(st.sampled_from([2, 2**31 - 1, 2**32 - 1, 2**64 - 1]))
        return _varint(draw(st.integers(0, top)))
    return draw(st.binary(min_size=8 if wire == 1 else 4, max_size=8 if wire == 1 else 4))


def _tag(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _sized(content: bytes) -> bytes:
    return _varint(len(content)) + content


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


# ---------------------------------------------------------------------------------------------------------- decoder


def decoded(message: Message, value: bytes) -> dict[str, Any]:
    """As a table shows it. BrokenError for what is no message."""
    return _shown(message, _merged(message, value, {}))


def _merged(message: Message, data: bytes, found: dict[int, Any]) -> dict[int, Any]:
    """What a message holds after these bytes, which may be some of several."""
    by_number = {one.number: one for one in message}
    at = 0
    while at < len(data):
        tag, at = _number(data, at, 5)
        number, wire = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise BrokenError("no such field number")
        content, at = _content(data, at, wire, number)
        one = by_number.get(number)
        if one is not None:
            _take(message, one, wire, content, found)
    return found


def _content(data: bytes, at: int, wire: int, number: int) -> tuple[Any, int]:
    if wire == 0:
        return _number(data, at)
    if wire == 3:
        return None, _behind_group(data, at, number)
    if wire == 2:
        size, at = _number(data, at, is_truncated=False)
    else:
        size = {1: 8, 5: 4}.get(wire, -1)
    if size < 0 or at + size > len(data):
        raise BrokenError("too short")
    return data[at : at + size], at + size


def _behind_group(data: bytes, at: int, group: int) -> int:
    while True:
        tag, at = _number(data, at, 5)
        number, wire = tag >> 3, tag & 7
        if wire == 4:
            if number != group:
                raise BrokenError("a group's end without its beginning")
            return at
        if not 0 < number < 1 << 29:
            raise BrokenError("no such field number")
        _, at = _content(data, at, wire, number)


def _number(data: bytes, at: int, most_bytes: int = 10, *, is_truncated: bool = True) -> tuple[int, int]:
    """A varint. Protobuf ignores the bits of a value above the 64th; tags and sizes must not have any."""
    raw = 0
    for place in range(most_bytes):
        if at >= len(data):
            raise BrokenError("too short")
        byte = data[at]
        at += 1
        raw += (byte % 128) << 7 * place
        if byte < 128:
            if most_bytes == 10 and is_truncated:
                return raw % (1 << 64), at
            if raw >= 1 << (64 if most_bytes == 10 else 32):
                raise BrokenError("a number too large")
            return raw, at
    raise BrokenError("a number too long")


def _take(message: Message, one: PlainField, wire: int, content: Any, found: dict[int, Any]) -> None:
    expected = _SCALARS[one.kind][1]
    if one.label == "map":
        if wire == 2:
            entry = _entry(one, content)
            if entry is not None:
                found.setdefault(one.number, {})[entry[0]] = entry[1]
    elif one.label == "repeated" and wire == 2 and one.kind not in _UNPACKED:
        found.setdefault(one.number, []).extend(_packed(one, content))
    elif wire != expected:
        return
    elif one.label == "repeated":
        item = _merged(one.message, content, {}) if one.kind == "message" else _scalar(one.kind, content)
        found.setdefault(one.number, []).append(item)
    else:
        if one.label == "oneof":
            for other in message:
                if other.label == "oneof" and other.number != one.number:
                    found.pop(other.number, None)
        before = found.get(one.number, {})
        is_message = one.kind == "message"
        found[one.number] = _merged(one.message, content, before) if is_message else _scalar(one.kind, content)


def _entry(one: PlainField, content: bytes) -> tuple[str, Any] | None:
    """None for one that has anything but a key and a value in it: Google's decoder knows nothing of such an entry."""
    value = PlainField(2, one.kind, "single", one.message)
    entry = (PlainField(1, "string"), value)
    found = _merged(entry, content, {})
    known = {(each.number, _SCALARS[each.kind][1]) for each in entry}
    if not known.issuperset(_fields_in(content)):
        return None
    return found.get(1, ""), found.get(2, {} if one.kind == "message" else _default(one.kind))


def _fields_in(data: bytes) -> Iterator[tuple[int, int]]:
    """Number and wire type of each, of bytes that are a message."""
    at = 0
    while at < len(data):
        tag, at = _number(data, at, 5)
        yield tag >> 3, tag & 7
        _, at = _content(data, at, tag & 7, tag >> 3)


def _packed(one: PlainField, content: bytes) -> list[Any]:
    wire = _SCALARS[one.kind][1]
    items = []
    at = 0
    while at < len(content):
        item, at = _content(content, at, wire, 1)
        items.append(_scalar(one.kind, item))
    return items


def _scalar(kind: str, content: Any) -> Any:
    if kind == "string":
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise BrokenError("not UTF-8") from None
    if kind == "bytes":
        return content
    if kind in ("double", "float", "sfixed32"):
        return struct.unpack({"double": "<d", "float": "<f", "sfixed32": "<i"}[kind], content)[0]
    if kind == "fixed64":
        return Decimal(int.from_bytes(content, "little"))
    if kind == "bool":
        return content != 0
    if kind == "uint64":
        return Decimal(content)
    if kind == "uint32":
        return content % 2**32
    if kind == "int64":
        return _signed(content, 64)
    if kind == "sint64":
        return content // 2 if content % 2 == 0 else -(content // 2) - 1
    number = _signed(content, 32)
    if kind == "enum":
        return SYMBOLS[number] if 0 <= number < len(SYMBOLS) else str(number)
    return number


def _signed(raw: int, bits: int) -> int:
    low = raw % 2**bits
    return low - 2**bits if low >= 2 ** (bits - 1) else low


def _default(kind: str) -> Any:
    return Decimal(0) if kind in ("uint64", "fixed64") else _DEFAULTS.get(kind, 0)


def _shown(message: Message, found: dict[int, Any]) -> dict[str, Any]:
    return {one.name: _shown_field(one, found.get(one.number)) for one in message}


def _shown_field(one: PlainField, value: Any) -> Any:
    def single(item: Any) -> Any:
        return _shown(one.message, item) if one.kind == "message" else item

    if one.label == "map":
        return [(key, single(item)) for key, item in sorted((value or {}).items())]
    if one.label == "repeated":
        return [single(item) for item in value or []]
    if value is None:
        return _default(one.kind) if one.label == "single" and one.kind != "message" else None
    return single(value)
