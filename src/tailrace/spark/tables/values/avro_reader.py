"""Avro's values as columns: a list of all values of a column at a time, which is several times faster than row by row.

Where values are to be read as another schema, `fastavro` does that, behind our own parser: it is not strict about what
it reads.
"""

from __future__ import annotations

import decimal
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.spark.errors import TableError
from tailrace.spark.tables.values.avro_parser import value_parser
from tailrace.spark.tables.values.avro_schema import PURPOSE, AvroNode, AvroSchema
from tailrace.spark.tables.values.evolution import read_into
from tailrace.spark.tables.values.nested import list_column, map_column, struct_column
from tailrace.spark.tables.values.packages import needed
from tailrace.spark.tables.values.readers import BadValueError, Read, built, in_blocks, parsed
from tailrace.spark.tables.values.times import dates, timestamps

_WIDE: Final = decimal.Context(prec=100)


class AvroReader:
    """Of values with one writer's schema."""

    def __init__(self, writer: AvroSchema, reader: AvroSchema | None, fields: Sequence[pa.Field]) -> None:
        """`reader`: the schema that values are read as, by Avro's rules of resolution. None: the writer's own."""
        self._fields = fields
        self._top = (reader or writer).top
        self._by_name = dict(self._top.fields)
        self._parse = _parser(writer, reader)

    def read(self, payloads: Sequence[bytes | None]) -> Read:
        return in_blocks(payloads, self._read_block)

    def _read_block(self, payloads: Sequence[bytes | None]) -> Read:
        rows, bad = parsed(payloads, self._parse)
        return Read(built(rows, self._columns, bad), bad)

    def _columns(self, rows: Sequence[Any]) -> list[pa.Array]:
        columns = []
        for field in self._fields:
            node = self._by_name.get(field.name)
            if node is None:
                columns.append(pa.nulls(len(rows), field.type))
            else:
                made = column_of(node, [None if row is None else row[field.name] for row in rows])
                columns.append(read_into(made, field.type))
        return columns


def _parser(writer: AvroSchema, reader: AvroSchema | None) -> Callable[[bytes], Any]:
    strict = value_parser(writer.top)
    if reader is None:
        return strict
    resolve = needed("fastavro", PURPOSE).schemaless_reader
    written, wanted, has_tags = _plain(writer), _plain(reader), reader.has_tags
    if reader.tells_ints_from_longs:
        _mark_ints(written)

    def parse(payload: bytes) -> Any:
        strict(payload)
        return resolve(io.BytesIO(payload), written, wanted, return_named_type=has_tags)

    return parse


def _plain(schema: AvroSchema) -> dict[str, Any]:
    """As the library takes it, without logical types: theirs do not hold all values, and are slower."""
    top, named = schema.parsed()
    everywhere = {**top["__named_schemas"], **named}
    for one in (top, *named.values(), *top["__named_schemas"].values()):
        _forget_logical(one)
        for record in _records_in(one):
            for field in record["fields"]:
                if "default" in field:
                    field["default"] = _checked_default(field, everywhere)
    return top


def _checked_default(field: dict[str, Any], named: Mapping[str, Any]) -> Any:
    try:
        return _default(field["type"], field["default"], named)
    except (AttributeError, TypeError, UnicodeEncodeError) as error:
        raise TableError(f"the Avro schema's field {field['name']} has a default that is not of its type") from error


def _records_in(schema: Any) -> Iterator[dict[str, Any]]:
    """All that are written out in a parsed schema."""
    if isinstance(schema, list):
        for one in schema:
            yield from _records_in(one)
    elif isinstance(schema, dict):
        if "fields" in schema:
            yield schema
        for inner in ("items", "values", "type"):
            yield from _records_in(schema.get(inner))
        for one in schema.get("fields", ()):
            yield from _records_in(one["type"])


def _default(of: Any, default: Any, named: Mapping[str, Any]) -> Any:
    """A default as a value. The library gives it as JSON has it: bytes are text there, a character for each, and a
    record's fields need not all be there."""
    if isinstance(of, list):
        return _default(of[0], default, named)
    if isinstance(of, str) and of in named:
        return _default(named[of], default, named)
    kind = of["type"] if isinstance(of, dict) else of
    if isinstance(kind, dict | list):
        return _default(kind, default, named)
    if kind in ("bytes", "fixed"):
        return default.encode("latin-1") if isinstance(default, str) else default
    if kind == "int":
        return WrittenInt(default) if type(default) is int else default
    if kind in ("record", "error"):
        fields = ((one, default.get(one["name"], one.get("default"))) for one in of["fields"])
        return {one["name"]: _default(one["type"], value, named) for one, value in fields}
    if kind == "array":
        return [_default(of["items"], item, named) for item in default]
    if kind == "map":
        return {key: _default(of["values"], item, named) for key, item in default.items()}
    return default


def _forget_logical(schema: Any) -> None:
    """In all types that are written out in a parsed schema."""
    if isinstance(schema, list):
        for one in schema:
            _forget_logical(one)
    elif isinstance(schema, dict):
        schema.pop("logicalType", None)
        for inner in ("items", "values", "type"):
            _forget_logical(schema.get(inner))
        for one in schema.get("fields", ()):
            _forget_logical(one)


