"""JSON Schema as columns.

    boolean, string             BOOLEAN, STRING. A `format` or a `contentEncoding` is left to the reader.
    integer, number             BIGINT, DOUBLE
    array                       ARRAY, of what `items` says
    object with properties      STRUCT. Those that are `required`, and cannot be null, are needed.
    object without them         MAP<STRING, …>, of what `additionalProperties` says
    [T, "null"], oneOf with null, enum, const, allOf of objects, $ref within the schema or to a reference

A schema that allows several types in one place, other than integers among numbers, has no column; nor has one that is
recursive. What restricts values beyond their types (`minimum`, `pattern`, …) is not checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NoReturn
from urllib.parse import unquote

import orjson
import pyarrow as pa
import pyarrow.types as kind

from tailrace.spark.errors import SchemaMismatchError

_DEEPEST: Final = 64
_SCALARS: Final = {
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "string": pa.string(),
    "null": pa.null(),
}


def fields_of_json_schema(text: str, references: Mapping[str, str] | None = None) -> list[pa.Field]:
    """The fields of an object. `references`: what a `$ref` outside the schema names → that schema's text.

    SchemaMismatchError for what is no JSON Schema, and for one that has no columns.
    """
    document = _Document(text, references or {})
    found = document.type_of(document.root, "", ())
    if not kind.is_struct(found):
        _fail("", "the schema is not of an object with properties")
    return list(found)


def _fail(path: str, reason: str) -> NoReturn:
    raise SchemaMismatchError(f"the JSON Schema has no columns at {path or 'its top'}: {reason}")


def _loaded(text: str, name: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise SchemaMismatchError(f"{name} is no JSON: {error}") from error


class _Document:
    """A schema and what it refers to. `within`: the references that lead to a place, by which a recursion is seen."""

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        self.root = _loaded(text, "the JSON Schema")
        self._references = references

    def type_of(self, node: Any, path: str, within: tuple[str, ...]) -> pa.DataType:
        """Null where it says nothing but null."""
        if len(within) > _DEEPEST or path.count(".") > _DEEPEST:
            _fail(path, f"it is nested deeper than {_DEEPEST}")
        if not isinstance(node, dict):
            _fail(path, f"{str(node)[:40]} says nothing about a type")
        if "$ref" in node:
            return self._referred(node["$ref"], path, within)
        for word in ("oneOf", "anyOf"):
            if word in node:
                choices = self._list(node[word], path, word)
                return self._one_of([self.type_of(each, path, within) for each in choices], path)
        if "allOf" in node:
            return self._all_of(node, path, within)
        return self._one_of([self._typed(name, node, path, within) for name in self._names(node, path)], path)

    def _names(self, node: dict[str, Any], path: str) -> list[str]:
        said = node.get("type")
        if said is None:
            return self._implied(node, path)
        names = said if isinstance(said, list) else [said]
        wrong = [name for name in names if name not in (*_SCALARS, "object", "array")]
        if wrong or not names:
            _fail(path, f"unknown type {wrong or said}")
        return names

    def _implied(self, node: dict[str, Any], path: str) -> list[str]:
        if "properties" in node or "additionalProperties" in node:
            return ["object"]
        if "items" in node:
            return ["array"]
        if "const" in node or "enum" in node:
            values = [node["const"]] if "const" in node else self._list(node["enum"], path, "enum")
            names = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
            found = [names.get(type(value)) for value in values]
            if None in found:
                _fail(path, "enum and const may have only numbers, strings, booleans and null here")
            return [name for name in dict.fromkeys(found) if name]
        return _fail(path, "it has no type")

    def _typed(self, name: str, node: dict[str, Any], path: str, within: tuple[str, ...]) -> pa.DataType:
        if name == "array":
            items = node.get("items")
            if items is None or isinstance(items, bool | list):
                _fail(path, "its items have no one type")
            return pa.list_(_or_text(self.type_of(items, f"{path}.element", within)))
        if name == "object":
            return self._object(node, path, within)
        return _SCALARS[name]

    def _object(self, node: dict[str, Any], path: str, within: tuple[str, ...]) -> pa.DataType:
        properties = node.get("properties")
        if not properties:
            others = node.get("additionalProperties")
            if not isinstance(others, dict) or not others:
                _fail(path, "an object needs properties, or additionalProperties with a schema")
            return pa.map_(pa.string(), _or_text(self.type_of(others, f"{path}.value", within)))
        if not isinstance(properties, dict):
            _fail(path, "properties is no object")
        needed = node.get("required", [])
        required = set(map(str, needed)) if isinstance(needed, list) else set()
        fields = []
        for name, each in properties.items():
            found = self.type_of(each, f"{path}.{name}" if path else name, within)
            is_needed = name in required and not self._may_be_null(each, within)
            fields.append(pa.field(name, _or_text(found), nullable=not is_needed))
        return pa.struct(fields)

    def _may_be_null(self, node: Any, within: tuple[str, ...]) -> bool:
        if "$ref" in node:
            target, inner, _ = self._resolved(node["$ref"], "", within)
            return inner._may_be_null(target, (*within, str(node["$ref"])))
        choices = node.get("oneOf") or node.get("anyOf")
        if choices:
            return any(self._may_be_null(each, within) for each in choices)
        values = [node["const"]] if "const" in node else node.get("enum")
        if node.get("type") is None:
            return values is not None and None in values
        return "null" in node["type"] if isinstance(node["type"], list) else node["type"] == "null"

    def _all_of(self, node: dict[str, Any], path: str, within: tuple[str, ...]) -> pa.DataType:
        parts = [self.type_of(each, path, within) for each in self._list(node["allOf"], path, "allOf")]
        if "type" in node or "properties" in node:
            own = {word: what for word, what in node.items() if word != "allOf"}
            if "properties" in own or own.get("type") != "object":
                parts.append(self.type_of(own, path, within))
        if len(parts) == 1:
            return parts[0]
        if not all(kind.is_struct(part) for part in parts):
            _fail(path, "allOf may join only objects with properties")
        fields: dict[str, pa.Field] = {}
        for field in (field for part in parts for field in part):
            there = fields.setdefault(field.name, field)
            if there.type != field.type:
                _fail(f"{path}.{field.name}" if path else field.name, "parts of allOf give it different types")
        return pa.struct(list(fields.values()))

    def _one_of(self, types: list[pa.DataType], path: str) -> pa.DataType:
        found: pa.DataType = pa.null()
        for one in types:
            if kind.is_null(found) or found == one:
                found = one
            elif {found, one} == {pa.int64(), pa.float64()}:
                found = pa.float64()
            elif not kind.is_null(one):
                _fail(path, f"it may be {found} or {one}; a column has one type")
        return found

    def _referred(self, reference: Any, path: str, within: tuple[str, ...]) -> pa.DataType:
        node, document, name = self._resolved(reference, path, within)
        return document.type_of(node, path, (*within, name))

    def _resolved(self, reference: Any, path: str, within: tuple[str, ...]) -> tuple[Any, _Document, str]:
        """The node, the schema it is in, and what it is called among references."""
        place, _, pointer = str(reference).partition("#")
        document = self
        if place:
            if place not in self._references:
                _fail(path, f"nothing is known of $ref {place}")
            document = _Document(self._references[place], self._references)
        name = f"{place or id(self.root)}#{pointer}"
        if name in within:
            _fail(path, f"$ref {reference} is recursive")
        node = document.root
        for step in pointer.split("/")[1:]:
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if not isinstance(node, dict) or key not in node:
                _fail(path, f"there is no {reference} in the schema")
            node = node[key]
        return node, document, name

    def _list(self, node: Any, path: str, word: str) -> list[Any]:
        if not isinstance(node, list) or not node:
            _fail(path, f"{word} is no list of schemas")
        return node


def _or_text(found: pa.DataType) -> pa.DataType:
    return pa.string() if kind.is_null(found) else found
