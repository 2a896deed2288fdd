"""Avro's schemas: as the library wants them for reading, and as trees that say what each value becomes.

    record → struct         string, uuid → string       boolean → boolean
    array → list            enum → string               int, long → int32, int64
    map → map               bytes, fixed → binary       float, double → float32, float64
    decimal → decimal, up to 38 digits                  date → date
    timestamp-millis, -micros → timestamp in µs, UTC; local-timestamp-… → without a zone

A union of null and one type is that type. Other unions become a struct with a field for each member that can be there,
named as in Avro's JSON encoding but without the namespace (int and long are one member: long; so are float and double;
not where a logical type gives one of them a meaning of its own); one field is set. Logical types that no table holds as
such (times of day, nanoseconds, durations) stay what is below them. A record without fields becomes a boolean: true
where it is there. One that holds itself has no columns: it is refused.

A top level that is no record is read as a record with one field, `value`: that has the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from tailrace.spark.errors import TableError
from tailrace.spark.tables import columns
from tailrace.spark.tables.values.packages import needed

PURPOSE: Final = "Avro values"

_PRIMITIVES: Final = {
    "null": pa.string(),  # a column that is always null has to have some type
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_TIMESTAMPS: Final = {
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}
_WIDER: Final = {"int": "long", "float": "double"}
_MAX_DIGITS: Final = 38
_TOP: Final = "tailrace_value"


@dataclass(frozen=True)
class AvroNode:
    """A type in a schema, with all that it refers to."""

    kind: str
    """Avro's name of the type; `union` only where it has several members that are not null."""
    type: pa.DataType
    """What its values become."""
    logical: str = ""
    name: str = ""
    """Of a record, enum or fixed: its full name."""
    fields: tuple[tuple[str, AvroNode], ...] = ()
    """Of a record; of a union: its members, under the names of the struct's fields."""
    written: tuple[AvroNode, ...] = ()
    """Of what is a union where it is written, also of null and one type: its members."""
    defaults: frozenset[str] = frozenset()
    """Fields of a record that a writer need not have."""
    other_names: frozenset[str] = frozenset()
    """Of a record, enum or fixed: under which a writer may have it."""
    field_aliases: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Other names of a record's fields."""
    items: AvroNode | None = None
    """Of an array or map."""
    symbols: tuple[str, ...] = ()
    has_default_symbol: bool = False
    size: int = 0
    is_nullable: bool = False


