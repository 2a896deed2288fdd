"""Columns read into others that have more in them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from tailrace.spark.errors import SchemaMismatchError
from tailrace.spark.tables.tasks.conform import conform, conform_array

OLD = pa.struct([("a", pa.int32())])
NEW = pa.struct([("b", pa.string()), ("a", pa.int64())])


@pytest.mark.parametrize(
    ("old", "new", "values", "expected"),
    [
        (OLD, NEW, [{"a": 1}, None, {"a": None}], [{"b": None, "a": 1}, None, {"b": None, "a": None}]),
        (pa.list_(OLD), pa.list_(NEW), [[], None, [{"a": 1}, None]], [[], None, [{"b": None, "a": 1}, None]]),
        (
            pa.map_(pa.string(), OLD),
            pa.map_(pa.string(), NEW),
            [[("k", {"a": 1})], None, [], [("x", None), ("y", {"a": 2})]],
            [[("k", {"b": None, "a": 1})], None, [], [("x", None), ("y", {"b": None, "a": 2})]],
        ),
        (pa.list_(pa.list_(OLD)), pa.list_(pa.list_(NEW)), [[[{"a": 1}]], [None]], [[[{"b": None, "a": 1}]], [None]]),
        (pa.int32(), pa.int64(), [1, None], [1, None]),
        (
            pa.list_(pa.field("item", pa.int32())),
            pa.list_(pa.field("element", pa.int32())),
            [[1], None, [2, 3]],
            [[1], None, [2, 3]],
        ),
    ],
)
@pytest.mark.parametrize("cut", [0, 1])
def test_values_are_the_same(old: Any, new: Any, values: list[Any], expected: list[Any], cut: int) -> None:
    array = pa.array([*values[:cut], *values], old).slice(cut)
    assert array.to_pylist() == pa.array(values, old).to_pylist()
    found = conform_array(array, new)
    found.validate(full=True)
    assert found.type == new
    assert found.to_pylist() == expected


def test_columns_are_found_by_name_and_missing_ones_are_null() -> None:
    rows = pa.RecordBatch.from_pydict({"a": [1, 2], "b": ["x", "y"]})
    schema = pa.schema([pa.field("c", pa.binary()), pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "4"})])
    found = conform(rows, schema)
    assert found.schema.equals(schema, check_metadata=True)
    assert found.to_pylist() == [{"c": None, "a": 1}, {"c": None, "a": 2}]


def test_what_would_lose_something_is_refused_with_both_types() -> None:
    rows = pa.RecordBatch.from_pydict({"a": [1 << 40]})
    with pytest.raises(SchemaMismatchError, match=r"column a is int32, and int64 cannot be read into it"):
        conform(rows, pa.schema([("a", pa.int32())]))
