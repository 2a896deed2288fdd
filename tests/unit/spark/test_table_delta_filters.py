"""A reader that filters a Delta table of ours leaves files out by what their commits say, and finds every row."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from tailrace.spark.tables.delta.store import DeltaStore
from tailrace.spark.tables.store import About, Change, FileTarget
from tailrace.spark.tables.tasks.output_file import OutputFile, encodings_of

ABOUT = About("orders", "id-of-topic", "id-of-cluster", settings={"value": "json"})
MOMENT = datetime(2026, 11, 16, 1, 2, 3, 4, UTC)
KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "integer": (pa.int64(), [7, -(2**63), None]),
    "double": (pa.float64(), [1.5, -2.5, None]),
    "float": (pa.float32(), [0.1, 0.0, None]),
    "boolean": (pa.bool_(), [True, False, None]),
    "decimal": (pa.decimal128(9, 2), [Decimal("1.25"), Decimal("-31.50"), None]),
    "text": (pa.string(), ["ü", "", None]),
    "long_text": (pa.string(), ["a" * 100, "b" * 100, None]),
    "bytes": (pa.binary(), [b"\xff", b"", None]),
    "day": (pa.date32(), [date(2026, 11, 16), date(1969, 1, 1), None]),
    "time": (pa.timestamp("us", "UTC"), [MOMENT, MOMENT.replace(year=1960), None]),
    "nothing": (pa.string(), [None, None, None]),
}
FIELDS = {name: kind for name, (kind, _) in KINDS.items()}
SCHEMA = pa.schema(
    {
        "list": pa.list_(pa.struct({"x": pa.int64(), "y": pa.float64()})),
        "map": pa.map_(pa.string(), pa.float64()),
        **FIELDS,
        "inside": pa.struct(FIELDS),
        **{f"more_{number}": pa.float64() for number in range(40)},
    }
)


def rows() -> list[dict[str, Any]]:
    found = []
    for number in range(3):
        values = {name: given[number] for name, (_, given) in KINDS.items()}
        more = {f"more_{each}": 1.5 * number for each in range(40)}
        found.append({"list": [{"x": 1, "y": 2.5}], "map": [("k", 1.0)], **values, "inside": dict(values), **more})
    return found


def write(target: FileTarget, name: str, given: list[dict[str, Any]]) -> OutputFile:
    file = OutputFile(target, {}, name, 0, "zstd", encodings_of(target))
    for each in given:
        file.write(pa.Table.from_pylist([each], target.schema).to_batches())
    file.finish()
    return file


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    """Of three files: with all values, with only a NaN beside them, with odd ones."""
    place = tmp_path_factory.mktemp("delta") / "orders"
    store = DeltaStore(str(place))
    snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    first = rows()
    second = [first[0] | {"inside": first[0]["inside"] | {"double": float("nan")}}]
    third = [first[1] | {"double": float("inf"), "decimal": Decimal("9999999.99"), "long_text": "\U0010ffff" * 70}]
    files = [write(snapshot.target(), f"{n}.parquet", each) for n, each in enumerate((first, second, third))]
    snapshot.commit(Change("append", {0: 5}, [each.data_file() for each in files]))
    return place, pa.Table.from_pylist([*first, *second, *third], SCHEMA)


@pytest.mark.parametrize("path", [(name,) for name in [*KINDS, "more_39"]] + [("inside", name) for name in KINDS])
def test_filters_find_every_row(table: tuple[Path, pa.Table], path: tuple[str, ...]) -> None:
    place, expected = table
    dataset = DeltaTable(str(place)).to_pyarrow_dataset()
    column = expected.column(path[0])
    for name in path[1:]:
        column = pa.chunked_array([chunk.field(name) for chunk in column.chunks])
    field = ds.field(*path)
    for value in column.unique():
        if not value.is_valid:
            continue
        for asked in (field == value, field >= value, field <= value):
            wanted = expected.filter(asked).num_rows
            assert dataset.to_table(filter=asked).num_rows == wanted, (asked, wanted)
    is_null = field.is_null()
    assert dataset.to_table(filter=is_null).num_rows == expected.filter(is_null).num_rows


def _struct_of(kinds: list[pa.DataType]) -> pa.DataType:
    return pa.struct([(f"f{number}", kind) for number, kind in enumerate(kinds)])


LEAVES = st.sampled_from([pa.int64(), pa.string(), pa.binary(), pa.float64(), pa.list_(pa.int64())])
KIND = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=12).map(_struct_of),
        st.lists(inner, min_size=1, max_size=6).map(lambda kinds: pa.list_(_struct_of(kinds))),
    ),
    max_leaves=20,
)


def _value_of(kind: pa.DataType, dice: random.Random) -> Any:
    if dice.random() < 0.4:
        return None
    if pa.types.is_struct(kind):
        return {each.name: _value_of(each.type, dice) for each in kind}
    if pa.types.is_list(kind):
        return [_value_of(kind.value_type, dice) for _ in range(dice.randrange(3))]
    number = dice.randrange(5)
    return {pa.int64(): number, pa.string(): str(number), pa.binary(): b"%d" % number, pa.float64(): number / 2}[kind]


def _single_paths(fields: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    """Structs, too: a reader may ask whether one is null."""
    for each in fields:
        yield (*above, each.name), each.type
        if pa.types.is_struct(each.type):
            yield from _single_paths(each.type, (*above, each.name))


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
@given(kinds=st.lists(KIND, min_size=1, max_size=45), seed=st.integers(0, 2**32))
def test_filters_of_any_columns(tmp_path_factory: pytest.TempPathFactory, kinds: list[pa.DataType], seed: int) -> None:
    """However lists and structs stand before a column, and whether all of a struct is null in a file or not."""
    dice = random.Random(seed)
    schema = pa.schema(list(_struct_of(kinds)))
    place = tmp_path_factory.mktemp("delta") / "any"
    snapshot = DeltaStore(str(place)).create(ABOUT, schema, {0: 0})
    written = [[_value_of(_struct_of(kinds), dice) or {} for _ in range(2)] for _ in range(3)]
    files = [write(snapshot.target(), f"{n}.parquet", each) for n, each in enumerate(written)]
    snapshot.commit(Change("append", {0: 5}, [each.data_file() for each in files]))
    expected = pa.Table.from_pylist([row for each in written for row in each], schema)
    dataset = DeltaTable(str(place)).to_pyarrow_dataset()
    for path, kind in _single_paths(schema):
        field = ds.field(*path)
        asked = [field.is_null(), field.is_valid()]
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            asked += [field >= 2, field == 0]
        for each in asked:
            assert dataset.to_table(filter=each).num_rows == expected.filter(each).num_rows, (path, each)
