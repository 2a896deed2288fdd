"""What is readable into what, how columns grow, and that arrays are read as their values say."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.spark.errors import SchemaMismatchError
from tailrace.spark.tables.values.evolution import grow, nullable, read_into, readable_into
from tailrace.spark.tables.values.type_names import shown

POINT = pa.struct([("x", pa.int32()), ("y", pa.int32())])


@pytest.mark.parametrize(
    ("declared", "column"),
    [
        (pa.int8(), pa.int64()),
        (pa.uint32(), pa.int64()),
        (pa.int64(), pa.float64()),
        (pa.int16(), pa.float32()),
        (pa.float32(), pa.float64()),
        (pa.int32(), pa.decimal128(12, 2)),
        (pa.decimal128(10, 2), pa.decimal128(12, 4)),
        (pa.string(), pa.large_string()),
        (pa.string(), pa.binary()),
        (pa.binary(4), pa.binary()),
        (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")),
        (pa.timestamp("us", "Europe/Paris"), pa.timestamp("us", "UTC")),
        (pa.time32("ms"), pa.time64("us")),
        (pa.null(), POINT),
        (pa.list_(pa.int8()), pa.large_list(pa.int32())),
        (pa.map_(pa.string(), pa.int8()), pa.map_(pa.string(), pa.int32())),
        (pa.struct([("y", pa.int8())]), POINT),
    ],
)
def test_what_loses_nothing_is_readable(declared: pa.DataType, column: pa.DataType) -> None:
    assert readable_into(declared, column)
    assert read_into(pa.nulls(2, declared), column).type == column
    assert read_into(pa.array([], declared), column).type == column


@pytest.mark.parametrize(
    ("declared", "column"),
    [
        (pa.int64(), pa.int32()),
        (pa.uint64(), pa.int64()),
        (pa.int8(), pa.uint8()),
        (pa.int32(), pa.float32()),
        (pa.float64(), pa.float32()),
        (pa.float64(), pa.int64()),
        (pa.int64(), pa.string()),
        (pa.bool_(), pa.int8()),
        (pa.binary(), pa.string()),
        (pa.int64(), pa.decimal128(20, 2)),
        (pa.decimal128(10, 2), pa.decimal128(10, 4)),
        (pa.decimal128(10, 4), pa.decimal128(12, 2)),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.timestamp("ns", "UTC"), pa.timestamp("us", "UTC")),
        (pa.date32(), pa.timestamp("us")),
        (pa.list_(pa.int64()), pa.list_(pa.int32())),
        (pa.list_(pa.int64()), pa.int64()),
        (pa.struct([("z", pa.int32())]), POINT),
        (pa.struct([("X", pa.int32())]), POINT),
    ],
)
def test_what_would_lose_something_is_not(declared: pa.DataType, column: pa.DataType) -> None:
    assert not readable_into(declared, column)


def test_columns_grow_at_the_end_and_within_structs() -> None:
    known = [pa.field("id", pa.int64()), pa.field("at", POINT), pa.field("gone", pa.string())]
    declared = [
        pa.field("new", pa.list_(pa.struct([pa.field("a", pa.int8(), nullable=False)])), nullable=False),
        pa.field("at", pa.struct([("z", pa.float64()), ("x", pa.int32())])),
        pa.field("id", pa.int32(), nullable=False),
    ]
    grown = grow(known, declared)
    assert shown(grown) == (
        "id BIGINT, at STRUCT<x: INT, y: INT, z: DOUBLE>, gone STRING, new ARRAY<STRUCT<a: TINYINT>>"
    )
    assert all(readable_into(field.type, pa.schema(grown).field(field.name).type) for field in declared)
    assert grow(grown, declared) == grown


def test_lists_and_maps_of_structs_grow() -> None:
    known = [
        pa.field("l", pa.list_(pa.struct([("a", pa.int32())]))),
        pa.field("m", pa.map_(pa.string(), pa.struct([("a", pa.int32())]))),
    ]
    more = pa.struct([("b", pa.string())])
    grown = grow(known, [pa.field("l", pa.list_(more)), pa.field("m", pa.map_(pa.string(), more))])
    assert shown(grown) == "l ARRAY<STRUCT<a: INT, b: STRING>>, m MAP<STRING, STRUCT<a: INT, b: STRING>>"


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        (pa.field("id", pa.string()), "id is declared STRING, and its column is INT"),
        (pa.field("at", pa.struct([("x", pa.int64())])), "at.x is declared BIGINT"),
        (pa.field("at", pa.int32()), "at is declared INT, and its column is STRUCT"),
        (pa.field("ID", pa.int32()), "fields id and ID differ only in case"),
        (pa.field("at", pa.struct([("Y", pa.int32())])), "fields at.y and at.Y differ only in case"),
        (pa.field("n", pa.list_(pa.struct([("a", pa.int8()), ("A", pa.int8())]))), "differ only in case"),
    ],
)
def test_a_mismatch_shows_both_schemas(declared: pa.Field, reason: str) -> None:
    known = [pa.field("id", pa.int32()), pa.field("at", POINT)]
    with pytest.raises(SchemaMismatchError) as raised:
        grow(known, [declared])
    text = str(raised.value)
    assert reason in text
    assert f"Declared: {shown([declared])}" in text
    assert "Table: id INT, at STRUCT<x: INT, y: INT>" in text


def test_a_struct_that_is_twice_the_same_name_is_refused() -> None:
    with pytest.raises(SchemaMismatchError, match="or not at all"):
        grow([], [pa.field("s", pa.struct([("a", pa.int8()), ("a", pa.int8())]))])


@pytest.mark.parametrize(
    ("declared", "values", "column", "read"),
    [
        (pa.int64(), [2**53 + 1, None], pa.float64(), [float(2**53), None]),
        (pa.int8(), [-5, None], pa.decimal128(9, 2), [Decimal("-5.00"), None]),
        (pa.string(), ["é", None], pa.binary(), ["é".encode(), None]),
        (
            pa.timestamp("ms", "Europe/Paris"),
            [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)],
            pa.timestamp("us", "UTC"),
            [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)],
        ),
        (
            pa.struct([("y", pa.int8())]),
            [{"y": 1}, None, {"y": None}],
            POINT,
            [{"x": None, "y": 1}, None, {"x": None, "y": None}],
        ),
        (
            pa.list_(pa.struct([("y", pa.int8())])),
            [[{"y": 1}, None], None, []],
            pa.list_(POINT),
            [[{"x": None, "y": 1}, None], None, []],
        ),
        (
            pa.large_list(pa.int8()),
            [[1], None, [2, 3]],
            pa.list_(pa.int16()),
            [[1], None, [2, 3]],
        ),
        (
            pa.map_(pa.string(), pa.list_(pa.int8())),
            [[("a", [1])], None, [("b", None)]],
            pa.map_(pa.large_string(), pa.list_(pa.int64())),
            [[("a", [1])], None, [("b", None)]],
        ),
    ],
)
def test_arrays_are_read_into_columns(declared: pa.DataType, values: list, column: pa.DataType, read: list) -> None:
    assert readable_into(declared, column)
    whole = pa.array(values, declared)
    assert read_into(whole, column).to_pylist() == read
    assert read_into(whole, column).type == column
    # A slice has offsets of its own, and entries before and behind it.
    slid = pa.concat_arrays([whole, whole, whole]).slice(len(values), len(values))
    made = read_into(slid, column)
    made.validate(full=True)
    assert made.to_pylist() == read


TYPES = st.recursive(
    st.sampled_from([pa.int8(), pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.date32()]),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda one: pa.map_(pa.string(), one)),
        st.dictionaries(st.sampled_from("abcd"), inner, min_size=1, max_size=3).map(
            lambda types: pa.struct([pa.field(name, one, nullable=False) for name, one in types.items()])
        ),
    ),
    max_leaves=8,
)
FIELDS = st.dictionaries(st.sampled_from("pqrs"), TYPES, max_size=4).map(
    lambda types: [pa.field(name, one) for name, one in types.items()]
)


@given(known=FIELDS, declared=FIELDS)
def test_grown_columns_take_both(known: list[pa.Field], declared: list[pa.Field]) -> None:
    known = [nullable(field) for field in known]
    try:
        grown = grow(known, declared)
    except SchemaMismatchError:
        assert {field.name for field in known} & {field.name for field in declared}
        return
    columns = pa.schema(grown)
    assert [field.name for field in grown][: len(known)] == [field.name for field in known]
    assert all(readable_into(field.type, columns.field(field.name).type) for field in [*known, *declared])
    assert grow(grown, declared) == grown
    assert [nullable(field) for field in grown] == grown
