"""Values of all five formats, nested, optional, evolved and broken, become the rows that a plain decoder says, or dead
letters: each broken one, with its bytes, and no other."""

from __future__ import annotations

import copy
import json
import pickle
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.tables import plain_avro, plain_protobuf
from support.tables.plain_protobuf import PlainField
from support.tables.tasks import reading_of
from tailrace.spark.tables import columns
from tailrace.spark.tables.tasks.rows import RowMaker
from tailrace.spark.tables.values.framing import framed, path_bytes
from tailrace.spark.tables.values.plan import ValuePlan
from tailrace.spark.tables.values.spec import ValueSpec

Plain = Callable[[bytes], dict[str, Any]]
Values = Sequence[bytes | None]


class BrokenError(Exception):
    """What the plain decoders here say of a value that is to be a dead letter."""


BROKEN = (BrokenError, plain_avro.BrokenError, plain_protobuf.BrokenError)


def _records(values: Values) -> pa.RecordBatch:
    count = len(values)
    stamps = pa.array(range(count), pa.int64()).cast(columns.TIMESTAMP_TYPE)
    given_columns = [
        pa.array(["t"] * count, pa.string()),
        pa.array([0] * count, pa.int32()),
        pa.array(range(count), pa.int64()),
        stamps,
        pa.array([b"k"] * count, pa.binary()),
        pa.array([None] * count, columns.HEADERS_TYPE),
        pa.array(values, pa.binary()),
    ]
    names = ["topic", "partition", "offset", "timestamp", "key", "headers", "value"]
    return pa.RecordBatch.from_arrays(given_columns, names)


def _check(plan: ValuePlan, values: Values, plain: Plain) -> None:
    records = _records(values)
    for _ in range(3):
        plan = pickle.loads(pickle.dumps(plan))
        made = RowMaker(reading_of(Path("root"), Path("place"), plan)).make(records)
        if not made.discovered:
            break
        plan = plan.grown([made.discovered])
    assert not made.discovered
    rows: dict[int, Any] = {}
    dead: dict[int, bytes] = {}
    for offset, value in enumerate(values):
        try:
            row = {} if value is None else plain(value)
            rows[offset] = {field.name: _shaped(row.get(field.name), field.type) for field in plan.fields}
        except BROKEN:
            assert value is not None
            dead[offset] = value
    found = {
        row[columns.OFFSET]: {field.name: row[field.name] for field in plan.fields} for row in made.good.to_pylist()
    }
    letters = {} if made.dead is None else {row[columns.OFFSET]: row for row in made.dead.to_pylist()}
    made.good.validate(full=True)
    assert {offset: letter[columns.VALUE] for offset, letter in letters.items()} == dead
    assert all(letter[columns.REASON] for letter in letters.values())
    # As texts: not a number is the same as itself there.
    assert {offset: repr(row) for offset, row in found.items()} == {offset: repr(row) for offset, row in rows.items()}


def _shaped(value: Any, to: pa.DataType) -> Any:
    """With the fields that other versions of a schema have: null."""
    if value is None:
        return None
    if pa.types.is_struct(to):
        return {field.name: _shaped(value.get(field.name), field.type) for field in to}
    if pa.types.is_list(to):
        return [_shaped(item, to.value_type) for item in value]
    if pa.types.is_map(to):
        return [(key, _shaped(item, to.item_type)) for key, item in value]
    return value


def _damaged(draw: Any, value: bytes) -> bytes | None:
    """Mostly as it is."""
    way = draw(st.sampled_from(["none", "none", "none", "null", "cut", "more", "other byte", "other"]))
    if way == "null":
        return None
    if way == "more":
        return value + draw(st.binary(min_size=1, max_size=3))
    if way == "other":
        return draw(st.binary(max_size=10))
    if way == "none" or not value:
        return value
    at = draw(st.integers(0, len(value) - 1))
    return value[:at] if way == "cut" else value[:at] + draw(st.binary(min_size=1, max_size=1)) + value[at + 1 :]


