"""JSON Schema as columns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tailrace.spark.errors import SchemaMismatchError
from tailrace.spark.tables.values.json_schema import fields_of_json_schema
from tailrace.spark.tables.values.type_names import shown


def _shown(properties: dict[str, Any], **more: Any) -> str:
    return shown(fields_of_json_schema(json.dumps({"type": "object", "properties": properties, **more})))


@pytest.mark.parametrize(
    ("node", "meaning"),
    [
        ({"type": "integer"}, "BIGINT"),
        ({"type": "number"}, "DOUBLE"),
        ({"type": "string", "format": "date-time"}, "STRING"),
        ({"type": "boolean"}, "BOOLEAN"),
        ({"type": "null"}, "STRING"),
        ({"type": ["null", "integer"]}, "BIGINT"),
        ({"type": ["integer", "number"]}, "DOUBLE"),
        ({"oneOf": [{"type": "null"}, {"type": "string"}]}, "STRING"),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, "DOUBLE"),
        ({"enum": ["a", "b", None]}, "STRING"),
        ({"const": 5}, "BIGINT"),
        ({"type": "array", "items": {"type": "integer"}}, "ARRAY<BIGINT>"),
        ({"items": {"type": "array", "items": {"type": "null"}}}, "ARRAY<ARRAY<STRING>>"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "MAP<STRING, BIGINT>"),
        (
            {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]},
            "STRUCT<a: STRING NOT NULL, b: BIGINT>",
        ),
        (
            {"allOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"type": "integer"}}}]},
            "STRUCT<a: STRING, b: BIGINT>",
        ),
        (
            {"type": "object", "properties": {"c": {"type": "boolean"}}, "allOf": [{"$ref": "#/$defs/point"}]},
            "STRUCT<x: DOUBLE NOT NULL, c: BOOLEAN>",
        ),
        ({"$ref": "#/$defs/point"}, "STRUCT<x: DOUBLE NOT NULL>"),
        ({"$ref": "#/$defs/a~1b%20c"}, "STRING"),
        ({"allOf": [{"$ref": "#/$defs/point"}]}, "STRUCT<x: DOUBLE NOT NULL>"),
    ],
)
def test_nodes_have_types(node: dict[str, Any], meaning: str) -> None:
    defs = {
        "point": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
        "a/b c": {"type": "string"},
    }
    assert _shown({"f": node}, **{"$defs": defs}) == f"f {meaning}"


@pytest.mark.parametrize(
    ("node", "is_needed"),
    [
        ({"type": "string"}, True),
        ({"type": ["string", "null"]}, False),
        ({"oneOf": [{"type": "null"}, {"type": "string"}]}, False),
        ({"anyOf": [{"type": "string"}]}, True),
        ({"enum": ["a", None]}, False),
        ({"enum": ["a"]}, True),
        ({"$ref": "#/$defs/maybe"}, False),
        ({"$ref": "#/$defs/surely"}, True),
    ],
)
def test_a_required_field_is_needed_unless_null_is_a_value(node: dict[str, Any], is_needed: bool) -> None:
    defs = {"maybe": {"type": ["null", "integer"]}, "surely": {"type": "integer"}}
    text = json.dumps({"properties": {"f": node}, "required": ["f"], "$defs": defs})
    assert fields_of_json_schema(text)[0].nullable is not is_needed


def test_references_to_other_schemas() -> None:
    money = {
        "type": "object",
        "properties": {"amount": {"$ref": "#/definitions/n"}},
        "definitions": {"n": {"type": "integer"}},
    }
    text = json.dumps({"properties": {"price": {"$ref": "money.json"}, "n": {"$ref": "money.json#/definitions/n"}}})
    assert (
        shown(fields_of_json_schema(text, {"money.json": json.dumps(money)}))
        == "price STRUCT<amount: BIGINT>, n BIGINT"
    )
    with pytest.raises(SchemaMismatchError, match=r"price: nothing is known of \$ref money\.json"):
        fields_of_json_schema(text)


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ({"type": ["string", "integer"]}, "a column has one type"),
        ({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}, "a column has one type"),
        ({"type": "thing"}, "unknown type"),
        ({"type": []}, "unknown type"),
        ({"type": [["a"]]}, "unknown type"),
        ({"type": {"a": 1}}, "unknown type"),
        ({}, "it has no type"),
        (True, "says nothing about a type"),
        ({"type": "array"}, "its items have no one type"),
        ({"type": "array", "items": [{"type": "string"}]}, "its items have no one type"),
        ({"type": "object"}, "an object needs properties"),
        ({"type": "object", "properties": 5}, "properties is no object"),
        ({"enum": [[1]]}, "enum and const"),
        ({"enum": 5}, "enum is no list"),
        ({"oneOf": []}, "oneOf is no list"),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "allOf may join only objects"),
        (
            {"allOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"a": {"type": "integer"}}}]},
            "f.a: parts of allOf give it different types",
        ),
        ({"$ref": "#/$defs/nowhere"}, "there is no #"),
        ({"$ref": "#/properties/f"}, "is recursive"),
        ({"properties": {"next": {"$ref": "#"}}}, "is recursive"),
        ({"$ref": 5}, "nothing is known of"),
    ],
)
def test_what_has_no_columns_is_refused_with_its_place(node: Any, reason: str) -> None:
    with pytest.raises(SchemaMismatchError, match=reason) as raised:
        _shown({"f": node})
    assert "at f" in str(raised.value)


def test_recursion_through_required_fields_ends() -> None:
    node = {
        "properties": {"a": {"$ref": "#/$defs/loop"}},
        "required": ["a"],
        "$defs": {"loop": {"$ref": "#/$defs/loop"}},
    }
    with pytest.raises(SchemaMismatchError, match="recursive"):
        fields_of_json_schema(json.dumps(node))


def test_deep_nesting_is_refused() -> None:
    node: dict[str, Any] = {"type": "string"}
    for _ in range(100):
        node = {"type": "array", "items": node}
    with pytest.raises(SchemaMismatchError, match="nested deeper than 64"):
        _shown({"f": node})


@pytest.mark.parametrize("text", ["{", "[]", "5", '{"type": "string"}', '{"type": "object", "properties": {}}'])
def test_what_is_no_schema_of_an_object_is_refused(text: str) -> None:
    with pytest.raises(SchemaMismatchError):
        fields_of_json_schema(text)
