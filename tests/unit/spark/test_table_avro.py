"""Avro values as columns: beside what the property test shows, what the library writes, evolution, and refusals."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from tailrace.spark.errors import OptionError, PipelineError, SchemaMismatchError, TableError
from tailrace.spark.tables.values.framing import framed
from tailrace.spark.tables.values.packages import needed
from tailrace.spark.tables.values.plan import Decoded, ValuePlan
from tailrace.spark.tables.values.spec import ValueSpec


def _record(*fields: Any, name: str = "shop.Order", **more: Any) -> dict[str, Any]:
    made = [field if isinstance(field, dict) else {"name": field[0], "type": field[1]} for field in fields]
    return {"type": "record", "name": name, "fields": made, **more}


def _written(schema: Any, *values: Any) -> pa.Array:
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    out = []
    for value in values:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, value)
        out.append(stream.getvalue())
    return pa.array(out, pa.binary())


def _plan(schema: Any, known: list[pa.Field] | None = None) -> ValuePlan:
    return ValueSpec("avro", schema=json.dumps(schema)).plan(known, None)


def _rows(plan: ValuePlan, decoded: Decoded) -> list[dict[str, Any]]:
    assert not decoded.bad
    names = [field.name for field in plan.fields]
    return [
        dict(zip(names, row, strict=True)) for row in zip(*(one.to_pylist() for one in decoded.columns), strict=True)
    ]


def test_what_the_library_writes_is_read() -> None:
    line = _record(
        ("sku", "string"), ("price", {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2})
    )
    schema = _record(
        ("id", "long"),
        ("at", {"type": "long", "logicalType": "timestamp-millis"}),
        ("day", ["null", {"type": "int", "logicalType": "date"}]),
        ("lines", {"type": "array", "items": {**line, "name": "Line"}}),
        ("kind", {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}),
        ("more", {"type": "map", "values": ["null", "Line"]}),
        ("either", ["null", "int", "string", "Line", {"type": "record", "name": "Nothing", "fields": []}]),
    )
    moment = dt.datetime(2026, 11, 16, 1, 2, 3, 4000, tzinfo=dt.UTC)
    one = {"sku": "x", "price": Decimal("12.34")}
    common = {
        "id": 1,
        "at": moment,
        "day": moment.date(),
        "lines": [one, one],
        "kind": "B",
        "more": {"a": None, "b": one},
    }
    plan = _plan(schema)
    values = _written(
        schema,
        {**common, "either": 5},
        {**common, "either": ("shop.Line", one)},
        {**common, "either": ("shop.Nothing", {})},
        {**common, "either": None},
    )
    rows = _rows(plan, plan.decoder().decode(values))
    shared = {**common, "more": [("a", None), ("b", one)]}
    nothing = {"int": None, "string": None, "Line": None, "Nothing": None}
    assert rows == [
        {**shared, "either": {**nothing, "int": 5}},
        {**shared, "either": {**nothing, "Line": one}},
        {**shared, "either": {**nothing, "Nothing": True}},
        {**shared, "either": None},
    ]


DATE = {"type": "int", "logicalType": "date"}
MOMENT = {"type": "long", "logicalType": "timestamp-millis"}
MILLIS = {"type": "int", "logicalType": "time-millis"}
MICROS = {"type": "long", "logicalType": "time-micros"}


@pytest.mark.parametrize(
    ("members", "first", "second"),
    [
        ((DATE, MOMENT), {"int": dt.date(1970, 1, 6)}, {"long": dt.datetime(1970, 1, 1, 0, 0, 0, 5000, tzinfo=dt.UTC)}),
        (("int", MOMENT), {"int": 5}, {"long": dt.datetime(1970, 1, 1, 0, 0, 0, 5000, tzinfo=dt.UTC)}),
        (("long", DATE), {"long": 5}, {"int": dt.date(1970, 1, 6)}),
        ((MILLIS, MICROS), {"int": 5}, {"long": 5}),
        (("int", "long"), 5, 5),
    ],
)
@pytest.mark.parametrize("is_resolved", [False, True])
def test_members_of_a_union_with_meanings_are_not_one_number(
    members: tuple[Any, Any], first: Any, second: Any, is_resolved: bool, tmp_path: Path
) -> None:
    schema = _record(("x", ["null", *members]))
    folder = str(_registry(tmp_path, id1=schema))
    spec = ValueSpec("avro", json.dumps(schema), registry=folder if is_resolved else None, framed=True)
    values = pa.array([framed(1, each) for each in (b"\x02\x0a", b"\x04\x0a", b"\x00")], pa.binary())
    plan = spec.plan(None, None)
    (column,) = (_grown(plan, values) if is_resolved else plan).decoder().decode(values).columns
    found = [{k: v for k, v in one.items() if v} if isinstance(one, dict) else one for one in column.to_pylist()]
    assert found == [first, second, None]


def test_ints_beside_longs_in_the_schema_that_is_given(tmp_path: Path) -> None:
    item = _record(("n", {"type": "int"}), ("x", DATE), ("many", {"type": "array", "items": ["int", "long"]}), name="I")
    written = _record(("one", item), ("two", "I"))
    both = [MOMENT, DATE]
    read = _record(("n", "double"), ("x", both), ("many", {"type": "array", "items": both}), name="I")
    late = {"name": "late", "type": list(reversed(both)), "default": 1}
    given = json.dumps(_record(("one", read), ("two", "I"), late))
    spec = ValueSpec("avro", given, registry=str(_registry(tmp_path, id1=written)), framed=True)
    values = pa.array([framed(1, b"\x06\x02\x04\x00\x02\x02\x02\x00" * 2)], pa.binary())
    columns = _grown(spec.plan(None, None), values).decoder().decode(values).columns
    one, two, default = (column.to_pylist()[0] for column in columns)
    day, moment = dt.date(1970, 1, 2), dt.datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=dt.UTC)
    many = [{"int": day, "long": None}, {"int": None, "long": moment}]
    assert one == two == {"n": 3.0, "x": {"int": day, "long": None}, "many": many}
    assert default == {"int": day, "long": None}


def test_a_top_level_that_is_no_record_is_one_column() -> None:
    plan = _plan({"type": "array", "items": "long"})
    assert [(field.name, field.type) for field in plan.fields] == [("value", pa.list_(pa.int64()))]
    values = _written({"type": "array", "items": "long"}, [1, 2], [])
    assert plan.decoder().decode(values).columns[0].to_pylist() == [[1, 2], []]
    assert _plan("string").fields[0].type == pa.string()


def test_a_schema_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(_record(("id", "long"))))
    assert ValueSpec("avro", schema=str(file)).plan(None, None).fields == [pa.field("id", pa.int64())]
    with pytest.raises(OptionError, match="gone"):
        ValueSpec("avro", schema=str(tmp_path / "gone")).plan(None, None)


def test_a_later_schema_adds_columns_and_what_it_left_out_is_null() -> None:
    known = list(_plan(_record(("id", "long"), ("old", "string"))).fields)
    later = _record(("id", "int"), ("new", ["null", "double"]))
    plan = _plan(later, known)
    assert [field.name for field in plan.fields] == ["id", "old", "new"]
    rows = _rows(plan, plan.decoder().decode(_written(later, {"id": 3, "new": 0.5})))
    assert rows == [{"id": 3, "old": None, "new": 0.5}]


def test_a_schema_that_the_table_cannot_take() -> None:
    known = list(_plan(_record(("id", "int"))).fields)
    with pytest.raises(SchemaMismatchError, match=r"(?s)id.*BIGINT.*INT"):
        _plan(_record(("id", "long")), known)


@pytest.mark.parametrize(
    "schema",
    [
        _record(("next", ["null", "Order"]), name="Order"),
        _record(("many", {"type": "array", "items": "null"})),
        _record(("many", {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}})),
        _record(("many", {"type": "array", "items": _record(name="Empty")})),
        _record(("what", "Unknown")),
        {"type": "enum", "name": "E"},
        {},
        [],
        5,
        {"type": "record", "name": "R", "fields": 5},
        {"type": 5},
    ],
)
def test_schemas_that_have_no_columns(schema: Any) -> None:
    with pytest.raises(TableError):
        ValueSpec("avro", schema=json.dumps(_record(("x", schema), name="Top"))).plan(None, None)


def test_text_that_is_no_schema_and_one_that_is_too_deep() -> None:
    with pytest.raises(TableError, match="Avro schema"):
        ValueSpec("avro", schema="{no JSON").plan(None, None)
    with pytest.raises(TableError):
        ValueSpec("avro", schema='{"type":"array","items":' * 5000 + '"int"' + "}" * 5000).plan(None, None)


def test_times_and_decimals_that_no_table_holds_are_bad_values_alone() -> None:
    schema = _record(("at", {"type": "long", "logicalType": "timestamp-micros"}))
    raw = _record(("at", "long"))
    good = 1_700_000_000_000_000
    values = _written(raw, *({"at": number} for number in (good, 2**62, good, -(2**62), 253402300800000000)))
    decoded = _plan(schema).decoder().decode(values)
    assert decoded.bad.keys() == {1, 3, 4}
    assert "years 1 to 9999" in decoded.bad[1]
    assert [value is None for value in decoded.columns[0].to_pylist()] == [False, True, False, True, True]


def _registry(folder: Path, **schemas: Any) -> Path:
    for name, schema in schemas.items():
        (folder / f"{name.removeprefix('id')}.avsc").write_text(json.dumps(schema))
    return folder


def _grown(plan: ValuePlan, values: pa.Array) -> ValuePlan:
    return plan.grown([plan.decoder().decode(values).discovered])


def _marked(identity: int, values: pa.Array) -> list[bytes]:
    return [framed(identity, value) for value in values.to_pylist()]


def test_writers_are_read_as_the_schema_that_is_given(tmp_path: Path) -> None:
    first = _record(("id", "int"), ("name", "string"), ("gone", "long"))
    second = _record(("id", "long"), ("title", "string"))
    folder = _registry(tmp_path, id1=first, id2=second)
    given = _record(
        ("id", "long"),
        {"name": "title", "type": "string", "aliases": ["name"]},
        {"name": "added", "type": ["string", "null"], "default": "none"},
        {"name": "either", "type": ["int", {"type": "record", "name": "X", "fields": []}], "default": 7},
    )
    spec = ValueSpec("avro", schema=json.dumps(given), registry=str(folder), framed=True)
    plan = spec.plan(None, None)
    values = pa.array(
        [
            *_marked(1, _written(first, {"id": 1, "name": "a", "gone": 5})),
            *_marked(2, _written(second, {"id": 2, "title": "b"})),
            framed(2, b"\x04"),
        ],
        pa.binary(),
    )
    decoded = _grown(plan, values).decoder().decode(values)
    assert decoded.bad.keys() == {2}
    rows = list(zip(*(one.to_pylist() for one in decoded.columns), strict=True))
    either = {"int": 7, "X": None}
    assert rows == [(1, "a", "none", either), (2, "b", "none", either), (None,) * 4]


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (_record(("id", "string")), "id is string"),
        (_record(("other", "long")), "id is not written"),
        (_record(("id", ["null", "long"])), "id is null"),
        (_record(("id", "long"), name="shop.Payment"), "Payment"),
        (_record(("id", "long"), ("at", {"type": "long", "logicalType": "timestamp-millis"})), "timestamp-millis"),
        (_record(("id", "long"), ("kind", {"type": "enum", "name": "K", "symbols": ["A", "C"]})), "may be C"),
    ],
)
def test_a_writer_that_cannot_be_read_as_the_schema_stops_the_job(tmp_path: Path, written: Any, reason: str) -> None:
    given = _record(
        ("id", "long"),
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}, "default": 0},
        {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "B"]}, "default": "A"},
    )
    spec = ValueSpec("avro", schema=json.dumps(given), registry=str(_registry(tmp_path, id1=written)), framed=True)
    with pytest.raises(SchemaMismatchError, match=reason) as raised:
        _grown(spec.plan(None, None), pa.array([framed(1, b"")], pa.binary()))
    assert "Written: " in str(raised.value)
    assert "Declared: " in str(raised.value)


def test_a_schema_of_the_registry_that_the_table_cannot_take_stops_the_job(tmp_path: Path) -> None:
    folder = _registry(tmp_path, id1=_record(("id", "int")), id2=_record(("id", "string")))
    plan = ValueSpec("avro", registry=str(folder), framed=True).plan(None, None)
    with pytest.raises(SchemaMismatchError, match="schema 2 of"):
        _grown(plan, pa.array([framed(1, b"\x02"), framed(2, b"\x00")], pa.binary()))


def test_references_between_schemas_of_a_folder(tmp_path: Path) -> None:
    line = _record(("sku", "string"), ("unit", "shop.Unit"), name="shop.Line")
    unit = {"type": "enum", "name": "Unit", "namespace": "shop", "symbols": ["KG", "PIECE"]}
    folder = _registry(tmp_path, id1=_record(("lines", {"type": "array", "items": "shop.Line"}), ("main", "shop.Line")))
    (folder / "shop.Line.avsc").write_text(json.dumps(line))
    (folder / "units.avsc").write_text(json.dumps(unit))
    plan = ValueSpec("avro", registry=str(folder), framed=True).plan(None, None)
    values = pa.array([framed(1, b"\x02\x02a\x02\x00\x02b\x00")], pa.binary())
    decoded = _grown(plan, values).decoder().decode(values)
    assert not decoded.bad
    assert decoded.columns[0].to_pylist() == [[{"sku": "a", "unit": "PIECE"}]]
    assert decoded.columns[1].to_pylist() == [{"sku": "b", "unit": "KG"}]


def test_a_value_cannot_claim_more_than_it_has() -> None:
    plan = _plan(_record(("many", {"type": "array", "items": "boolean"}), ("text", "string")))
    huge = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    decoded = plan.decoder().decode(pa.array([huge + b"\x01" * 20, b"\x00" + huge + b"x"], pa.binary()))
    assert decoded.bad.keys() == {0, 1}


def test_a_framed_schema_without_a_registry_passes_over_the_id() -> None:
    schema = _record(("id", "long"))
    plan = ValueSpec("avro", schema=json.dumps(schema), framed=True).plan(None, None)
    decoded = plan.decoder().decode(pa.array([framed(5, b"\x02"), b"\x02", None], pa.binary()))
    assert decoded.columns[0].to_pylist() == [1, None, None]
    assert decoded.bad.keys() == {1}


def test_more_values_than_are_read_at_a_time() -> None:
    schema = _record(("id", "long"))
    raw = _written(schema, *({"id": number} for number in range(5000))).to_pylist()
    raw[3000] = b""
    raw[4999] = None
    decoded = _plan(schema).decoder().decode(pa.array(raw, pa.binary()))
    assert decoded.bad.keys() == {3000}
    gone = {3000, 4999}
    assert decoded.columns[0].to_pylist() == [None if number in gone else number for number in range(5000)]


def test_values_without_columns_and_no_values() -> None:
    decoded = _plan(_record()).decoder().decode(pa.array([b"", b"x", None], pa.binary()))
    assert (list(decoded.columns), decoded.bad.keys()) == ([], {1})
    decoded = _plan(_record(("id", "long"))).decoder().decode(pa.array([], pa.binary()))
    assert [len(column) for column in decoded.columns] == [0]


def test_a_missing_package_says_what_to_install() -> None:
    with pytest.raises(PipelineError, match=r"pip install 'tailrace\[tables\]'"):
        needed("tailrace_has_no_such_package.inner", "Avro values")