# ---------------------------------------------------------------------------------------------- bytes, string, JSON


@settings(max_examples=examples(60))
@given(st.lists(st.one_of(st.none(), st.binary(max_size=6), st.text(max_size=4).map(str.encode)), max_size=8))
def test_bytes_and_strings(values: list[bytes | None]) -> None:
    def plain_text(value: bytes) -> dict[str, Any]:
        try:
            return {"value": value.decode("utf-8")}
        except UnicodeDecodeError:
            raise BrokenError from None

    _check(ValueSpec("bytes").plan(None, None), values, lambda value: {"value": value})
    _check(ValueSpec("string").plan(None, None), values, plain_text)


_ORDERS = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "note": {"type": ["string", "null"]},
        "lines": {
            "type": "array",
            "items": {"type": "object", "properties": {"sku": {"type": "string"}, "price": {"type": "number"}}},
        },
    },
}
_EVOLVED_ORDERS = copy.deepcopy(_ORDERS)
_EVOLVED_ORDERS["properties"]["paid"] = {"type": "boolean"}  # type: ignore[index]
_EVOLVED_ORDERS["properties"]["lines"]["items"]["properties"]["count"] = {"type": "integer"}  # type: ignore[index]


def _plain_json(schema: dict[str, Any], value: Any) -> Any:
    """What a small part of JSON Schema says of a parsed value."""
    kind = schema["type"] if isinstance(schema["type"], str) else schema["type"][0]
    if value is None:
        return None
    fits = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}
    if not isinstance(value, fits[kind]) or (isinstance(value, bool) and kind != "boolean"):
        raise BrokenError
    if kind == "integer" and not -(2**63) <= value < 2**63:
        raise BrokenError
    if kind == "array":
        return [_plain_json(schema["items"], item) for item in value]
    if kind == "object":
        return {name: _plain_json(one, value.get(name)) for name, one in schema["properties"].items()}
    return float(value) if kind == "number" else value


def _plain_object(schema: dict[str, Any], value: bytes) -> dict[str, Any]:
    try:
        found = json.loads(value.decode("utf-8"), parse_constant=_refused)
    except ValueError:
        raise BrokenError from None
    if not isinstance(found, dict):
        raise BrokenError
    return dict(_plain_json(schema, found))


def _refused(_: str) -> Any:
    raise BrokenError


def _json_values(draw: Any) -> bytes:
    near = st.one_of(st.none(), st.booleans(), st.integers(-(2**64), 2**64), st.text("aé", max_size=3))
    number = st.one_of(near, st.floats(-1e9, 1e9))
    line = st.fixed_dictionaries({}, optional={"sku": st.text("sk", max_size=3), "price": number, "count": near})
    order = st.fixed_dictionaries(
        {"id": st.one_of(st.integers(0, 9), near)},
        optional={"note": near, "lines": st.lists(line, max_size=2), "paid": near, "else": near},
    )
    return json.dumps(draw(order)).encode()


@st.composite
def _json_topics(draw: Any) -> list[tuple[int, bytes] | None]:
    """Schema's id and value."""
    topic: list[tuple[int, bytes] | None] = []
    for _ in range(draw(st.integers(0, 6))):
        value = _damaged(draw, _json_values(draw))
        topic.append(None if value is None else (draw(st.sampled_from([1, 2])), value))
    return topic


@settings(max_examples=examples(80))
@given(_json_topics())
def test_json_of_a_schema_and_of_a_registry(topic: list[tuple[int, bytes] | None]) -> None:
    bare = [None if one is None else one[1] for one in topic]
    declared = ValueSpec("json", schema=json.dumps(_EVOLVED_ORDERS)).plan(None, None)
    _check(declared, bare, lambda value: _plain_object(_EVOLVED_ORDERS, value))
    schemas = {1: _ORDERS, 2: _EVOLVED_ORDERS}
    with tempfile.TemporaryDirectory() as folder:
        for identity, schema in schemas.items():
            (Path(folder) / f"{identity}.json").write_text(json.dumps(schema))
        plan = ValueSpec("json", registry=folder, framed=True).plan(None, None)
        _check(plan, _framed(topic), lambda value: _by_id(value, schemas, _plain_object))


