"""A DataFrame and a stream from the files of a log directory."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from golden.corpus import load
from support.spark.directory_source import (
    PARTITION,
    START_MS,
    bases_of,
    expected_rows,
    log_dir_of,
    note,
    segment_file,
    write_log,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def _frame(spark: SparkSession, path: Path, topic: str = "t", **options: str) -> DataFrame:
    return spark.read.format("tailrace").option("subscribe", topic).options(**options).load(str(path))


def _offsets(frame: DataFrame) -> list[int]:
    return sorted(row.offset for row in frame.select("offset").collect())


def test_a_directory_is_a_frame(spark: SparkSession, tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", [5] * 60)
    write_log(tmp_path / "t-1", [3] * 4)
    rows = _frame(spark, tmp_path).collect()
    assert len(rows) == 312
    first = [row for row in sorted(rows, key=lambda row: row.offset) if row.partition == 0]
    expected = expected_rows(folder, 0, 300)
    assert [(row.offset, bytes(row.key), bytes(row.value)) for row in first] == [(o, k, v) for o, _, k, v in expected]
    assert {(row.topic, row.timestampType) for row in rows} == {("t", 0)}


def test_filters_are_pushed_to_the_files(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", [5] * 60)
    since = datetime.fromtimestamp((START_MS + 280) / 1000, UTC)
    before = spark.conf.get(PUSHDOWN)
    spark.conf.set(PUSHDOWN, "true")
    try:
        frame = _frame(spark, tmp_path, filterPushdown="true")
        assert _offsets(frame.where("offset >= 100 and offset < 103")) == [100, 101, 102]
        assert _offsets(frame.where(frame.timestamp >= since)) == list(range(280, 300))
    finally:
        spark.conf.set(PUSHDOWN, before)  # other tests share the session


def test_only_committed_records_of_kafkas_own_files(spark: SparkSession, tmp_path: Path) -> None:
    golden = load("killed-transactions")
    directory = log_dir_of(golden, tmp_path / "logs")
    stable = golden.expected["answers"]["latest_read_committed"][0]
    wanted = [row[0] for row in expected_rows(golden.folder, 0, stable, committed=True)]
    frame = _frame(spark, directory, golden.name, **{"kafka.isolation.level": "read_committed"})
    assert _offsets(frame) == wanted


def test_a_stream_goes_on_where_it_ended(spark: SparkSession, tmp_path: Path, checkpoint: str) -> None:
    path = tmp_path / "logs"
    out = str(tmp_path / "out")

    def run() -> list[int]:
        stream = spark.readStream.format("tailrace").option("subscribe", "t").option("path", str(path))
        frame = stream.option("startingOffsets", "earliest").load().select("offset")
        writer = frame.writeStream.format("parquet").option("path", out).option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
        return _offsets(spark.read.parquet(out))

    write_log(path / "t-0", [5] * 10)
    note(path, "replication-offset-checkpoint", {PARTITION: 35})
    assert run() == list(range(35))
    write_log(path / "t-0", [5] * 10)
    note(path, "replication-offset-checkpoint", {PARTITION: 100})
    assert run() == list(range(100))


def test_what_is_lost_is_in_the_error(spark: SparkSession, tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", [5] * 60)
    _, second, third, *_ = bases_of(folder)
    segment_file(folder, second).unlink()
    with pytest.raises(Exception, match=f"t-0: offsets {second} to {third - 1} are lost"):
        _frame(spark, tmp_path).collect()
    assert len(_offsets(_frame(spark, tmp_path, failOnDataLoss="false"))) == 300 - (third - second)
