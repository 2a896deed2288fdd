"""JSON without a schema: what is inferred, what is discovered, and that nothing of a value is lost."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
import pyarrow.types as kind
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from tailrace.spark.errors import SchemaMismatchError
from tailrace.spark.tables.values.json import JsonPlan, inferred_json
from tailrace.spark.tables.values.json_inference import inferred, joined, widened
from tailrace.spark.tables.values.places import MOST_FIELDS, leaves
from tailrace.spark.tables.values.plan import Decoded
from tailrace.spark.tables.values.type_names import shown

OWN = frozenset({"_key", "_offset"})


def _raw(*values: Any) -> pa.Array:
    return pa.array(
        [value if value is None or isinstance(value, bytes) else json.dumps(value).encode() for value in values],
        pa.binary(),
    )


def _plan(*sample: Any, barred: str = "") -> JsonPlan:
    return inferred_json(None, lambda: _raw(*sample), OWN, barred)


def _decoded(plan: JsonPlan, *values: Any) -> Decoded:
    return pickle.loads(pickle.dumps(plan)).decoder().decode(_raw(*values))


@pytest.mark.parametrize(
    ("values", "meaning"),
    [
        ([1, None, 2], "BIGINT"),
        ([1, 2.5], "DOUBLE"),
        ([2**63], "DOUBLE"),
        ([1, "a"], "STRING"),
        ([1.5, "a"], "STRING"),
        ([True, False], "BOOLEAN"),
        ([True, 1], "STRING"),
        ([None], "STRING"),
        (["2026-11-16T00:00:00Z"], "STRING"),
        ([[1], [2.5, None]], "ARRAY<DOUBLE>"),
        ([[]], "ARRAY<STRING>"),
        ([[{}]], "ARRAY<STRING>"),
        ([[1], 1], "STRING"),
        ([{"a": 1}, {"b": [{"c": None}]}], "STRUCT<a: BIGINT, b: ARRAY<STRUCT<c: STRING>>>"),
        ([{"a": 1}, {"a": "x"}], "STRUCT<a: STRING>"),
        ([{"a": 1}, [1]], "STRING"),
    ],
)
def test_columns_of_a_sample(values: list[Any], meaning: str) -> None:
    plan = _plan(*({"f": value} for value in values))
    assert shown(plan.fields) == f"f {meaning}"


def test_a_sample_without_objects_has_no_columns() -> None:
    assert not _plan(b"nope", 5, None, {}, {"e": {}}).fields
    assert not inferred_json(None, None).fields
    decoded = _decoded(_plan(), None, {}, b"5")
    assert not decoded.columns
    assert decoded.bad.keys() == {2}


def test_integers_of_any_length_stay_as_they_are_in_text() -> None:
    large, small, one = 2**64 + 1, -(2**63) - 1, 10**300 + 1
    rows = [{"f": "a"}, {"f": large}, {"f": [True, {"x": small}]}, {"f": 1e30}, {"f": [one, 2.5]}]
    decoded = _decoded(_plan(*rows), *rows)
    texts = decoded.columns[0].to_pylist()
    assert texts[1:3] == [str(large), f'[true,{{"x":{small}}}]']
    assert [json.loads(text) for text in texts[3:]] == [1e30, [one, 2.5]]


def test_a_string_column_takes_anything_as_text() -> None:
    decoded = _decoded(
        _plan({"f": None}), {"f": "x"}, {"f": 1}, {"f": 1.5}, {"f": {"a": [True, None]}}, {"f": None}, {}
    )
    assert not decoded.bad
    assert not decoded.discovered
    assert decoded.columns[0].to_pylist() == ["x", "1", "1.5", '{"a":[true,null]}', None, None]


def test_other_columns_take_only_their_own() -> None:
    decoded = _decoded(_plan({"n": 1, "b": True}), {"n": 1.5}, {"n": "1"}, {"b": 1}, {"n": 2**63}, {"n": 3})
    assert decoded.bad.keys() == {0, 1, 2, 3}


def test_unknown_fields_are_discovered_at_any_depth() -> None:
    plan = _plan({"a": {"l": [{"x": 1}]}})
    value = {"a": {"l": [{"x": 2, "y": "t"}], "z": True}, "n": {"m": 1.5}}
    decoded = _decoded(plan, {"a": None}, value, {"n": {"m": 2}})
    assert decoded.discovered.fields == {
        "a": pa.struct([("z", pa.bool_()), ("l", pa.list_(pa.struct([("y", pa.string())])))]),
        "n": pa.struct([("m", pa.float64())]),
    }
    grown = plan.grown([decoded.discovered])
    assert shown(grown.fields) == ("a STRUCT<l: ARRAY<STRUCT<x: BIGINT, y: STRING>>, z: BOOLEAN>, n STRUCT<m: DOUBLE>")
    again = _decoded(grown, value)
    assert not again.discovered
    assert {field.name: column[0].as_py() for field, column in zip(grown.fields, again.columns, strict=True)} == value


def test_what_tasks_found_is_put_together() -> None:
    plan = _plan({"a": 1})
    found = [_decoded(plan, {"n": 1}).discovered, _decoded(plan, {"n": 1.5, "m": 1}).discovered]
    assert shown(plan.grown(found).fields) == "a BIGINT, n DOUBLE, m BIGINT"
    found.append(_decoded(plan, {"n": [1]}).discovered)
    assert shown(plan.grown(found).fields) == "a BIGINT, n STRING, m BIGINT"


def test_nulls_and_empty_things_discover_nothing() -> None:
    decoded = _decoded(_plan({"a": 1}), {"a": 1, "n": None, "e": {}, "l": [], "s": {"x": None}, "ll": [[], None]})
    assert not decoded.discovered
    assert not decoded.bad


def test_a_bad_value_discovers_nothing() -> None:
    decoded = _decoded(_plan({"a": 1}), {"a": "x", "n": 1})
    assert not decoded.discovered
    assert decoded.bad.keys() == {0}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"_key": 1}, "the name of a column of the table's own; --value-column NAME"),
        ({"_KEY": 1}, "the name of a column of the table's own"),
        ({"A": 1}, "field A has no place beside a field of nearly the same name"),
        ({"s": {"X": 1}}, "field s.X has no place"),
        ({"s.x": 1}, "field s.x has no place"),
        ({"": 1}, "an empty name"),
        ({"n": {"": 1}}, "an empty name"),
        ({"n": [{"x": 1, "X": 1}]}, "names differ only in case: X, x"),
        ({"b\n": 1}, "which the table does not take"),
        ({"b;c": 1}, "which the table does not take"),
        ({"n": {"b;c": 1}}, "which the table does not take"),
        ({"n" * 256: 1}, "more than 255 bytes"),
        (b'{"n":' + b"[" * 100 + b"1" + b"]" * 100 + b"}", "nested deeper than 32"),
    ],
)
def test_a_value_with_an_unknown_field_that_can_be_no_column_is_bad(value: Any, reason: str) -> None:
    plan = _plan({"a": 1, "s": {"x": 1}}, barred=";")
    decoded = _decoded(plan, {"a": 5}, value)
    assert decoded.bad.keys() == {1}
    assert reason in decoded.bad[1]
    assert not decoded.discovered
    assert decoded.columns[0].to_pylist() == [5, None]


def test_columns_that_two_tasks_spell_differently_do_not_meet() -> None:
    plan = _plan({"a": 1})
    grown = plan.grown([_decoded(plan, {"id": 1}).discovered, _decoded(plan, {"ID": 1, "id.x": 1}).discovered])
    assert shown(grown.fields) == "a BIGINT, id BIGINT, id.x BIGINT"
    assert _decoded(grown, {"id": 1}, {"ID": 2}).bad.keys() == {1}


def test_names_that_are_data_do_not_become_columns_without_end() -> None:
    plan = _plan({"a": 1})
    for _ in range(5):
        found = [_decoded(plan, *({f"id{task}-{row}": 1} for row in range(300))).discovered for task in range(7)]
        plan = plan.grown(found)
    assert sum(leaves(field.type) for field in plan.fields) == MOST_FIELDS
    decoded = _decoded(plan, {"a": 1}, {"another": 1})
    assert not decoded.discovered
    assert decoded.bad == {1: f"field another is unknown, and the table has {MOST_FIELDS} fields already"}


def test_a_sample_that_cannot_be_columns_is_refused() -> None:
    with pytest.raises(SchemaMismatchError, match=r"own columns: _Key\. With --value-column NAME"):
        _plan({"_Key": 1})
    with pytest.raises(SchemaMismatchError, match="declare a schema"):
        _plan({str(number): 1 for number in range(MOST_FIELDS + 1)})


def test_the_columns_of_a_table_are_taken_as_they_are() -> None:
    known = [pa.field("t", pa.large_string()), pa.field("l", pa.list_(pa.int32())), pa.field("d", pa.decimal128(5, 2))]
    plan = inferred_json(known, None, OWN)
    decoded = _decoded(plan, b'{"t": 5, "l": [1], "d": 1.10}', {"l": [2**31]}, {"d": 1.125})
    assert decoded.bad.keys() == {1, 2}
    assert [column[0].as_py() for column in decoded.columns[:2]] == ["5", [1]]
    assert str(decoded.columns[2][0]) == "1.10"
    large = _decoded(plan, b'{"t": {"n": 123456789012345678901234567890}}')
    assert large.columns[0].to_pylist() == ['{"n":123456789012345678901234567890}']
    assert [column.type for column in decoded.columns] == [field.type for field in known]
    with pytest.raises(SchemaMismatchError, match="JSON cannot be read as u"):
        inferred_json([pa.field("u", pa.uint8())], None)


NAMES = st.sampled_from(["a", "A", "b", "c", "b.c", "", "_key"])
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**64), 2**64),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=3),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)
SCALARS = st.one_of(st.none(), VALUES)


@given(st.lists(SCALARS, max_size=6), st.lists(SCALARS, max_size=6))
def test_what_holds_two_parts_holds_the_whole(one: list[Any], other: list[Any]) -> None:
    def named(found: pa.DataType) -> Any:
        """Without the order of fields."""
        if kind.is_struct(found):
            return {field.name: named(field.type) for field in found}
        return [named(found.value_type)] if kind.is_list(found) else found

    assert named(inferred(one + other)) == named(widened(inferred(one), inferred(other)))


def _same(value: Any, read: Any, column: pa.DataType | None) -> bool:
    """Whether a column's value is all that the JSON value said. Without a column, it may have said nothing."""
    if column is None or value is None:
        return read is None and (value in (None, {}, []) or _says_nothing(value))
    if kind.is_struct(column):
        columns = {field.name: field.type for field in column}
        return all(_same(item, read.get(name), columns.get(name)) for name, item in value.items())
    if kind.is_list(column):
        return len(value) == len(read) and all(
            _same(item, got, column.value_type) for item, got in zip(value, read, strict=True)
        )
    if kind.is_string(column):
        return bool(read == value if isinstance(value, str) else json.loads(read) == value)
    return bool(read == value or read == float(value))