def _framed(topic: Sequence[tuple[int, bytes] | None]) -> list[bytes | None]:
    """With one that has no frame, and one with an id that nobody knows."""
    return [*(None if one is None else framed(*one) for one in topic), b"\x00\x00\x01", framed(77, b"x")]


def _by_id(value: bytes, schemas: dict[int, Any], plain: Callable[[Any, bytes], dict[str, Any]]) -> dict[str, Any]:
    identity = int.from_bytes(value[1:5], "big")
    if value[:1] != b"\x00" or len(value) < 5 or identity not in schemas:
        raise BrokenError
    return plain(schemas[identity], value[5:])


# ------------------------------------------------------------------------------------------------------------- Avro


@st.composite
def _avro_topics(draw: Any) -> tuple[Any, list[bytes | None]]:
    schema = draw(plain_avro.records())
    return schema, [_damaged(draw, plain_avro.encoded(draw, schema)) for _ in range(draw(st.integers(0, 6)))]


@settings(max_examples=examples(250))
@given(_avro_topics())
def test_avro_of_a_schema(topic: tuple[Any, list[bytes | None]]) -> None:
    schema, values = topic
    plan = ValueSpec("avro", schema=json.dumps(schema)).plan(None, None)
    _check(plan, values, lambda value: plain_avro.decoded(schema, value))


def _evolved(draw: Any, schema: Any, added: str) -> Any:
    """Another version: with fewer fields, and more, here and below; with a narrower number."""
    later = copy.deepcopy(schema)
    later["fields"] = [field for field in later["fields"] if draw(st.integers(0, 3))]
    for field in later["fields"]:
        if field["type"] == "long":
            field["type"] = draw(st.sampled_from(["long", "int"]))
        elif isinstance(field["type"], dict) and field["type"]["type"] == "record":
            field["type"] = _evolved(draw, field["type"], added)
    later["fields"].append({"name": added, "type": draw(st.sampled_from(["string", ["null", "double"]]))})
    return later


@st.composite
def _evolved_avro_topics(draw: Any) -> tuple[dict[int, Any], list[tuple[int, bytes] | None]]:
    first = draw(plain_avro.records())
    second = _evolved(draw, first, "second")
    # The widest first: a table's column keeps its type.
    schemas = {3: first, 4: second, 5: _evolved(draw, first, "third")}
    topic: list[tuple[int, bytes] | None] = []
    for _ in range(draw(st.integers(0, 6))):
        identity = draw(st.sampled_from(list(schemas)))
        value = _damaged(draw, plain_avro.encoded(draw, schemas[identity]))
        topic.append(None if value is None else (identity, value))
    return schemas, topic


@settings(max_examples=examples(120))
@given(_evolved_avro_topics())
def test_avro_of_a_registry(topic: tuple[dict[int, Any], list[tuple[int, bytes] | None]]) -> None:
    schemas, values = topic
    with tempfile.TemporaryDirectory() as folder:
        for identity, schema in schemas.items():
            (Path(folder) / f"{identity}.avsc").write_text(json.dumps(schema))
        first = plain_first(schemas[3])
        plan = ValueSpec("avro", registry=folder, framed=True).plan(first, None)
        _check(plan, _framed(values), lambda value: _by_id(value, schemas, plain_avro.decoded))


def plain_first(schema: Any) -> list[pa.Field]:
    """The columns of a table that has the first version's values already."""
    return list(ValueSpec("avro", schema=json.dumps(schema)).plan(None, None).fields)


# --------------------------------------------------------------------------------------------------------- Protobuf


@st.composite
def _protobuf_topics(draw: Any) -> tuple[Any, list[bytes | None]]:
    message = draw(plain_protobuf.messages())
    return message, [_damaged(draw, plain_protobuf.encoded(draw, message)) for _ in range(draw(st.integers(0, 6)))]