@dataclass(frozen=True)
class AvroSchema:
    """Picklable: a task makes the parsed schema of the text again."""

    text: str
    references: tuple[tuple[str, str], ...]
    top: AvroNode

    @property
    def fields(self) -> list[pa.Field]:
        return [pa.field(name, node.type) for name, node in self.top.fields]

    @property
    def has_tags(self) -> bool:
        """Whether the reader has to tell which member of a union it read."""
        return _has_tags(self.top)

    @property
    def tells_ints_from_longs(self) -> bool:
        """Whether a union has both: logical types of theirs."""
        return _tells_ints_from_longs(self.top)

    def parsed(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """As the library takes it, with the types that have names. Fresh: to be changed by who asks."""
        return _parsed(self.text, dict(self.references))


def avro_schema(
    text: str, references: tuple[tuple[str, str], ...] = (), *, whose: str = "the Avro schema"
) -> AvroSchema:
    """TableError where it is none, or has no columns."""
    fastavro = needed("fastavro", PURPOSE)
    try:
        parsed, named = _parsed(text, dict(references))
        top = _node(parsed, named, ())
    except RecursionError as error:
        raise TableError(f"{whose} is nested too deeply") from error
    except TableError as error:
        raise TableError(f"{whose}: {error}") from error
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
        raise TableError(f"{whose} is not one: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise TableError(f"{whose} is not one: {type(error).__name__}: {error}") from error
    return AvroSchema(text, references, top)


def _parsed(text: str, references: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    named: dict[str, Any] = {}
    content = _content(text)
    parsed = _parsed_with(content, named, references, set())
    if isinstance(parsed, str) and parsed in named:
        parsed = named[parsed]
    if not (isinstance(parsed, dict) and parsed.get("type") in ("record", "error")):
        top = {"type": "record", "name": _TOP, "fields": [{"name": columns.VALUE, "type": content}]}
        named = {}
        parsed = _parsed_with(top, named, references, set())
    return parsed, named


def _content(text: str) -> Any:
    text = text.strip()
    # Registries keep a lone primitive with or without its quotation marks.
    return text if text in _PRIMITIVES else json.loads(text)


def _parsed_with(content: Any, named: dict[str, Any], references: dict[str, str], under_way: set[str]) -> Any:
    """With the references it needs. A type that they need is known only when parsing stops at it."""
    schemas = needed("fastavro.schema", PURPOSE)
    while True:
        known = dict(named)
        try:
            parsed = schemas.parse_schema(content, named_schemas=known)
        except schemas.UnknownType as error:
            found = _reference(str(error.name), references)
            if found is None or found in under_way:
                raise TableError(f"type {error.name} is defined nowhere") from error
            _parsed_with(_content(references[found]), named, references, under_way | {found})
            if error.name not in named:
                raise TableError(f"type {error.name} is not in what is named {found}") from error
        else:
            named.update(known)
            return parsed


def _reference(name: str, references: dict[str, str]) -> str | None:
    if name in references:
        return name
    for key, text in references.items():
        try:
            content = json.loads(text)
        except ValueError:
            continue
        if not isinstance(content, dict):
            continue
        own, space = str(content.get("name", "")), content.get("namespace")
        if name in (own, f"{space}.{own}"):
            return key
    return None


def _node(schema: Any, named: dict[str, Any], inside: tuple[str, ...]) -> AvroNode:
    if isinstance(schema, list):
        return _union(schema, named, inside)
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return AvroNode(schema, _PRIMITIVES[schema])
        return _node(named[schema], named, inside)
    kind = schema["type"]
    if isinstance(kind, dict | list):
        return _node(kind, named, inside)
    if kind in ("record", "error"):
        return _record(schema, named, inside)
    if kind == "enum":
        symbols = tuple(schema["symbols"])
        return AvroNode(
            kind,
            pa.string(),
            name=schema["name"],
            other_names=frozenset(schema.get("aliases", ())),
            symbols=symbols,
            has_default_symbol="default" in schema,
        )
    if kind in ("array", "map"):
        return _repeated(kind, schema["items" if kind == "array" else "values"], named, inside)
    if kind == "fixed":
        made = _logical("fixed", schema)
        return made or AvroNode("fixed", pa.binary(), name=schema["name"], size=schema["size"])
    if kind in _PRIMITIVES:
        return _logical(kind, schema) or AvroNode(kind, _PRIMITIVES[kind])
    return _node(kind, named, inside)


def _logical(kind: str, schema: dict[str, Any]) -> AvroNode | None:
    """Of a type with a meaning of its own; None where tables do not hold that."""
    logical = schema.get("logicalType")
    name, size = schema.get("name", ""), schema.get("size", 0)
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if (
            isinstance(precision, int)
            and isinstance(scale, int)
            and 0 <= scale <= precision <= _MAX_DIGITS
            and precision
        ):
            return AvroNode(kind, pa.decimal128(precision, scale), logical, name=name, size=size)
    if logical == "date" and kind == "int":
        return AvroNode(kind, pa.date32(), logical)
    if logical in _TIMESTAMPS and kind == "long":
        return AvroNode(kind, _TIMESTAMPS[logical], logical)
    return None


def _record(schema: dict[str, Any], named: dict[str, Any], inside: tuple[str, ...]) -> AvroNode:
    name = schema["name"]
    if name in inside:
        raise TableError(f"record {name} holds itself: that has no columns. Read it as bytes")
    fields = [(one["name"], _node(one["type"], named, (*inside, name))) for one in schema["fields"]]
    return AvroNode(
        "record",
        pa.struct([pa.field(key, node.type) for key, node in fields]) if fields else pa.bool_(),
        name=name,
        fields=tuple(fields),
        defaults=frozenset(one["name"] for one in schema["fields"] if "default" in one),
        other_names=frozenset(schema.get("aliases", ())),
        field_aliases={one["name"]: frozenset(one["aliases"]) for one in schema["fields"] if one.get("aliases")},
    )


def _repeated(kind: str, of: Any, named: dict[str, Any], inside: tuple[str, ...]) -> AvroNode:
    items = _node(of, named, inside)
    if kind == "map":
        return AvroNode(kind, pa.map_(pa.string(), items.type), items=items)
    if least_bytes(items) == 0:
        # A few bytes could claim any number of them.
        raise TableError(f"an array of {items.name or items.kind} that takes no bytes cannot be read safely")
    return AvroNode(kind, pa.list_(items.type), items=items)


def least_bytes(node: AvroNode) -> int:
    """The fewest bytes that a value can have."""
    if node.written or node.kind in ("map", "array"):
        return 1
    if node.kind == "record":
        return sum(least_bytes(one) for _, one in node.fields)
    return {"null": 0, "fixed": node.size, "float": 4, "double": 8}.get(node.kind, 1)


def _union(members: list[Any], named: dict[str, Any], inside: tuple[str, ...]) -> AvroNode:
    if not members:
        raise TableError("a union without members")
    nodes = tuple(_node(one, named, inside) for one in members)
    has_null = any(one.kind == "null" for one in nodes)
    rest = [one for one in nodes if one.kind != "null"]
    # Also logical types that no table holds are meanings: milliseconds are not to be among microseconds.
    plain = {node.kind for node, one in zip(nodes, members, strict=True) if not _has_meaning(one)}
    for narrow, wide in _WIDER.items():
        if {narrow, wide} <= plain:
            # Read, they are the same: a number.
            rest = [
                AvroNode(wide, _PRIMITIVES[wide]) if one.kind == wide else one for one in rest if one.kind != narrow
            ]
    if not rest:
        return AvroNode("null", _PRIMITIVES["null"], written=nodes, is_nullable=True)
    if len(rest) == 1:
        return replace(rest[0], written=nodes, is_nullable=has_null)
    named_members = _member_names(rest)
    return AvroNode(
        "union",
        pa.struct([pa.field(name, one.type) for name, one in named_members]),
        fields=tuple(named_members),
        written=nodes,
        is_nullable=has_null,
    )


def _has_meaning(schema: Any) -> bool:
    return isinstance(schema, dict) and ("logicalType" in schema or _has_meaning(schema.get("type")))


def _member_names(members: list[AvroNode]) -> list[tuple[str, AvroNode]]:
    short = [(one.name or one.kind).rpartition(".")[2] for one in members]
    spelled = [name.lower() for name in short]
    return [
        (name if spelled.count(name.lower()) == 1 else one.name.replace(".", "_") or name, one)
        for name, one in zip(short, members, strict=True)
    ]


def _has_tags(node: AvroNode) -> bool:
    if node.kind == "union" and any(one.name for _, one in node.fields):
        return True
    return any(_has_tags(one) for _, one in node.fields) or (node.items is not None and _has_tags(node.items))


def _tells_ints_from_longs(node: AvroNode) -> bool:
    if node.kind == "union" and {"int", "long"} <= {one.kind for _, one in node.fields}:
        return True
    below = [one for _, one in node.fields] + ([] if node.items is None else [node.items])
    return any(map(_tells_ints_from_longs, below))
