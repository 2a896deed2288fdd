"""Bounds in a Delta commit hold for every row, and files are left out by them only where no row is wanted."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from tailrace.spark.tables.delta.statistics import (
    MOST_CHARACTERS,
    MOST_COLUMNS,
    NUM_INDEXED_COLUMNS,
    STATS_COLUMNS,
    most_columns_of,
    statistics_of,
)

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("l", pa.list_(pa.struct([("x", pa.int64()), ("y", pa.int64())]))),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("n", pa.struct([("a.b", pa.int64()), ("d", pa.date32()), ("l", pa.list_(pa.int64()))])),
        ("t", pa.timestamp("us", "UTC")),
        ("z", pa.timestamp("us")),
        ("b", pa.binary()),
        ("e", pa.decimal128(10, 2)),
        ("o", pa.bool_()),
    ]
)


def told(
    rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA, group: int = 2, *, has_nan: bool = False
) -> dict[str, Any]:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), sink, row_group_size=group, store_schema=False)
    found: dict[str, Any] = json.loads(statistics_of(len(rows), pq.read_metadata(sink), has_nan=has_nan))
    return found


def test_all_kinds_of_columns() -> None:
    moment = datetime(2026, 11, 16, 1, 2, 3, 4, UTC)
    row = {
        "i": 5,
        "f": -0.5,
        "s": "ü",
        "l": [{"x": 1, "y": 2}],
        "m": [("a", 1)],
        "n": {"a.b": 7, "d": date(2026, 11, 16), "l": [1]},
        "t": moment,
        "z": moment.replace(tzinfo=None),
        "b": b"\xff",
        "e": Decimal("1.25"),
        "o": True,
    }
    numbers = {"i": -3, "f": 2.5, "e": Decimal("-31.5"), "o": False}
    later = row | numbers | {"s": "a", "n": {"a.b": None, "d": date(1969, 1, 1), "l": None}, "t": None}
    assert told([row, later, row]) == {
        "numRecords": 3,
        "minValues": {
            "i": -3,
            "f": -0.5,
            "s": "a",
            "n": {"a.b": 7, "d": "1969-01-01"},
            "t": "2026-11-16T01:02:03.000004Z",
            "z": "2026-11-16T01:02:03.000004",
            "e": -31.5,
            "o": False,
        },
        "maxValues": {
            "i": 5,
            "f": 2.5,
            "s": "ü",
            "n": {"a.b": 7, "d": "2026-11-16"},
            "t": "2026-11-16T01:02:03.000004Z",
            "z": "2026-11-16T01:02:03.000004",
            "e": 1.25,
            "o": True,
        },
        "nullCount": {"i": 0, "f": 0, "s": 0, "n": {"a.b": 1, "d": 0}, "t": 1, "z": 0, "b": 0, "e": 0, "o": 0},
    }


def test_columns_of_nulls_and_files_without_a_footer() -> None:
    schema = pa.schema([("i", pa.int32())])
    assert told([{"i": None}], schema) == {"numRecords": 1, "minValues": {}, "maxValues": {}, "nullCount": {"i": 1}}
    assert told([{"i": None}, {"i": None}, {"i": 4}], schema)["minValues"] == {"i": 4}
    assert json.loads(statistics_of(3, None)) == {"numRecords": 3}


def test_long_texts_and_many_columns() -> None:
    schema = pa.schema([("s", pa.string())])
    found = told([{"s": "b" * 500}, {"s": "a" * 500}], schema)
    assert found["minValues"] == {"s": "a" * MOST_CHARACTERS}
    assert found["maxValues"] == {"s": "b" * (MOST_CHARACTERS - 1) + "c"}
    wide = pa.schema([(f"c{number}", pa.int64()) for number in range(MOST_COLUMNS + 5)])
    assert len(told([{"c0": 1}], wide)["nullCount"]) == MOST_COLUMNS


def test_lists_do_not_count() -> None:
    """Readers count a list of structs as one column or as several: none may miss bounds that it expects."""
    many = pa.list_(pa.struct({f"f{number}": pa.int64() for number in range(40)}))
    numbers = {f"c{number}": pa.int64() for number in range(MOST_COLUMNS)}
    found = told([dict.fromkeys(numbers, 1)], pa.schema({"l": many, **numbers}))
    assert set(found["minValues"]) == set(numbers)


def test_a_struct_of_nulls_is_told_as_one() -> None:
    kind = pa.struct({"x": pa.int64(), "y": pa.struct({"z": pa.string(), "l": pa.list_(pa.int64())})})
    assert told([{"o": None}, {"o": {"x": None, "y": None}}], pa.schema({"o": kind})) == {
        "numRecords": 2,
        "minValues": {"o": {"y": {}}},
        "maxValues": {"o": {"y": {}}},
        "nullCount": {"o": {"x": 2, "y": {"z": 2}}},
    }


@pytest.mark.parametrize(
    ("configuration", "most"),
    [
        ({}, MOST_COLUMNS),
        ({NUM_INDEXED_COLUMNS: "3"}, MOST_COLUMNS),
        ({NUM_INDEXED_COLUMNS: "100"}, 100),
        ({NUM_INDEXED_COLUMNS: "-1"}, None),
        ({NUM_INDEXED_COLUMNS: "many"}, None),
        ({STATS_COLUMNS: "a,b"}, None),
    ],
)
def test_as_many_columns_as_the_table_is_configured_for(configuration: dict[str, str], most: int | None) -> None:
    assert most_columns_of(configuration) == most


@pytest.mark.parametrize(
    ("greatest", "bound"),
    [
        ("b" * 64, "b" * 64),
        ("b" * 63 + "\ud7ff" + "x", "b" * 63 + "\ue000"),
        ("b" * 10 + "\U0010ffff" * 60, "b" * 9 + "c"),
        ("\U0010ffff" * 65, None),
    ],
)
def test_the_greatest_text_is_not_above_its_bound(greatest: str, bound: str | None) -> None:
    found = told([{"s": "a"}, {"s": greatest}], pa.schema([("s", pa.string())]))
    assert found.get("maxValues") == (None if bound is None else {"s": bound})


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.float64(), float("inf")),
        (pa.float32(), float("nan")),
        (pa.decimal128(38, 2), Decimal("12345678901234.56")),
        (pa.date32(), 3_000_000),
        (pa.string(), "x" * 5000),
        (pa.uint32(), 1),
    ],
)
def test_a_file_has_bounds_of_all_columns_or_none(kind: pa.DataType, value: Any) -> None:
    """A reader takes a column without bounds, where others have some, for one without values."""
    schema = pa.schema([("i", pa.int32()), ("x", kind)])
    column = pa.array([value], pa.int32()).cast(kind) if kind == pa.date32() else pa.array([value], kind)
    sink = io.BytesIO()
    pq.write_table(pa.table([pa.array([7], pa.int32()), column], schema=schema), sink, store_schema=False)
    assert json.loads(statistics_of(1, pq.read_metadata(sink))) == {"numRecords": 1}


def test_a_file_with_nan_has_no_bounds() -> None:
    """Parquet leaves it out of its own."""
    schema = pa.schema([("i", pa.int32()), ("f", pa.float64())])
    rows = [{"i": 1, "f": 1.5}, {"i": 2, "f": float("nan")}]
    assert told(rows, schema, has_nan=True) == {"numRecords": 2}


@settings(max_examples=examples(60))
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "i": st.none() | st.integers(-(2**31), 2**31 - 1),
                "s": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=80),
                "d": st.none() | st.dates(),
                "t": st.none() | st.datetimes(),
                "f": st.none() | st.floats(width=32, allow_nan=False, allow_infinity=False),
                "e": st.none() | st.decimals(-999_999, 999_999, places=3),
            }
        ),
        min_size=1,
        max_size=12,
    )
)
def test_bounds_hold_for_every_row(rows: list[dict[str, Any]]) -> None:
    kinds = {"i": pa.int32(), "s": pa.string(), "d": pa.date32(), "t": pa.timestamp("us")}
    schema = pa.schema(kinds | {"f": pa.float32(), "e": pa.decimal128(9, 3)})
    found = told(rows, schema, group=3)
    if "minValues" not in found:
        assert any(set(each["s"] or "") == {"\U0010ffff"} for each in rows)
        return
    parse = {"i": int, "s": str, "d": date.fromisoformat, "t": datetime.fromisoformat, "f": float}
    parse["e"] = lambda number: Decimal(repr(number))
    for name, read in parse.items():
        values = [each[name] for each in rows if each[name] is not None]
        assert found["nullCount"][name] == len(rows) - len(values)
        if name in found["minValues"]:
            assert all(read(found["minValues"][name]) <= each for each in values)
        if name in found["maxValues"]:
            assert all(read(found["maxValues"][name]) >= each for each in values)
        assert values or name not in found["minValues"]
        if name != "s" and values:
            assert read(found["minValues"][name]) == min(values)
            assert read(found["maxValues"][name]) == max(values)