def _says_nothing(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_says_nothing, value.values()))
    return value is None or (isinstance(value, list) and all(map(_says_nothing, value)))


@settings(max_examples=examples(100))
@given(st.lists(OBJECTS, max_size=3), st.lists(st.lists(OBJECTS, min_size=1, max_size=4), max_size=4))
def test_nothing_of_a_good_value_is_lost(sample: list[dict[str, Any]], tasks: list[list[dict[str, Any]]]) -> None:
    try:
        plan = _plan(*sample)
    except SchemaMismatchError:
        assert any("_key" in value for value in sample)
        return
    while True:
        decoded = [_decoded(plan, *rows) for rows in tasks]
        found = [one.discovered for one in decoded if one.discovered]
        if not found:
            break
        before = plan.fields
        plan = plan.grown(found)
        assert plan.fields != before
        assert [field.name for field in plan.fields][: len(before)] == [field.name for field in before]
    types = {field.name: field.type for field in plan.fields}
    for rows, one in zip(tasks, decoded, strict=True):
        for row, value in enumerate(rows):
            read = {name: column[row].as_py() for name, column in zip(types, one.columns, strict=True)}
            if row in one.bad:
                assert all(item is None for item in read.values())
            else:
                assert all(_same(item, read.get(name), types.get(name)) for name, item in value.items())


def test_joined_leaves_what_is_there() -> None:
    known = [pa.field("a", pa.int64()), pa.field("m", pa.map_(pa.string(), pa.struct([("x", pa.int32())])))]
    new = [pa.field("a", pa.string()), pa.field("m", pa.map_(pa.string(), pa.struct([("y", pa.bool_())])))]
    assert shown(joined(known, new)) == "a BIGINT, m MAP<STRING, STRUCT<x: INT, y: BOOLEAN>>"
