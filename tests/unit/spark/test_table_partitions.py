"""Rows by their partition values, and the folders that are named after them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyarrow")

from datetime import date
from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tailrace.spark.errors import TableError
from tailrace.spark.tables.tasks.partitions import folder_of, split, text_of, unplaceable


def batch(**columns: list[Any] | pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_a_folder_is_named_as_spark_names_it() -> None:
    assert folder_of({}) == ""
    assert folder_of({"_day": "2026-11-16", "city": "a/b=c%"}) == "_day=2026-11-16/city=a%2Fb%3Dc%25"
    assert folder_of({"city": "Zürich im Mai"}) == "city=Zürich im Mai"
    assert folder_of({"a": None, "b": ""}) == "a=__HIVE_DEFAULT_PARTITION__/b=__HIVE_DEFAULT_PARTITION__"


@pytest.mark.parametrize(
    ("value", "type_", "text"),
    [
        (date(2026, 11, 16), pa.date32(), "2026-11-16"),
        (date(7, 1, 2), pa.date32(), "0007-01-02"),
        (-3, pa.int64(), "-3"),
        (True, pa.bool_(), "true"),
        (Decimal("1.50"), pa.decimal128(9, 2), "1.50"),
        ("x", pa.string(), "x"),
        (None, pa.int32(), None),
    ],
)
def test_values_have_one_text(value: Any, type_: pa.DataType, text: str | None) -> None:
    assert text_of(pa.array([value], type_)).to_pylist() == [text]


def test_other_types_are_refused() -> None:
    with pytest.raises(TableError, match=r"cannot be partitioned by a column of double"):
        text_of(pa.array([1.5]))


VALUES = st.lists(st.tuples(st.sampled_from(["a", "b", "", None]), st.sampled_from([1, 2, None])), max_size=30)


@given(VALUES)
def test_every_row_is_with_its_values_in_order(values: list[tuple[str | None, int | None]]) -> None:
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([each[0] for each in values], pa.string()),
            pa.array([each[1] for each in values], pa.int32()),
            pa.array(range(len(values)), pa.int64()),
        ],
        ["a", "b", "n"],
    )
    expected: dict[tuple[str | None, str | None], list[int]] = {}
    for number, (a, b) in enumerate(values):
        expected.setdefault((a, None if b is None else str(b)), []).append(number)
    found = [((part["a"], part["b"]), some.column("n").to_pylist()) for part, some in split(rows, ("a", "b"))]
    assert found == list(expected.items())


def test_a_few_rows_that_wait_do_not_keep_the_others_in_memory() -> None:
    rows = batch(city=["rare", *["often"] * 999], value=[b"x" * 1000] * 1000)
    found = {value["city"]: some for value, some in split(rows, ("city",))}
    assert (found["rare"].num_rows, found["often"].num_rows) == (1, 999)
    assert found["rare"].get_total_buffer_size() < 10_000


def test_without_partition_columns_all_rows_are_one() -> None:
    rows = batch(n=[1, 2])
    assert list(split(rows, ())) == [({}, rows)]


def test_what_no_folder_can_be_named_after_is_told() -> None:
    days = pa.array([0, None, 3_000_000, -800_000], pa.int32()).cast(pa.date32())
    texts = ["x", None, "y" * 300, "/" * 90]
    found = unplaceable(batch(day=days, text=texts), ("day", "text"))
    assert sorted(found) == [2, 3]
    assert "day" in unplaceable(batch(day=days), ("day",))[2]
    assert unplaceable(batch(text=["z" * 200]), ("text",)) == {}
