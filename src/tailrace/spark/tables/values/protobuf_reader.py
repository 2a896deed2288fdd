"""Protobuf's messages as columns.

    message → struct        int32, sint32, sfixed32 → int32     bool, float, double, string, bytes: as they are
    repeated → list         uint32, fixed32, and all signed of 64 bits → int64      enum → string
    map → map               uint64, fixed64 → decimal with 20 digits

A field that can tell whether it was set (`optional`, a member of a oneof, a message) is null where it was not; others
have their default, as for everybody who reads them. An enum's number without a name stays that number. A message
without fields becomes a boolean: true where it is there. One that holds itself has no columns: it is refused.

Well-known types: Timestamp → timestamp (what is below a microsecond is cut off); wrappers → what they wrap, or null;
Struct, Value, ListValue → their JSON as string.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa

from tailrace.spark.errors import TableError
from tailrace.spark.tables.values.evolution import read_into
from tailrace.spark.tables.values.nested import list_column, map_column, struct_column
from tailrace.spark.tables.values.packages import needed
from tailrace.spark.tables.values.protobuf_schema import PURPOSE, ProtobufSchema
from tailrace.spark.tables.values.readers import BadValueError, Read, built, in_blocks, parsed
from tailrace.spark.tables.values.times import timestamps

ColumnOf = Callable[[list[Any]], pa.Array]
"""All values of a column (None where there is none) → the column."""

_TIMESTAMP: Final = pa.timestamp("us", "UTC")
_MAX_NANOS: Final = 999_999_999
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_JSON: Final = frozenset(f"google.protobuf.{kind}" for kind in ("Struct", "Value", "ListValue"))


@dataclass(frozen=True)
class Shape:
    """What values become."""

    type: pa.DataType
    column_of: ColumnOf


class ProtobufReader:
    """Of values that are one message."""

    def __init__(self, schema: ProtobufSchema, message: str, fields: Sequence[pa.Field]) -> None:
        descriptor = schema.find(message)
        make = needed("google.protobuf.message_factory", PURPOSE).GetMessageClass(descriptor)
        self._parse = _checked(make.FromString) if _has_required(descriptor, set()) else make.FromString
        self._shapes = _field_shapes(descriptor, ())
        self._fields = fields

    def read(self, payloads: Sequence[bytes | None]) -> Read:
        return in_blocks(payloads, self._read_block)

    def _read_block(self, payloads: Sequence[bytes | None]) -> Read:
        rows, bad = parsed(payloads, self._parse)
        return Read(built(rows, self._columns, bad), bad)

    def _columns(self, rows: Sequence[Any]) -> list[pa.Array]:
        columns = []
        for field in self._fields:
            shape = self._shapes.get(field.name)
            made = pa.nulls(len(rows), field.type) if shape is None else shape.column_of(list(rows))
            columns.append(read_into(made, field.type))
        return columns


def fields_of(schema: ProtobufSchema, message: str) -> list[pa.Field]:
    """The columns of a message. TableError where it has none."""
    shapes = _field_shapes(schema.find(message), ())
    return [pa.field(name, shape.type) for name, shape in shapes.items()]


def _checked(parse: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def whole(payload: bytes) -> Any:
        message = parse(payload)
        if not message.IsInitialized():
            raise BadValueError(f"required fields are missing: {', '.join(message.FindInitializationErrors())}")
        return message

    return whole


def _has_required(descriptor: Any, seen: set[str]) -> bool:
    if descriptor.full_name in seen:
        return False
    seen.add(descriptor.full_name)
    return any(
        field.is_required or (field.message_type is not None and _has_required(field.message_type, seen))
        for field in descriptor.fields
    )


def _field_shapes(descriptor: Any, inside: tuple[str, ...]) -> dict[str, Shape]:
    """Of a message's fields: their columns are made from the messages."""
    if descriptor.full_name in inside:
        raise TableError(f"message {descriptor.full_name} holds itself: that has no columns. Read it as bytes")
    inside = (*inside, descriptor.full_name)
    return {field.name: _field_shape(field, inside) for field in descriptor.fields}


def _field_shape(field: Any, inside: tuple[str, ...]) -> Shape:
    of_value = _shape(field, inside)
    get = attrgetter(field.name)
    name = field.name
    column_of = of_value.column_of

    def of_messages(messages: list[Any]) -> pa.Array:
        return column_of([None if one is None else get(one) for one in messages])

    def of_set_messages(messages: list[Any]) -> pa.Array:
        return column_of([get(one) if one is not None and type(one).HasField(one, name) else None for one in messages])

    return Shape(of_value.type, of_set_messages if field.has_presence else of_messages)


