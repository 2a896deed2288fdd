"""The jobs of a table's tasks on Spark: what comes back, what is told meanwhile, and how faults come back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from support.spark.directory_source import START_MS
from support.tables import tasks as table_tasks
from support.tables.tasks import (
    BAD,
    Record,
    TextPlan,
    append_target,
    files_in,
    reading_of,
    rows_of,
    target_of,
    write_records,
)
from tailrace.model.ids import TopicPartition
from tailrace.spark.errors import DataLossError, TableError
from tailrace.spark.source.ranges import OffsetRange
from tailrace.spark.tables import columns
from tailrace.spark.tables.store import DataFile, FileTarget
from tailrace.spark.tables.tasks import Bucketed, Tally, run_append, run_compact, run_upsert
from tailrace.spark.tables.tasks.buckets import bucket_of
from tailrace.spark.tables.tasks.reading import TASKS_A_CORE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUCKETS = 4


def piece(partition: int, start: int, end: int) -> OffsetRange:
    return OffsetRange(TopicPartition("t", partition), start, end)


@pytest.fixture(autouse=True)
def plan_goes_to_workers() -> Iterator[None]:
    """They do not find modules of tests: the plan's code goes with it."""
    cloudpickle.register_pickle_by_value(table_tasks)
    yield
    cloudpickle.unregister_pickle_by_value(table_tasks)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two partitions of 100 records, of which each tenth is bad."""
    for partition in range(2):
        records: list[Record] = [(b"%d" % (n % 30), BAD if n % 10 == 9 else b"%d" % n) for n in range(100)]
        write_records(tmp_path / "log", partition, records)
    return tmp_path / "log"


def test_an_append_gives_files_of_all_pieces(spark: SparkSession, tmp_path: Path, log: Path) -> None:
    told: list[Tally] = []
    reading, target = reading_of(log, tmp_path), append_target(tmp_path / "table", TextPlan())
    pieces = [piece(0, 0, 50), piece(0, 50, 100), piece(1, 0, 100)]
    done = run_append(spark, reading, target, pieces, told.append)
    assert (done.rows, done.dead_rows, len(done.adds), len(done.dead_adds), done.discovered) == (180, 20, 3, 3, [])
    expected = [(partition, n) for partition in range(2) for n in range(100) if n % 10 != 9]
    assert [(row["_partition"], row["_offset"]) for row in rows_of(target, done.adds)] == expected
    assert told[-1] == Tally("read", 1, 1, 200), "small pieces share a task"
    assert all(file.footer is not None and file.footer.num_rows == file.rows for file in done.adds)
    assert run_append(spark, reading, target, [], None).adds == []


def test_faults_come_back_as_what_they_were_and_leave_no_files(spark: SparkSession, tmp_path: Path, log: Path) -> None:
    place = tmp_path / "tables"
    reading, target = reading_of(log, place), append_target(place / "table", TextPlan())
    with pytest.raises(DataLossError, match=r"t-1: offsets 100 to 199 are lost"):
        run_append(spark, reading, target, [piece(0, 0, 100), piece(1, 0, 200)])
    main, hidden = tables(place)
    with pytest.raises(DataLossError, match=r"t-1: offsets 100 to 199 are lost"):
        run_upsert(spark, reading, Bucketed(main, {}), Bucketed(hidden, {}), BUCKETS, [piece(1, 0, 200)])
    missing = DataFile("_bucket=0/none.parquet", {"_bucket": "0"}, 1, 1)
    files = {bucket: [missing] for bucket in range(BUCKETS)}
    with pytest.raises(TableError, match=r"is in the table, and is not there"):
        run_upsert(spark, reading, Bucketed(main, files), Bucketed(hidden, {}), BUCKETS, [piece(0, 0, 100)])
    assert files_in(place) == []


def test_discoveries_of_all_pieces_come_back(spark: SparkSession, tmp_path: Path) -> None:
    for partition, name in enumerate((b"!one", b"!two")):
        write_records(tmp_path / "log", partition, [(b"k", b"x"), (b"k", name)])
    place = tmp_path / "tables"
    reading, target = reading_of(tmp_path / "log", place), append_target(place / "table", TextPlan())
    pieces = [piece(0, 0, 2), piece(1, 0, 2)]
    done = run_append(spark, reading, target, pieces)
    assert sorted(name for each in done.discovered for name in each.fields) == ["one", "two"]
    main, hidden = tables(place)
    merged = run_upsert(spark, reading, Bucketed(main, {}), Bucketed(hidden, {}), BUCKETS, pieces)
    assert sorted(name for each in merged.discovered for name in each.fields) == ["one", "two"]
    assert files_in(place) == []


def test_many_buckets_are_merged_by_few_tasks(spark: SparkSession, tmp_path: Path, log: Path) -> None:
    told: list[Tally] = []
    reading = reading_of(log, tmp_path)
    main, hidden = tables(tmp_path)
    pieces = [piece(0, 0, 100), piece(1, 0, 100)]
    done = run_upsert(spark, reading, Bucketed(main, {}), Bucketed(hidden, {}), 300, pieces, told.append)
    keys = {b"%d" % (n % 30): n for n in range(100) if n % 10 != 9}
    assert {row["_key"]: (row["_partition"], row["_offset"]) for row in rows_of(main, done.adds)} == {
        key: (1, n) for key, n in keys.items()
    }
    assert all(file.partition["_bucket"] is not None and file.rows >= 1 for file in done.adds)
    buckets = [file.partition["_bucket"] for file in done.adds]
    assert sorted(buckets) == sorted({str(bucket_of(key, 300)) for key in keys})
    most = TASKS_A_CORE * spark.sparkContext.defaultParallelism
    assert len(buckets) > most
    assert told[-1] == Tally("merge", most, most, 200)


def test_upserts_rewrite_the_buckets_that_they_touch(spark: SparkSession, tmp_path: Path, log: Path) -> None:
    told: list[Tally] = []
    reading = reading_of(log, tmp_path)
    main, hidden = tables(tmp_path)
    first = run_upsert(
        spark,
        reading,
        Bucketed(main, {}),
        Bucketed(hidden, {}),
        BUCKETS,
        [piece(0, 0, 60), piece(0, 60, 100), piece(1, 0, 100)],
        told.append,
    )
    # The same keys at the same times in both partitions: the second goes before the first.
    keys = {b"%d" % (n % 30): n for n in range(100) if n % 10 != 9}
    assert (first.rows, first.deleted, first.dead_rows, first.removes, first.hidden_removes) == (27, 0, 20, [], [])
    assert {row["_key"]: (row["_partition"], row["_offset"]) for row in rows_of(main, first.adds)} == {
        key: (1, n) for key, n in keys.items()
    }
    assert {row["_key"]: (row["_partition"], row["_offset"]) for row in rows_of(hidden, first.hidden_adds)} == {
        key: (0, n) for key, n in keys.items()
    }
    assert [tally for tally in told if tally.tasks_done == tally.tasks] == [
        Tally("read", 1, 1, 200),
        Tally("merge", BUCKETS, BUCKETS, 200),
    ]

    write_records(log, 1, [(b"7", None, START_MS + 1000)])
    second = run_upsert(
        spark,
        reading,
        Bucketed(main, by_bucket(first.adds)),
        Bucketed(hidden, by_bucket(first.hidden_adds)),
        BUCKETS,
        [piece(1, 100, 101)],
    )
    (bucket,) = {file.partition["_bucket"] for file in second.removes}
    assert (second.rows, second.deleted) == (0, 1)
    assert second.removes == by_bucket(first.adds)[int(bucket or "")]
    assert sum(file.rows for file in second.adds) == sum(file.rows for file in second.removes) - 1
    assert second.hidden_removes == by_bucket(first.hidden_adds)[int(bucket or "")]
    assert [row["_key"] for row in rows_of(hidden, second.hidden_adds) if row["_deleted"]] == [b"7"]


def test_compaction_makes_one_file_of_each_group(spark: SparkSession, tmp_path: Path, log: Path) -> None:
    reading = replace(reading_of(log, tmp_path), codec="zstd")
    target = append_target(tmp_path / "table", TextPlan(), ("_day",), holds=False)
    pieces = [piece(partition, start, start + 20) for partition in range(2) for start in range(0, 100, 20)]
    small = run_append(spark, reading, target, pieces).adds
    told: list[Tally] = []
    large = run_compact(spark, target, [small[:5], small[5:]], told.append)
    assert [file.rows for file in large] == [90, 90]
    assert rows_of(target, large) == rows_of(target, small)
    assert [file.partition for file in large] == [small[0].partition] * 2
    assert told[-1] == Tally("compact", 2, 2, 0)


def tables(place: Path) -> tuple[FileTarget, FileTarget]:
    fields = TextPlan().fields
    main, hidden = columns.upsert_schema(pa.binary(), fields), columns.hidden_schema(pa.binary(), fields)
    by: tuple[str, ...] = ("_bucket",)
    return target_of(place / "main", main, by, holds=False), target_of(place / "hidden", hidden, by, holds=False)


def by_bucket(files: list[DataFile]) -> dict[int, list[DataFile]]:
    found: dict[int, list[DataFile]] = defaultdict(list)
    for file in files:
        found[int(file.partition["_bucket"] or "")].append(replace(file, footer=None))
    return dict(found)
