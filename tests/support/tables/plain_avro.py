"""Avro, plainly: schemas and their bytes for Hypothesis, and a decoder that is nothing but the specification.

Schemas are as in their JSON. What the decoder gives is what a table's columns show as Python's values.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from itertools import count
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

Schema = Any
Draw = Callable[[st.SearchStrategy[Any]], Any]

_UTC = ZoneInfo("UTC")
_NUMBERS = {"int": "long", "float": "double"}


class BrokenError(Exception):
    """A value that no writer of the schema wrote, or that no column holds."""


# ---------------------------------------------------------------------------------------------------------- schemas


def primitives() -> st.SearchStrategy[Schema]:
    return st.sampled_from(["boolean", "int", "long", "float", "double", "bytes", "string"])


def _logical() -> st.SearchStrategy[Schema]:
    return st.sampled_from(
        [
            {"type": "int", "logicalType": "date"},
            {"type": "long", "logicalType": "timestamp-millis"},
            {"type": "long", "logicalType": "timestamp-micros"},
            {"type": "long", "logicalType": "local-timestamp-micros"},
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
            {"type": "int", "logicalType": "time-millis"},
            {"type": "string", "logicalType": "uuid"},
        ]
    )


@st.composite
def records(draw: Draw, depth: int = 3) -> Schema:
    """A record with types of all kinds below it, no name twice."""
    numbers = count()
    return _record(draw, depth, numbers)


def _record(draw: Draw, depth: int, numbers: Any) -> Schema:
    name = f"R{next(numbers)}"
    size = draw(st.integers(1, 4))
    fields = [{"name": f"f{at}", "type": _any_type(draw, depth - 1, numbers)} for at in range(size)]
    return {"type": "record", "name": name, "namespace": "plain.test", "fields": fields}


def _any_type(draw: Draw, depth: int, numbers: Any) -> Schema:
    kinds = ["primitive", "primitive", "logical", "enum", "fixed", "nullable"]
    if depth > 0:
        kinds += ["record", "array", "map", "nullable", "union"]
    kind = draw(st.sampled_from(kinds))
    if kind == "primitive":
        return draw(primitives())
    if kind == "logical":
        return draw(_logical())
    if kind == "enum":
        symbols = [f"S{at}" for at in range(draw(st.integers(1, 4)))]
        return {"type": "enum", "name": f"E{next(numbers)}", "symbols": symbols}
    if kind == "fixed":
        return {"type": "fixed", "name": f"F{next(numbers)}", "size": draw(st.integers(1, 5))}
    if kind == "record":
        return _record(draw, depth, numbers)
    if kind == "array":
        return {"type": "array", "items": _any_type(draw, depth - 1, numbers)}
    if kind == "map":
        return {"type": "map", "values": _any_type(draw, depth - 1, numbers)}
    if kind == "nullable":
        return _nullable(draw, depth, numbers)
    return _union(draw, depth, numbers)


def _nullable(draw: Draw, depth: int, numbers: Any) -> Schema:
    inner = _any_type(draw, depth - 1, numbers)
    if isinstance(inner, list):
        return inner
    return draw(st.permutations(["null", inner]))


def _union(draw: Draw, depth: int, numbers: Any) -> Schema:
    plain = draw(st.lists(primitives() | _logical(), min_size=1, max_size=3, unique_by=_member_name))
    named = [_record(draw, depth - 1, numbers) for _ in range(draw(st.integers(0, 2)))]
    nulls = ["null"] if draw(st.booleans()) else []
    return draw(st.permutations([*nulls, *plain, *named]))


# ------------------------------------------------------------------------------------------------------------ bytes


def encoded(draw: Draw, schema: Schema) -> bytes:
    """A value of a schema. Now and then one that is well formed, and that no column holds."""
    if isinstance(schema, list):
        index = draw(st.integers(0, len(schema) - 1))
        return zigzag(index) + encoded(draw, schema[index])
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "null":
        return b""
    if kind == "boolean":
        return draw(st.sampled_from([b"\x00", b"\x01"]))
    if kind in ("int", "long"):
        bits = 32 if kind == "int" else draw(st.sampled_from([20, 54, 64]))
        return zigzag(draw(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)))
    if kind == "float":
        return struct.pack("<f", draw(st.floats(width=32)))
    if kind == "double":
        return struct.pack("<d", draw(st.floats()))
    if kind == "string":
        return _sized(draw(st.text(max_size=6)).encode())
    if kind == "bytes":
        return _sized(draw(st.binary(max_size=5)))
    if kind == "fixed":
        return draw(st.binary(min_size=schema["size"], max_size=schema["size"]))
    if kind == "enum":
        return zigzag(draw(st.integers(0, len(schema["symbols"]) - 1)))
    if kind == "record":
        return b"".join(encoded(draw, field["type"]) for field in schema["fields"])
    return _blocks(draw, schema)


def _blocks(draw: Draw, schema: Schema) -> bytes:
    out = b""
    for _ in range(draw(st.integers(0, 2))):
        items = []
        for _ in range(draw(st.integers(1, 2))):
            key = _sized(draw(st.text(max_size=3)).encode()) if schema["type"] == "map" else b""
            items.append(key + encoded(draw, schema["items" if schema["type"] == "array" else "values"]))
        block = b"".join(items)
        out += zigzag(-len(items)) + zigzag(len(block)) + block if draw(st.booleans()) else zigzag(len(items)) + block
    return out + zigzag(0)


def zigzag(number: int) -> bytes:
    raw = (number << 1) ^ (number >> 63)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


def _sized(content: bytes) -> bytes:
    return zigzag(len(content)) + content


# ---------------------------------------------------------------------------------------------------------- decoder


def decoded(schema: Schema, value: bytes) -> Any:
    """BrokenError for everything that is not a value of the schema, to its last byte."""
    reader = _Reader(value)
    found = reader.read(schema)
    if reader.at != len(value):
        raise BrokenError("bytes are left")
    return _resolved(found)


@dataclass(frozen=True)
class _Later:
    """A value with a meaning, which only counts if it stays: of two with one key in a map, the last one does."""

    logical: str
    plain: Any
    schema: Schema


def _resolved(found: Any) -> Any:
    if isinstance(found, _Later):
        return _meant(found.logical, found.plain, found.schema)
    if isinstance(found, dict):
        return {name: _resolved(one) for name, one in found.items()}
    if isinstance(found, list | tuple):
        return type(found)(_resolved(one) for one in found)
    return found


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise BrokenError("too short")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, bits: int = 64) -> int:
        raw = 0
        for place in range(10):
            byte = self.take(1)[0]
            raw += (byte % 128) * 128**place
            if byte < 128:
                break
        else:
            raise BrokenError("a number too long")
        found = raw // 2 if raw % 2 == 0 else -(raw // 2) - 1
        if not -(2 ** (bits - 1)) <= found < 2 ** (bits - 1):
            raise BrokenError("a number too large")
        return found

    def read(self, schema: Schema) -> Any:
        if isinstance(schema, list):
            return self._union(schema)
        kind = schema if isinstance(schema, str) else schema["type"]
        logical = "" if isinstance(schema, str) else schema.get("logicalType", "")
        if kind in ("array", "map"):
            return self._blocks(schema)
        if kind == "record":
            return {field["name"]: self.read(field["type"]) for field in schema["fields"]}
        if kind == "enum":
            return schema["symbols"][self._index(len(schema["symbols"]))]
        if kind == "fixed":
            return self.take(schema["size"])
        plain = self._primitive(kind)
        return _Later(logical, plain, schema) if logical else plain

    def _primitive(self, kind: str) -> Any:
        if kind == "null":
            return None
        if kind == "boolean":
            byte = self.take(1)[0]
            if byte > 1:
                raise BrokenError("a boolean that is none")
            return bool(byte)
        if kind in ("int", "long"):
            return self.number(32 if kind == "int" else 64)
        if kind in ("float", "double"):
            return struct.unpack("<f" if kind == "float" else "<d", self.take(4 if kind == "float" else 8))[0]
        content = self.take(self.number())
        if kind == "bytes":
            return content
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise BrokenError("not UTF-8") from None

    def _index(self, length: int) -> int:
        index = self.number()
        if not 0 <= index < length:
            raise BrokenError("no such index")
        return index

    def _blocks(self, schema: Schema) -> Any:
        items: list[Any] = []
        entries: dict[str, Any] = {}
        while size := self.number():
            if size < 0:
                self.number()
            for _ in range(abs(size)):
                if schema["type"] == "array":
                    items.append(self.read(schema["items"]))
                else:
                    key = self.read("string")
                    entries[key] = self.read(schema["values"])
        return items if schema["type"] == "array" else list(entries.items())

    def _union(self, schema: list[Schema]) -> Any:
        index = self._index(len(schema))
        value = self.read(schema[index])
        members = [_member_name(one) for one in schema if one != "null" and _NUMBERS.get(str(one)) not in schema]
        if len(members) < 2 or schema[index] == "null":
            return value
        mine = _member_name(schema[index])
        mine = mine if mine in members else _NUMBERS[mine]
        return {name: value if name == mine else None for name in members}


def _member_name(schema: Schema) -> str:
    return schema if isinstance(schema, str) else schema.get("name", schema["type"])


def _meant(logical: str, plain: Any, schema: Schema) -> Any:
    try:
        if logical == "date":
            return dt.date(1970, 1, 1) + dt.timedelta(days=plain)
        if logical == "decimal":
            unscaled = int.from_bytes(plain, "big", signed=True)
            if abs(unscaled) >= 10 ** schema["precision"]:
                raise BrokenError("too many digits")
            return Context(prec=60).scaleb(Decimal(unscaled), -schema["scale"])
        if "timestamp" in logical:
            micros = plain * 1000 if logical.endswith("millis") else plain
            moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros)  # noqa: DTZ001
            return moment if logical.startswith("local") else moment.replace(tzinfo=_UTC)
    except OverflowError:
        raise BrokenError("no such time") from None
    return plain