def _shape(field: Any, inside: tuple[str, ...]) -> Shape:
    """Of what a field holds."""
    if not field.is_repeated:
        return _single(field, inside)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (_single(field.message_type.fields_by_name[name], inside) for name in ("key", "value"))
        map_type = pa.map_(key.type, value.type)
        return Shape(map_type, lambda values: map_column(_sorted(values), value.column_of, map_type))
    item = _single(field, inside)
    list_type = pa.list_(item.type)
    return Shape(list_type, lambda values: list_column(values, item.column_of, list_type))


def _sorted(values: list[Any]) -> list[dict[Any, Any] | None]:
    """A map has no order: the same messages shall make the same files."""
    return [None if value is None else dict(sorted(value.items(), key=_key)) for value in values]


def _key(entry: tuple[Any, Any]) -> Any:
    return entry[0]


def _single(field: Any, inside: tuple[str, ...]) -> Shape:
    if field.cpp_type == field.CPPTYPE_MESSAGE:
        return _message(field.message_type, inside)
    if field.cpp_type == field.CPPTYPE_ENUM:
        return _enum(field.enum_type)
    plain = {
        field.CPPTYPE_INT32: pa.int32(),
        field.CPPTYPE_INT64: pa.int64(),
        field.CPPTYPE_UINT32: pa.int64(),
        field.CPPTYPE_UINT64: pa.decimal128(20, 0),
        field.CPPTYPE_DOUBLE: pa.float64(),
        field.CPPTYPE_FLOAT: pa.float32(),
        field.CPPTYPE_BOOL: pa.bool_(),
        field.CPPTYPE_STRING: pa.binary() if field.type == field.TYPE_BYTES else pa.string(),
    }[field.cpp_type]
    return Shape(plain, lambda values: pa.array(values, plain))


def _enum(descriptor: Any) -> Shape:
    names: dict[int | None, str | None] = {None: None}
    for value in descriptor.values:
        # Of two names for a number, the first is the one that is written.
        names.setdefault(value.number, value.name)

    def column_of(values: list[Any]) -> pa.Array:
        return pa.array([names[value] if value in names else str(value) for value in values], pa.string())

    return Shape(pa.string(), column_of)


def _message(descriptor: Any, inside: tuple[str, ...]) -> Shape:
    name = descriptor.full_name
    if name == "google.protobuf.Timestamp":
        return Shape(_TIMESTAMP, _timestamp_column)
    if name in _JSON:
        return Shape(pa.string(), _json_column)
    if name in _WRAPPERS:
        value = _single(descriptor.fields_by_name["value"], inside)
        return Shape(value.type, lambda values: value.column_of([None if one is None else one.value for one in values]))
    shapes = _field_shapes(descriptor, inside)
    if not shapes:
        return Shape(pa.bool_(), lambda values: pa.array([None if one is None else True for one in values], pa.bool_()))
    struct_type = pa.struct([pa.field(key, shape.type) for key, shape in shapes.items()])

    def column_of(values: list[Any]) -> pa.Array:
        return struct_column(values, [shape.column_of(values) for shape in shapes.values()], struct_type)

    return Shape(struct_type, column_of)


def _timestamp_column(values: list[Any]) -> pa.Array:
    micros: list[int | None] = []
    for value in values:
        if value is None:
            micros.append(None)
            continue
        if not 0 <= value.nanos <= _MAX_NANOS:
            raise BadValueError(f"a timestamp with {value.nanos} nanoseconds")
        micros.append(value.seconds * 1_000_000 + value.nanos // 1000)
    try:
        numbers = pa.array(micros, pa.int64())
    except (OverflowError, pa.ArrowInvalid) as error:
        raise BadValueError("a timestamp outside the years 1 to 9999") from error
    return timestamps(numbers, _TIMESTAMP)


def _json_column(values: list[Any]) -> pa.Array:
    as_dict = needed("google.protobuf.json_format", PURPOSE).MessageToDict
    texts = [None if one is None else json.dumps(as_dict(one), sort_keys=True, ensure_ascii=False) for one in values]
    return pa.array(texts, pa.string())
