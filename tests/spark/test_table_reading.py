"""Tables as others read them: Spark by its Parquet reader, DuckDB, Polars and pyiceberg all find the same rows."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace.spark.tables.store import Snapshot, Store

FORMATS = ("parquet", "delta", "iceberg")
AT = datetime(2026, 11, 16, 1, 2, 3, 456_000, tzinfo=UTC)
PLACE = pa.struct([("x", pa.int64()), ("tags", pa.list_(pa.string()))])
WIDER_PLACE = pa.struct([("x", pa.int64()), ("tags", pa.list_(pa.string())), ("z", pa.float64())])
VALUES = [
    pa.field("number", pa.int32()),
    pa.field("price", pa.decimal128(12, 2)),
    pa.field("on", pa.date32()),
    pa.field("at", pa.timestamp("us", "UTC")),
    pa.field("raw", pa.binary()),
    pa.field("place", PLACE),
    pa.field("by_name", pa.map_(pa.string(), pa.int64())),
]
CITIES = ("Bern", "Zürich", "a b/c=d%", None)


@pytest.fixture(scope="module", params=FORMATS)
def kind(request: pytest.FixtureRequest) -> str:
    for package in ("deltalake", "pyiceberg"):
        pytest.importorskip(package)
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def store(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Of a table with files of two ages: the older ones lack a column and a field."""
    from tailrace.spark.tables.store import Change
    from tailrace.spark.tables.store_at import store_at

    folder = tmp_path_factory.mktemp("lake" if kind == "delta" else "lake of [tests]")  # Polars escapes it twice
    made = store_at(str(folder / kind), kind)
    snapshot = created(made)
    snapshot = written(snapshot, [row(number) for number in range(8)])
    fields = [field.with_type(WIDER_PLACE) if field.name == "place" else field for field in snapshot.schema]
    grown = pa.schema([*fields, pa.field("late", pa.string())])
    snapshot = snapshot.commit(Change("schema", snapshot.offsets, schema=grown))
    written(snapshot, [late_row(number) for number in range(8, 16)])
    return made


def created(store: Store) -> Snapshot:
    from tailrace.spark.tables.columns import append_schema
    from tailrace.spark.tables.store import About

    values = [pa.field("city", pa.string()), *VALUES]
    about = About("orders", None, None, partition_by=("_day", "city"))
    return store.create(about, append_schema(pa.binary(), values, about.partition_by), {0: 0})


def written(snapshot: Snapshot, rows: list[dict[str, Any]]) -> Snapshot:
    from tailrace.spark.tables.store import Change
    from tailrace.spark.tables.tasks.files import FileWriter

    writer = FileWriter(snapshot.target(), f"file-{rows[0]['_offset']}")
    names = {each.name: each.type for each in snapshot.schema}
    columns = [pa.array([each.get(name) for each in rows], kind) for name, kind in names.items()]
    writer.write(pa.RecordBatch.from_arrays(columns, names=list(names)))
    return snapshot.commit(Change("append", {0: rows[-1]["_offset"] + 1}, adds=writer.close()))


def row(number: int) -> dict[str, Any]:
    return {
        "_topic": "orders",
        "_partition": 0,
        "_offset": number,
        "_timestamp": AT.replace(day=1 + number % 2),
        "_key": b"%d" % number,
        "_headers": [{"key": "h", "value": b"1"}, {"key": "n", "value": None}] if number % 3 else [],
        "_day": date(2026, 11, 1 + number % 2),
        "city": CITIES[number % len(CITIES)],
        "number": None if number % 5 == 4 else number,
        "price": Decimal(number) / 4,
        "on": date(1969, 12, 31),
        "at": AT,
        "raw": b"\x00\xff",
        "place": None if number % 4 == 3 else {"x": number, "tags": ["ü", None][: number % 3]},
        "by_name": [("one", 1), ("none", None)],
    }


def late_row(number: int) -> dict[str, Any]:
    place = row(number)["place"]
    return {**row(number), "late": f"late {number}", "place": place and {**place, "z": number / 2}}


def expected() -> list[dict[str, Any]]:
    """All rows with all columns, as those who read them find them."""
    early = [{**row(number), "late": None} for number in range(8)]
    for each in early:
        if each["place"] is not None:
            each["place"] = {**each["place"], "z": None}
    return [*early, *(late_row(number) for number in range(8, 16))]


