"""Columns of Iceberg tables: what goes in comes back, nested too, and what cannot be held is refused by name."""

from __future__ import annotations

import datetime
import decimal
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.tables.iceberg import loaded, write_file
from tailrace.spark.errors import TableError
from tailrace.spark.tables.iceberg.store import IcebergStore
from tailrace.spark.tables.iceberg.types import FIELD_ID, to_arrow, to_iceberg
from tailrace.spark.tables.store import About, Change

ABOUT = About("orders", None, None)

PLAIN = st.sampled_from(
    [
        pa.bool_(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.date32(),
        pa.string(),
        pa.binary(),
        pa.binary(5),
        pa.time64("us"),
        pa.timestamp("us"),
        pa.timestamp("us", "UTC"),
        pa.decimal128(12, 3),
    ]
)


def _nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.one_of(
        inner.map(pa.list_),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: pa.struct([(f"f{number}", kind) for number, kind in enumerate(kinds)])
        ),
    )


TYPES = st.recursive(PLAIN, _nested, max_leaves=6)


def _ids(field: pa.Field) -> list[int]:
    kind = field.type
    if pa.types.is_struct(kind):
        inner = list(kind)
    elif pa.types.is_map(kind):
        inner = [kind.key_field, kind.item_field]
    elif pa.types.is_list(kind):
        inner = [kind.value_field]
    else:
        inner = []
    return [int(field.metadata[FIELD_ID]), *(number for each in inner for number in _ids(each))]


@given(st.lists(TYPES, min_size=1, max_size=4))
def test_columns_come_back_as_they_were(kinds: list[pa.DataType]) -> None:
    schema = pa.schema([(f"c{number}", kind) for number, kind in enumerate(kinds)])
    columns = to_iceberg(schema)
    assert to_arrow(columns) == schema
    with_ids = to_arrow(columns, with_ids=True)
    assert with_ids == schema
    ids = [number for each in with_ids for number in _ids(each)]
    assert sorted(ids) == list(range(1, len(ids) + 1))
    assert pickle.loads(pickle.dumps(with_ids)).equals(with_ids, check_metadata=True)


@pytest.mark.parametrize(
    ("given_type", "held"),
    [
        (pa.int8(), pa.int32()),
        (pa.int16(), pa.int32()),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.large_string(), pa.string()),
        (pa.large_list(pa.int8()), pa.list_(pa.int32())),
        (pa.list_(pa.int16(), 2), pa.list_(pa.int32())),
        (pa.timestamp("ms"), pa.timestamp("us")),
        (pa.timestamp("ms", "Europe/Berlin"), pa.timestamp("us", "UTC")),
        (pa.time32("s"), pa.time64("us")),
        (pa.decimal256(38, 2), pa.decimal128(38, 2)),
    ],
)
def test_what_is_held_in_a_wider_type(given_type: pa.DataType, held: pa.DataType) -> None:
    assert to_arrow(to_iceberg(pa.schema([("c", given_type)]))) == pa.schema([("c", held)])


@pytest.mark.parametrize(
    "kind",
    [
        pa.uint64(),
        pa.null(),
        pa.timestamp("ns"),
        pa.duration("s"),
        pa.decimal256(60, 2),
        pa.decimal128(5, -2),
        pa.struct([]),
        pa.dictionary(pa.int32(), pa.string()),
    ],
)
def test_what_cannot_be_held_is_refused_by_name(kind: pa.DataType, tmp_path: Path) -> None:
    schema = pa.schema([("ok", pa.int32()), ("outer", pa.list_(pa.struct([("inner", kind)])))])
    store = IcebergStore(str(tmp_path / "orders"))
    with pytest.raises(TableError, match=r"outer\.element\.inner"):
        store.create(ABOUT, schema, {0: 0})
    assert list(tmp_path.iterdir()) == []


def test_names_that_meet_where_nested_ones_have_dots_are_refused(tmp_path: Path) -> None:
    schema = pa.schema([("a.b", pa.int32()), ("a", pa.struct([("b", pa.int32())]))])
    store = IcebergStore(str(tmp_path / "orders"))
    with pytest.raises(TableError, match=r"cannot hold these columns: .* a\.b"):
        store.create(About("orders", None, None), schema, {0: 0})
    store.create(About("orders", None, None), schema.remove(0), {0: 0})
    there = store.open()
    assert there is not None
    with pytest.raises(TableError, match=r"cannot hold these columns: .* a\.b"):
        there.commit(Change("schema", {0: 0}, schema=pa.schema([schema.field("a"), schema.field("a.b")])))


