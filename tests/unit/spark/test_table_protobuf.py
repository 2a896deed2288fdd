"""Protobuf values as columns: beside what the property test shows, files, well-known types, messages and refusals."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import message_factory

from tailrace.spark.errors import OptionError, SchemaMismatchError, TableError
from tailrace.spark.tables.values.framing import framed, path_bytes
from tailrace.spark.tables.values.plan import Decoded, ValuePlan
from tailrace.spark.tables.values.protobuf_schema import ProtobufSchema, schema_of_text
from tailrace.spark.tables.values.spec import ValueSpec

ORDERS = """
syntax = "proto3";
package shop;
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Order {
  int64 id = 1;
  google.protobuf.Timestamp at = 2;
  google.protobuf.StringValue note = 3;
  google.protobuf.Struct more = 4;
  uint64 big = 5;
  oneof paid { Cash cash = 6; string card = 7; }
  map<int32, Line> lines = 8;
  message Line { string sku = 1; }
  message Hint { message Deep { bool yes = 1; } }
}
message Cash {}
"""


@pytest.fixture(scope="module")
def orders() -> ProtobufSchema:
    return schema_of_text(ORDERS, whose="orders")


def _class(schema: ProtobufSchema, name: str) -> Any:
    return message_factory.GetMessageClass(schema.find(name))


def _rows(plan: ValuePlan, decoded: Decoded) -> list[dict[str, Any]]:
    names = [field.name for field in plan.fields]
    return [
        dict(zip(names, row, strict=True)) for row in zip(*(one.to_pylist() for one in decoded.columns), strict=True)
    ]


def test_well_known_types_and_presence(orders: ProtobufSchema) -> None:
    order = _class(orders, "shop.Order")
    full = order(id=1, at={"seconds": 1, "nanos": 1_999}, note={"value": ""}, big=2**64 - 1, cash={})
    full.more.update({"b": [1, None], "a": "é"})
    full.lines[7].sku = "seven"
    full.lines[-1].sku = "minus"
    late = order(at={"seconds": 2**40})
    odd = order(at={"seconds": 1, "nanos": -1})
    plan = pickle.loads(pickle.dumps(ValueSpec("protobuf", schema=ORDERS).plan(None, None)))
    values = [one.SerializeToString() for one in (full, order(card="x"), late, odd)]
    decoded = plan.decoder().decode(pa.array([*values, b"\x08", None], pa.binary()))
    assert decoded.bad.keys() == {2, 3, 4}
    assert "years 1 to 9999" in decoded.bad[2]
    rows = _rows(plan, decoded)
    at = dt.datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=dt.UTC)
    assert rows[0] == {
        "id": 1,
        "at": at,
        "note": "",
        "more": '{"a": "é", "b": [1.0, null]}',
        "big": Decimal(2**64 - 1),
        "cash": True,
        "card": None,
        "lines": [(-1, {"sku": "minus"}), (7, {"sku": "seven"})],
    }
    unset = {"at": None, "note": None, "more": None, "cash": None}
    assert rows[1] == {"id": 0, **unset, "big": Decimal(0), "card": "x", "lines": []}
    assert all(value is None for row in rows[2:] for value in row.values())


def test_messages_by_name_and_by_path(orders: ProtobufSchema) -> None:
    assert orders.message_names() == ["shop.Order", "shop.Cash"]
    paths = {(0,): "shop.Order", (1,): "shop.Cash", (0, 0): "shop.Order.Line", (0, 1, 0): "shop.Order.Hint.Deep"}
    assert {path: orders.message_name(path) for path in paths} == paths
    assert [orders.message_name(path) for path in ((), (2,), (0, 2), (1, 0), (2**31,))] == [None] * 5
    plan = ValueSpec("protobuf", schema=ORDERS, message="shop.Order.Line").plan(None, None)
    assert [field.name for field in plan.fields] == ["sku"]
    with pytest.raises(OptionError, match=r"shop\.Gone"):
        ValueSpec("protobuf", schema=ORDERS, message="shop.Gone").plan(None, None)


def test_a_file_with_imports_beside_it_and_its_descriptor_set(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "line.proto").write_text('syntax = "proto3"; message Line { string sku = 1; }')
    main = tmp_path / "order.proto"
    main.write_text('syntax = "proto3"; import "parts/line.proto"; message Order { repeated Line lines = 1; }')
    expected = [pa.field("lines", pa.list_(pa.struct([("sku", pa.string())])))]
    assert ValueSpec("protobuf", schema=str(main)).plan(None, None).fields == expected
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{tmp_path}", "--include_imports"]
    made = tmp_path / "order.desc"
    subprocess.run([*command, f"--descriptor_set_out={made}", "order.proto"], check=True)
    assert ValueSpec("protobuf", schema=str(made)).plan(None, None).fields == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('syntax = "proto3"; message Node { Node next = 1; }', "holds itself"),
        ('syntax = "proto3"; message Order { Gone x = 1; }', "Gone"),
        ('syntax = "proto3"; import "gone.proto"; message Order {}', r"gone\.proto"),
        ('syntax = "proto3"; enum K { A = 0; }', "no message"),
        ("{ this is not one }", "does not compile"),
    ],
)
def test_schemas_that_have_no_columns(text: str, reason: str) -> None:
    with pytest.raises(TableError, match=reason):
        ValueSpec("protobuf", schema=text).plan(None, None)


def test_files_that_are_no_schema(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="gone"):
        ValueSpec("protobuf", schema=str(tmp_path / "gone.proto")).plan(None, None)
    for content in (b"\xff\xff", b"", b"\x0a\x03\x0a\x01a"):
        (tmp_path / "some.desc").write_bytes(content)
        with pytest.raises(TableError, match=r"some\.desc"):
            ValueSpec("protobuf", schema=str(tmp_path / "some.desc")).plan(None, None)


@pytest.mark.parametrize("name", ["../up.proto", "/root.proto", "a/../../b.proto", ""])
def test_a_reference_stays_in_its_folder(name: str) -> None:
    with pytest.raises(TableError, match="not the path of an import"):
        schema_of_text('syntax = "proto3"; message A {}', [(name, "")], whose="it")


def test_required_fields_and_text_of_the_old_syntax() -> None:
    text = """syntax = "proto2";
    message Order { required int32 id = 1; optional string note = 2 [default = "d"]; optional K k = 3; }
    enum K { ONE = 1; TWO = 2; }"""
    plan = ValueSpec("protobuf", schema=text).plan(None, None)
    decoded = plan.decoder().decode(pa.array([b"\x08\x05\x18\x09", b"", b"\x08\x01\x12\x01\xff"], pa.binary()))
    assert decoded.bad.keys() == {1, 2}
    assert "required fields are missing: id" in decoded.bad[1]
    assert _rows(plan, decoded)[0] == {"id": 5, "note": None, "k": None}


def test_a_given_schema_reads_other_versions_by_number(tmp_path: Path) -> None:
    (tmp_path / "1.proto").write_text('syntax = "proto3"; message Order { int64 id = 1; string old = 2; }')
    (tmp_path / "2.proto").write_text(
        'syntax = "proto3"; message Order { int64 id = 1; string renamed = 2; bool new = 3; } message Other {}'
    )
    given = 'syntax = "proto3"; message Order { int64 id = 1; string name = 2; }'
    plan = ValueSpec("protobuf", schema=given, registry=str(tmp_path), framed=True).plan(None, None)
    value = b"\x08\x05\x12\x01x"
    values = pa.array(
        [framed(1, b"\x00" + value), framed(2, b"\x00" + value + b"\x18\x01"), framed(2, path_bytes((1,)))], pa.binary()
    )
    plan = plan.grown([plan.decoder().decode(values).discovered])
    decoded = plan.decoder().decode(values)
    assert _rows(plan, decoded)[:2] == [{"id": 5, "name": "x"}] * 2
    assert decoded.bad == {2: "a Other, not a Order"}


def test_another_message_of_a_known_schema_is_discovered(tmp_path: Path) -> None:
    (tmp_path / "1.proto").write_text('syntax = "proto3"; message A { int64 a = 1; } message B { string b = 1; }')
    plan = ValueSpec("protobuf", registry=str(tmp_path), framed=True).plan(None, None)
    first = pa.array([framed(1, b"\x00\x08\x01")], pa.binary())
    found = plan.decoder().decode(first).discovered
    assert (found.schema_ids, found.messages) == ({1}, {(1, (0,))})
    plan = plan.grown([found])
    assert [field.name for field in plan.fields] == ["a"]
    both = pa.array([framed(1, b"\x00\x08\x01"), framed(1, path_bytes((1,)) + b"\x0a\x01x")], pa.binary())
    found = plan.decoder().decode(both).discovered
    assert (found.schema_ids, found.messages) == (frozenset(), {(1, (1,))})
    assert found
    plan = plan.grown([found])
    decoded = plan.decoder().decode(both)
    assert _rows(plan, decoded) == [{"a": 1, "b": None}, {"a": None, "b": "x"}]


def test_a_message_that_the_table_cannot_take_stops_the_job(tmp_path: Path) -> None:
    (tmp_path / "1.proto").write_text('syntax = "proto3"; message A { int64 a = 1; } message B { string a = 1; }')
    plan = ValueSpec("protobuf", registry=str(tmp_path), framed=True).plan(None, None)
    values = pa.array([framed(1, b"\x00"), framed(1, path_bytes((1,)))], pa.binary())
    with pytest.raises(SchemaMismatchError, match="schema 1 of"):
        plan.grown([plan.decoder().decode(values).discovered])


def test_json_of_a_registry_with_a_reference(tmp_path: Path) -> None:
    line = {"type": "object", "properties": {"sku": {"type": "string"}}}
    order = {"type": "object", "properties": {"lines": {"type": "array", "items": {"$ref": "line.json"}}}}
    (tmp_path / "1.json").write_text(json.dumps(order))
    (tmp_path / "line.json").write_text(json.dumps(line))
    plan = ValueSpec("json", registry=str(tmp_path), framed=True).plan(None, None)
    values = pa.array(
        [framed(1, b'{"lines": [{"sku": "x"}]}'), framed(1, b'{"lines": 5}'), framed(1, b"{")], pa.binary()
    )
    plan = plan.grown([plan.decoder().decode(values).discovered])
    decoded = plan.decoder().decode(values)
    assert decoded.columns[0].to_pylist() == [[{"sku": "x"}], None, None]
    assert decoded.bad.keys() == {1, 2}