def plain(value: Any) -> Any:
    """Without the types of who read it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if hasattr(value, "asDict"):
        return {name: plain(each) for name, each in value.asDict().items()}
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value


def same(rows: Iterator[dict[str, Any]] | list[dict[str, Any]]) -> list[dict[str, Any]]:
    """In the order of offsets, maps as dictionaries."""
    found = [plain(each) for each in rows]
    for each in found:
        if isinstance(each["by_name"], list):
            entries = [(one["key"], one["value"]) if isinstance(one, dict) else one for one in each["by_name"]]
            each["by_name"] = dict(entries)
    return sorted(found, key=lambda each: each["_offset"])


@contextlib.contextmanager
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """PySpark hands out times as they are where it runs."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_spark_reads_exactly_the_newest_version(
    store: Store, kind: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tailrace.spark import read_table

    pq.write_table(pa.table({"_offset": [99]}), Path(store.name) / "stray.parquet")
    frame = read_table(store.name, format=kind, session=spark)
    with utc(monkeypatch):
        found = [each.asDict() for each in frame.collect()]
    assert same(found) == same(expected())
    types = dict(frame.dtypes)
    assert frame.columns == [*(each.name for each in opened(store).schema)]
    assert (types["_day"], types["city"], types["_partition"], types["late"]) == ("date", "string", "int", "string")
    assert types["place"] == "struct<x:bigint,tags:array<string>,z:double>"


def test_spark_selects_by_partition_values(store: Store, kind: str, spark: SparkSession) -> None:
    from tailrace.spark import read_table

    frame = read_table(store.name, format=kind, session=spark)
    for city in CITIES:
        found = frame.where(frame["city"].eqNullSafe(city)).select("_offset").collect()
        assert sorted(each[0] for each in found) == [n for n in range(16) if CITIES[n % len(CITIES)] == city]
    assert frame.where("_day = DATE '2026-11-02'").count() == 8


def test_spark_reads_an_older_version(store: Store, kind: str, spark: SparkSession) -> None:
    from tailrace.spark import read_table

    newest, first = (each.version for each in store.history() if each.operation == "append")
    assert newest != first
    frame = read_table(store.name, format=kind, version=first, session=spark)
    assert sorted(each[0] for each in frame.select("_offset").collect()) == list(range(8))
    assert "late" not in frame.columns


def test_others_read_the_same_rows(store: Store, kind: str) -> None:
    from support.tables.model import without_nulls
    from support.tables.readers import rows_at

    found = same(rows_at(kind, Path(store.name)))
    assert without_nulls(found) == without_nulls(same(expected()))


def test_duckdb_and_polars_read_the_files_of_a_parquet_table(store: Store, kind: str) -> None:
    if kind != "parquet":
        pytest.skip("a list of files is the table only where files hold all columns")
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    from support.tables.readers import parquet_files

    files = [str(each) for each in parquet_files(Path(store.name))]
    columns = "_offset, city, _day, number, late, place.x AS x, by_name['one'] AS one"
    with duckdb.connect() as connection:
        query = f"SELECT {columns} FROM read_parquet($files, union_by_name = true, hive_partitioning = false)"
        duck = connection.execute(f"{query} ORDER BY _offset", {"files": files}).fetchall()
    wanted = [
        (each["_offset"], each["city"], each["_day"], each["number"], each["late"], (each["place"] or {}).get("x"), 1)
        for each in expected()
    ]
    assert duck == wanted
    frame = polars.concat([polars.scan_parquet(each, glob=False) for each in files], how="diagonal_relaxed")
    chosen = frame.select("_offset", "city", "_day", "number", "late", polars.col("place").struct.field("x"))
    assert chosen.sort("_offset").collect().rows() == [each[:6] for each in wanted]


def test_polars_reads_a_delta_table(store: Store, kind: str) -> None:
    if kind != "delta":
        pytest.skip("a Delta table only")
    polars = pytest.importorskip("polars")
    frame = polars.read_delta(store.name).sort("_offset").select("_offset", "city", "_day", "number", "late")
    assert frame.rows() == [
        (each["_offset"], each["city"], each["_day"], each["number"], each["late"]) for each in expected()
    ]


def test_an_empty_table_has_its_columns(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    from tailrace.spark import read_table
    from tailrace.spark.tables.store_at import store_at

    created(store_at(str(tmp_path / "empty"), kind))
    frame = read_table(str(tmp_path / "empty"), format=kind, session=spark)
    assert frame.count() == 0
    assert frame.columns[-1] == "_day"


def test_where_no_table_is_nothing_is_read(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    from tailrace.spark import read_table
    from tailrace.spark.errors import TableError

    with pytest.raises(TableError, match="no table"):
        read_table(str(tmp_path / "nothing"), format=kind, session=spark)


def opened(store: Store) -> Snapshot:
    found = store.open()
    assert found is not None
    return found