class WrittenInt(int):
    """What was written as an int and not as a long, where a union has both: to Python they are the same."""


_MARK: Final = "tailrace-written"


def _mark_ints(written: dict[str, Any]) -> None:
    """By a logical type of our own, which the library lets us read."""
    needed("fastavro.read", PURPOSE).LOGICAL_READERS[f"int-{_MARK}"] = _marked_int
    for record in _records_in([written, *written["__named_schemas"].values()]):
        for field in record["fields"]:
            field["type"] = _with_marks(field["type"])


def _with_marks(schema: Any) -> Any:
    """Records are left as they are."""
    if isinstance(schema, list):
        return [_with_marks(one) for one in schema]
    if schema == "int":
        return {"type": "int", "logicalType": _MARK}
    if isinstance(schema, dict) and schema["type"] == "int":
        return {**schema, "logicalType": _MARK}
    if isinstance(schema, dict) and "fields" not in schema:
        inner = {name: _with_marks(schema[name]) for name in ("items", "values", "type") if name in schema}
        return {**schema, **inner}
    return schema


def _marked_int(value: int, written: Any, wanted: Any) -> int | float:
    """The library promotes only what has no logical type."""
    kind = wanted["type"] if isinstance(wanted, dict) else wanted
    return float(value) if kind in ("float", "double") else WrittenInt(value)


def column_of(node: AvroNode, values: list[Any]) -> pa.Array:
    """All values of a column: None where there is none."""
    if node.name:
        values = [value[1] if type(value) is tuple else value for value in values]
    if node.kind == "union":
        return _union_column(node, values)
    if node.kind == "record":
        if not node.fields:
            return pa.array([None if value is None else True for value in values], pa.bool_())
        children = [
            column_of(one, [None if value is None else value[name] for value in values]) for name, one in node.fields
        ]
        return struct_column(values, children, node.type)
    if node.items is not None:
        make = list_column if node.kind == "array" else map_column
        items = node.items
        return make(values, lambda inner: column_of(items, inner), node.type)
    special = _SCALARS.get(node.logical)
    return pa.array(values, node.type) if special is None else special(node, values)


def _decimal_column(node: AvroNode, values: list[Any]) -> pa.Array:
    limit = 10**node.type.precision
    made: list[decimal.Decimal | None] = []
    for value in values:
        unscaled = None if value is None else int.from_bytes(value, "big", signed=True)
        if unscaled is not None and abs(unscaled) >= limit:
            raise BadValueError(f"a decimal with more than {node.type.precision} digits")
        made.append(None if unscaled is None else _WIDE.scaleb(decimal.Decimal(unscaled), -node.type.scale))
    return pa.array(made, node.type)


def _timestamp_column(node: AvroNode, values: list[Any]) -> pa.Array:
    numbers = pa.array(values, pa.int64())
    return timestamps(pc.multiply_checked(numbers, 1000) if node.logical.endswith("millis") else numbers, node.type)


def _date_column(node: AvroNode, values: list[Any]) -> pa.Array:
    return dates(pa.array(values, pa.int32()))


_SCALARS: Final[dict[str, Callable[[AvroNode, list[Any]], pa.Array]]] = {
    "decimal": _decimal_column,
    "date": _date_column,
    "timestamp-millis": _timestamp_column,
    "timestamp-micros": _timestamp_column,
    "local-timestamp-millis": _timestamp_column,
    "local-timestamp-micros": _timestamp_column,
}


def _union_column(node: AvroNode, values: list[Any]) -> pa.Array:
    lanes: list[list[Any]] = [[None] * len(values) for _ in node.fields]
    for at, value in enumerate(values):
        if value is not None:
            lanes[_member(node, value)][at] = value[1] if type(value) is tuple else value
    children = [column_of(one, lane) for (_, one), lane in zip(node.fields, lanes, strict=True)]
    return struct_column(values, children, node.type)


_KINDS_OF_PYTHON: Final[dict[type, tuple[tuple[str, ...], ...]]] = {
    bool: (("boolean",),),
    int: (("long",), ("int",)),
    WrittenInt: (("int",), ("long",)),
    float: (("double", "float"),),
    str: (("string", "enum"),),
    bytes: (("bytes", "fixed"),),
    list: (("array",),),
    dict: (("map", "record"),),
}
"""Where a union has several, those that come first are meant."""


def _member(node: AvroNode, value: Any) -> int:
    """Which one a value is. Our own parser tells; the library tells the name, and nothing where that has none."""
    if type(value) is tuple:
        name = value[0]
        if type(name) is int:
            return name
        for at, (_, one) in enumerate(node.fields):
            if one.name == name:
                return at
        raise BadValueError(f"a union's member {name} that its schema does not have")
    for kinds in _KINDS_OF_PYTHON.get(type(value), ()):
        for at, (_, one) in enumerate(node.fields):
            if one.kind in kinds and (one.kind != "record" or [name for name, _ in one.fields] == list(value)):
                return at
    raise BadValueError("a union's member that its schema does not have")