def test_nested_values_are_read_back_by_pyiceberg(tmp_path: Path) -> None:
    inner = pa.struct([("a", pa.list_(pa.struct([("b", pa.binary()), ("c", pa.int32())]))), ("d", pa.bool_())])
    schema = pa.schema(
        [
            ("_offset", pa.int64()),
            ("s", inner),
            ("m", pa.map_(pa.string(), pa.list_(inner))),
            ("l", pa.list_(pa.list_(pa.decimal128(9, 2)))),
            ("t", pa.timestamp("us", "UTC")),
            ("n", pa.timestamp("us")),
            ("f", pa.float64()),
        ]
    )
    whole = {"a": [{"b": b"x", "c": 1}, None, {"b": None, "c": None}], "d": True}
    rows: list[dict[str, Any]] = [
        {
            "_offset": 0,
            "s": whole,
            "m": [("k", [whole, None]), ("e", None)],
            "l": [[decimal.Decimal("1.50"), None], None, []],
            "t": datetime.datetime(2026, 11, 16, 1, 2, 3, 4, datetime.UTC),
            "n": datetime.datetime(1969, 1, 1),  # noqa: DTZ001
            "f": float("inf"),
        },
        {"_offset": 1, "s": None, "m": None, "l": None, "t": None, "n": None, "f": None},
        # pyiceberg reads a list of structs that is null as an empty one, also of files that it wrote itself.
        {"_offset": 2, "s": {"a": [], "d": None}, "m": [], "l": [], "t": None, "n": None, "f": float("-inf")},
    ]
    store = IcebergStore(str(tmp_path / "orders"))
    snapshot = store.create(ABOUT, schema, {0: 0})
    assert snapshot.schema == schema
    snapshot.commit(Change("append", {0: 3}, [write_file(snapshot.target(), rows)]))
    assert loaded(store).scan().to_arrow().sort_by("_offset").to_pylist() == rows
    read = loaded(store).scan(row_filter="s.d = true", selected_fields=("_offset",)).to_arrow()
    assert read.column("_offset").to_pylist() == [0]


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (pa.date32(), ["2026-11-16", "1969-12-31", None]),
        (pa.int32(), ["-5", "0", None]),
        (pa.int64(), ["9007199254740993"]),
        (pa.string(), ["", "ä", "null", None]),
        (pa.bool_(), ["true", "false", None]),
        (pa.decimal128(9, 2), ["1.50", "-0.01", None]),
        (pa.timestamp("us", "UTC"), ["2026-11-16 01:02:03.000004Z", None]),
        (pa.timestamp("us"), ["2026-11-16 01:02:03.000004", None]),
    ],
)
def test_values_of_partitions_come_back(kind: pa.DataType, texts: list[str | None], tmp_path: Path) -> None:
    schema = pa.schema([("_offset", pa.int64()), ("p", kind)])
    store = IcebergStore(str(tmp_path / "orders"))
    snapshot = store.create(About("orders", None, None, partition_by=("p",)), schema, {0: 0})
    values = [None if text is None else pa.scalar(text).cast(kind).as_py() for text in texts]
    files = [
        write_file(snapshot.target(), [{"_offset": number, "p": value}], {"p": text})
        for number, (text, value) in enumerate(zip(texts, values, strict=True))
    ]
    snapshot = snapshot.commit(Change("append", {0: len(files)}, files))
    assert {each.path: each.partition["p"] for each in snapshot.files()} == {
        each.path: each.partition["p"] for each in files
    }
    read = loaded(store).scan().to_arrow().sort_by("_offset")
    assert read.column("p").to_pylist() == values
    remains = snapshot.commit(Change("compact", snapshot.offsets, [], files[:1]))
    assert {each.path for each in remains.files()} == {each.path for each in files[1:]}


def test_times_of_partitions_with_and_without_a_zone(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.timestamp("us", "UTC")), ("b", pa.timestamp("us"))])
    store = IcebergStore(str(tmp_path / "orders"))
    snapshot = store.create(About("orders", None, None, partition_by=("a", "b")), schema, {0: 0})
    file = write_file(snapshot.target(), [{}], {"a": "2026-11-16 01:00:00", "b": "2026-11-16T01:00:00Z"})
    snapshot = snapshot.commit(Change("append", {0: 1}, [file]))
    assert snapshot.files()[0].partition == {"a": "2026-11-16 01:00:00.000000Z", "b": "2026-11-16 01:00:00.000000"}


@pytest.mark.parametrize("partition", [{}, {"p": "x"}])
def test_values_of_partitions_that_cannot_be(partition: dict[str, str], tmp_path: Path) -> None:
    store = IcebergStore(str(tmp_path / "orders"))
    about = About("orders", None, None, partition_by=("p",))
    snapshot = store.create(about, pa.schema([("p", pa.int32())]), {0: 0})
    with pytest.raises(TableError, match="partition column p"):
        snapshot.commit(Change("append", {0: 1}, [write_file(snapshot.target(), [{"p": 1}], partition)]))
    assert store.open() is not None


@pytest.mark.parametrize("name", ["none", "nested", "f"])
def test_columns_that_cannot_be_partitioned_by(name: str, tmp_path: Path) -> None:
    store = IcebergStore(str(tmp_path / "orders"))
    schema = pa.schema([("nested", pa.list_(pa.int32())), ("f", pa.float64())])
    with pytest.raises(TableError, match=f"partitioned by {name}"):
        store.create(About("orders", None, None, partition_by=(name,)), schema, {})
