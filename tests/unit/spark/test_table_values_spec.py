"""How values are to be read, as the user says it; and where their fields stand in the table."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tailrace.spark.errors import OptionError, PipelineError, SchemaMismatchError
from tailrace.spark.tables.columns import append_schema, upsert_schema
from tailrace.spark.tables.values.layout import OWN_NAMES, FlatPlan, value_fields
from tailrace.spark.tables.values.spec import ValueSpec
from tailrace.spark.tables.values.type_names import shown


def _sample(*values: Any) -> Any:
    raw = pa.array([json.dumps(value).encode() for value in values], pa.binary())
    return lambda most: raw.slice(0, most)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"format": "xml"}, "there are bytes, string, json, avro, protobuf"),
        ({"format": "bytes", "schema": "a INT"}, "schema: of no use with format bytes"),
        ({"format": "string", "registry": "http://x", "framed": True}, "registry and framed: of no use"),
        ({"format": "json", "message": "M"}, "message: of no use with format json"),
        ({"format": "avro"}, "need a schema, or a registry"),
        ({"format": "protobuf"}, "need a schema, or a registry"),
        ({"format": "json", "framed": True}, "framed values need a registry"),
        ({"format": "json", "registry": "http://x"}, "only of use with framed values"),
        ({"format": "json", "column": "_Key"}, "the value column is '_Key'"),
        ({"format": "json", "column": ""}, "the value column is ''"),
        ({"format": "json", "infer_records": 0}, "not 0"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        ValueSpec(**given)


def test_settings_are_what_may_not_change() -> None:
    spec = ValueSpec("json", schema="a INT", column="v")
    assert spec.settings() == {"value": "json", "valueColumn": "v", "framed": "false", "schema": "declared"}
    assert "schema" not in ValueSpec("json").settings()
    assert spec.settings() == ValueSpec("json", schema="a INT, b INT", column="v", infer_records=5).settings()
    assert spec.settings() != ValueSpec("json", schema="a INT").settings()
    assert pickle.loads(pickle.dumps(spec)) == spec


@pytest.mark.parametrize("format_and_type", [("bytes", pa.binary()), ("string", pa.string())])
def test_bytes_and_string_are_one_column(format_and_type: tuple[str, pa.DataType]) -> None:
    name, wanted = format_and_type
    plan = ValueSpec(name).plan(None, None)
    assert plan.fields == [pa.field("value", wanted)]
    schema = append_schema(pa.binary(), list(plan.fields), ("_day",))
    assert ValueSpec(name).plan(schema, None).fields == plan.fields
    assert ValueSpec(name, column="text").plan(None, None).fields == [pa.field("text", wanted)]
    with pytest.raises(SchemaMismatchError, match=r"The table has: value"):
        ValueSpec(name, column="text").plan(schema, None)


def test_the_tables_own_columns_are_none_of_the_values() -> None:
    fields = [pa.field("a", pa.int32())]
    assert value_fields(append_schema(pa.binary(), fields, ("_day",))) == fields
    assert value_fields(upsert_schema(pa.string(), fields)) == fields
    assert {name.lower() for name in OWN_NAMES} == OWN_NAMES


def test_json_by_ddl_by_json_schema_and_from_files(tmp_path: Path) -> None:
    schema = json.dumps({"properties": {"a": {"type": "integer"}}})
    assert shown(ValueSpec("json", schema="a INT").plan(None, None).fields) == "a INT"
    assert shown(ValueSpec("json", schema=schema).plan(None, None).fields) == "a BIGINT"
    for text, meaning in (("a INT,\nb STRING", "a INT, b STRING"), (schema, "a BIGINT")):
        place = tmp_path / "a schema.txt"
        place.write_text(text)
        assert shown(ValueSpec("json", schema=str(place)).plan(None, None).fields) == meaning
    link = tmp_path / "schema.json"
    link.write_text(schema)
    assert shown(ValueSpec("json", schema=f"file:{link}").plan(None, None).fields) == "a BIGINT"


@pytest.mark.parametrize("schema", ["", " ", "nowhere/schema.json", "schema.ddl", "a\0b"])
def test_a_schema_that_is_nowhere(schema: str) -> None:
    with pytest.raises(OptionError):
        ValueSpec("json", schema=schema).plan(None, None)


def test_json_is_inferred_from_so_many_records_when_the_table_is_made() -> None:
    spec = ValueSpec("json", infer_records=2)
    sample = _sample({"a": 1}, {"b": "x"}, {"c": 1})
    plan = spec.plan(None, sample)
    assert shown(plan.fields) == "a BIGINT, b STRING"
    known = append_schema(pa.binary(), [pa.field("a", pa.float64())], ("_day",))
    assert shown(spec.plan(known, sample).fields) == "a DOUBLE"


def test_barred_characters_go_to_the_plan() -> None:
    plan = ValueSpec("json", barred=" ").plan([pa.field("a", pa.int64())], None)
    assert plan.decoder().decode(pa.array([b'{"b c": 1}'])).bad.keys() == {0}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("a INT, _KEY STRING", "field _KEY has no place beside the table's own column _key"),
        ("`_day` DATE", "own column _day"),
        ("_bucket INT", "With --value-column NAME all fields lie below one column"),
    ],
)
def test_declared_fields_that_collide_are_refused(schema: str, reason: str) -> None:
    with pytest.raises(SchemaMismatchError, match=reason):
        ValueSpec("json", schema=schema).plan(None, None)
    nested = ValueSpec("json", schema=schema, column="v").plan(None, None)
    assert [field.name for field in nested.fields] == ["v"]


def test_two_fields_that_differ_only_in_case_are_refused() -> None:
    class _Plan:
        fields = (pa.field("id", pa.int8()), pa.field("Id", pa.int8()))

    with pytest.raises(SchemaMismatchError, match="field Id has no place beside field id"):
        FlatPlan(_Plan())  # type: ignore[arg-type]


def test_values_below_one_column() -> None:
    spec = ValueSpec("json", column="v")
    plan = spec.plan(None, _sample({"_key": 1, "a": {"b": 2}}))
    assert shown(plan.fields) == "v STRUCT<_key: BIGINT, a: STRUCT<b: BIGINT>>"
    raw = pa.array([b'{"_key": 5}', None, b"{}", b"nope", b'{"a": 1}'])
    decoded = pickle.loads(pickle.dumps(plan)).decoder().decode(raw)
    assert decoded.bad.keys() == {3, 4}
    assert decoded.columns[0].to_pylist() == [{"_key": 5, "a": None}, None, {"_key": None, "a": None}, None, None]
    decoded.columns[0].validate(full=True)
    again = spec.plan(append_schema(pa.string(), list(plan.fields), ()), None)
    assert again.fields == plan.fields
    found = again.decoder().decode(pa.array([b'{"new": true}'])).discovered
    assert shown(again.grown([found]).fields) == "v STRUCT<_key: BIGINT, a: STRUCT<b: BIGINT>, new: BOOLEAN>"


def test_there_is_no_column_before_there_is_a_field() -> None:
    spec = ValueSpec("json", column="v")
    plan = spec.plan(None, _sample())
    assert not plan.fields
    decoded = plan.decoder().decode(pa.array([b'{"a": 1}', b"x"]))
    assert decoded.discovered
    assert shown(plan.grown([decoded.discovered]).fields) == "v STRUCT<a: BIGINT>"
    empty = plan.decoder().decode(pa.array([b"{}", b"x", None]))
    assert (list(empty.columns), empty.bad.keys()) == ([], {1})
    assert not spec.plan(append_schema(pa.string(), [], ()), None).fields


def test_a_table_that_has_its_values_elsewhere_is_refused() -> None:
    flat = [pa.field("a", pa.int64())]
    with pytest.raises(SchemaMismatchError, match="does not have its values below a column v: a BIGINT"):
        ValueSpec("json", column="v").plan(flat, None)


def test_without_the_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "orjson", None)
    with pytest.raises(PipelineError, match=r"pip install 'tailrace\[tables\]'"):
        ValueSpec("json").plan(None, None)
