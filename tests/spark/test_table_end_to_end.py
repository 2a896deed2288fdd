"""Tables of a broker's topic, made by Spark: all formats and modes, read back by others and by Spark."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.spark.topics import Row, Topics
from support.tables.harness import BUCKETS, COMBINATIONS
from support.tables.model import Record, TableModel
from support.tables.readers import dead_letters_at, rows_at
from support.tables.records import decode, records
from tailrace.spark import TableJob, TableReport, read_table, table
from tailrace.spark.errors import PipelineError
from tailrace.spark.tables.table import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL = pytest.mark.parametrize(("kind", "mode"), COMBINATIONS)
PARTITIONS = 3
FIRST = 1_500
RECORDS = 3_000
WAIT_S = 60


def come(topics: Topics, topic: str, model: TableModel, found: Iterable[Record]) -> None:
    listed = list(found)
    by_partition = {
        number: [
            Row(each.value, each.key, each.timestamp_ms, each.headers) for each in listed if each.partition == number
        ]
        for number in range(PARTITIONS)
    }
    topics.fill(topic, by_partition)
    model.add(listed)


def check(model: TableModel, kind: str, place: Path) -> None:
    differences = model.differences(rows_at(kind, place), dead_letters_at(kind, place))
    assert not differences, "\n".join(differences)


@ALL
def test_a_table_follows_its_topic(kind: str, mode: str, spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topic, place = topics.make("table", PARTITIONS), tmp_path / "orders"
    model = TableModel(mode, decode, topic, BUCKETS)
    stream = records(RECORDS, 11)
    given: dict[str, Any] = {"to": str(place), "brokers": topics.bootstrap_servers, "format": kind, "mode": mode}
    given |= {"value": "json", "session": spark}
    given |= {"buckets": BUCKETS} if mode == "upsert" else {"partition_by": "_day"}
    told: list[Progress] = []

    come(topics, topic, model, itertools.islice(stream, FIRST))
    first = table(topic, **given, options={"inferRecords": 200}, told=told.append)
    assert isinstance(first, TableReport)
    assert (first.created, first.batches, first.records) == (True, 1, FIRST)
    assert {each.doing for each in told} >= {"reading", "committing", "retaining"}
    check(model, kind, place)

    come(topics, topic, model, stream)
    second = table(topic, **given, options={"maxOffsetsPerTrigger": 600})
    assert isinstance(second, TableReport)
    assert (second.batches, second.records) == (3, RECORDS - FIRST)
    check(model, kind, place)

    frame = read_table(str(place), format=kind, session=spark)
    assert frame.count() == len(model.rows())
    total = frame.selectExpr("sum(number)", "count(late_1)").first()
    rows = [decode(each.value) for each in visible(model)]
    assert tuple(total) == (sum(each["number"] for each in rows), sum(each.get("late_1") is not None for each in rows))


def visible(model: TableModel) -> list[Record]:
    """Those with a value among the records that have a row."""
    if model.mode == "append":
        found = [record for record, _ in model._appended.values()]
    else:
        newest = (each.values() for each in model._newest.values())
        found = [max((record for record, _ in each), key=lambda one: one.order) for each in newest]
    return [record for record in found if record.value is not None]


def test_a_job_goes_on_until_it_is_stopped(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topic, place = topics.make("running", PARTITIONS), tmp_path / "orders"
    model = TableModel("append", decode, topic)
    stream = records(600, 3)
    job = table(topic, to=str(place), brokers=topics.bootstrap_servers, value="json", trigger="200ms", session=spark)
    assert isinstance(job, TableJob)
    for _ in range(3):
        come(topics, topic, model, itertools.islice(stream, 200))
        wanted = len(model.rows()) + len(model.dead)
        for _ in range(WAIT_S * 10):
            if job.report.rows + job.report.dead_letters == wanted or job.wait(0.1):
                break
    assert job.status().behind == 0
    report = job.stop()
    assert not job.is_running
    assert (report.records, report.rows) == (600, len(model.rows()))
    check(model, "delta", place)


def test_what_is_wrong_with_a_running_job_is_told(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topic = topics.filled(5)
    (tmp_path / "notes.txt").write_text("mine")
    job = table(topic, to=str(tmp_path), brokers=topics.bootstrap_servers, trigger="1s", session=spark)
    with pytest.raises(PipelineError, match="nothing there was touched"):
        job.wait(WAIT_S)
    assert (tmp_path / "notes.txt").read_text() == "mine"