@settings(max_examples=examples(250))
@given(_protobuf_topics())
@example(((PlainField(16, "enum", "map"),), [b"\x82\x01\x04\x20\0\x10\0", b"\x82\x01\x02\x10\1"]))
def test_protobuf_of_a_schema(topic: tuple[Any, list[bytes | None]]) -> None:
    message, values = topic
    with tempfile.TemporaryDirectory() as folder:
        described = Path(folder) / "messages.desc"
        described.write_bytes(plain_protobuf.descriptor_set(message))
        plan = ValueSpec("protobuf", schema=str(described)).plan(None, None)
    _check(plan, values, lambda value: plain_protobuf.decoded(message, value))


_LINE = (PlainField(1, "string"), PlainField(2, "double", "optional"))
_LATER_LINE = (*_LINE, PlainField(3, "int32", "repeated"))
_MESSAGES = {
    (1, (0,)): (PlainField(1, "int64"), PlainField(2, "message", "repeated", _LINE), PlainField(3, "string", "oneof")),
    (2, (0,)): (
        PlainField(1, "int64"),
        PlainField(2, "message", "repeated", _LATER_LINE),
        PlainField(4, "enum", "optional"),
        PlainField(5, "bytes", "map"),
    ),
    (2, (1,)): (PlainField(1, "int64"), PlainField(6, "bool")),
}
_FIRST_PROTO = """
syntax = "proto3";
message Order { int64 f1 = 1; repeated Line f2 = 2; oneof choice { string f3 = 3; } }
message Line { string f1 = 1; optional double f2 = 2; }
"""
_SECOND_PROTO = """
syntax = "proto3";
enum Kind { ZERO = 0; ONE = 1; TWO = 2; }
message Order {
  message Line { string f1 = 1; optional double f2 = 2; repeated int32 f3 = 3; }
  int64 f1 = 1; repeated Line f2 = 2; optional Kind f4 = 4; map<string, bytes> f5 = 5;
}
message Payment { int64 f1 = 1; bool f6 = 6; }
"""


@pytest.fixture(scope="module")
def protobuf_plan(tmp_path_factory: pytest.TempPathFactory) -> ValuePlan:
    """That has met all of them: compiling takes time."""
    folder = tmp_path_factory.mktemp("registry")
    (folder / "1.proto").write_text(_FIRST_PROTO)
    (folder / "2.proto").write_text(_SECOND_PROTO)
    plan = ValueSpec("protobuf", registry=str(folder), framed=True).plan(None, None)
    values = pa.array([framed(identity, path_bytes(path)) for identity, path in _MESSAGES], pa.binary())
    return plan.grown([plan.decoder().decode(values).discovered])


@st.composite
def _evolved_protobuf_topics(draw: Any) -> list[bytes | None]:
    topic: list[bytes | None] = [framed(77, b"\x00"), framed(2, path_bytes((2,))), b"\x00\x00"]
    for _ in range(draw(st.integers(0, 6))):
        identity, path = draw(st.sampled_from(list(_MESSAGES)))
        value = _damaged(draw, plain_protobuf.encoded(draw, _MESSAGES[identity, path]))
        topic.append(None if value is None else framed(identity, path_bytes(path) + value))
    return topic


@settings(max_examples=examples(120))
@given(values=_evolved_protobuf_topics())
def test_protobuf_of_a_registry(protobuf_plan: ValuePlan, values: list[bytes | None]) -> None:
    def plain(value: bytes) -> dict[str, Any]:
        if len(value) < 6:
            raise BrokenError
        identity = int.from_bytes(value[1:5], "big")
        for (schema, path), message in _MESSAGES.items():
            mark = path_bytes(path)
            if schema == identity and value[5:].startswith(mark):
                return plain_protobuf.decoded(message, value[5 + len(mark) :])
        raise BrokenError

    _check(protobuf_plan, values, plain)
