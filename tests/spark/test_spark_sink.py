"""The sink, at least once: what a query gives is what the topic has."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from support.spark.topics import T0, Row, Topics
from tailrace.client.partitioner import partition_of_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameWriter

HEADERS = "headers array<struct<key:string,value:binary>>"


def writer(topics: Topics, frame: DataFrame, **options: object) -> DataFrameWriter:
    given = {"kafka.bootstrap.servers": topics.bootstrap_servers, **options}
    return frame.write.format("tailrace").mode("append").options(**given)


def refusal(topics: Topics, frame: DataFrame, **options: object) -> str:
    """The text that a failed write shows."""
    with pytest.raises(Exception) as told:  # Spark has one for every place it fails in
        writer(topics, frame, **options).save()
    return str(told.value)


def frame_of(spark: SparkSession, rows: Iterable[tuple[Any, ...]], schema: str, partitions: int = 1) -> DataFrame:
    return spark.createDataFrame(list(rows), schema).coalesce(partitions)


def test_keys_choose_partitions_as_everywhere(spark: SparkSession, topics: Topics) -> None:
    topic = topics.make("keys", 3)
    frame = spark.range(0, 10_000, 1, 2).selectExpr("CAST(id % 100 AS STRING) AS key", "CAST(id AS STRING) AS value")
    writer(topics, frame, topic=topic).save()
    found = topics.rows(topic)
    assert sorted(int(row.value or b"") for rows in found.values() for row in rows) == list(range(10_000))
    for partition, rows in found.items():
        assert {partition_of_key(row.key or b"", 3) for row in rows} == {partition}
        assert all(b"%d" % (int(row.value or b"") % 100) == row.key for row in rows)


def test_every_column_arrives(spark: SparkSession, topics: Topics) -> None:
    one, two = topics.make("one", 2), topics.make("two", 2)
    when = datetime.fromtimestamp(T0 / 1000, UTC)
    pairs = [("h", b"1"), ("h", b"2"), ("none", None)]
    rows = [
        (one, b"key", b"value", pairs, 1, when, 5),
        (two, None, b"", [], 0, when, 6),
        (one, b"", None, None, 1, when, 7),
    ]
    columns = f"topic string, key binary, value binary, {HEADERS}, partition int, timestamp timestamp, other long"
    writer(topics, frame_of(spark, rows, columns)).save()
    assert topics.rows(one) == {0: [], 1: [Row(b"value", b"key", T0, tuple(pairs)), Row(None, b"", T0)]}
    assert topics.rows(two) == {0: [Row(b"", None, T0)], 1: []}


def test_the_option_goes_before_the_column(spark: SparkSession, topics: Topics) -> None:
    topic = topics.make("option")
    frame = frame_of(spark, [("elsewhere", "a"), (None, "b")], "topic string, value string")
    writer(topics, frame, topic=topic).save()
    assert topics.values(topic) == [b"a", b"b"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_client_options_are_taken(spark: SparkSession, topics: Topics, codec: str) -> None:
    topic = topics.make(codec)
    options = {"topic": topic, "kafka.compression.type": codec, "kafka.batch.size": "5000", "kafka.acks": "1"}
    writer(topics, spark.range(1000).selectExpr("CAST(id AS STRING) AS value"), **options).save()
    assert sorted(int(value or b"") for value in topics.values(topic)) == list(range(1000))


@pytest.mark.parametrize(
    ("rows", "columns", "text"),
    [
        ([("a",)], "value string", "topic option required when no 'topic' attribute is present"),
        ([("TOPIC",)], "topic string", "Required attribute 'value' not found"),
        ([("TOPIC", 1)], "topic string, value int", "value attribute unsupported type int. value must be a(n) string"),
        ([(None, "a")], "topic string, value string", "null topic present in the data. Use the topic option"),
        (
            [("TOPIC", "a", 3)],
            "topic string, value string, partition int",
            "a row names partition 3 of topic TOPIC, which has partitions 0 to 1",
        ),
        ([("TOPIC", "a" * 1_500_000)], "topic string, value string", r"1 records of 15000\d\d bytes to TOPIC-[01]: "),
    ],
)
def test_rows_that_are_refused(
    spark: SparkSession, topics: Topics, rows: list[tuple[Any, ...]], columns: str, text: str
) -> None:
    topic = topics.make("refused", 2)
    named = [tuple(topic if each == "TOPIC" else each for each in row) for row in rows]
    told = refusal(topics, frame_of(spark, named, columns))
    wanted = text if "\\d" in text else re.escape(text)
    assert re.search(wanted.replace("TOPIC", re.escape(topic)), told)
    assert topics.values(topic) == []


def test_a_log_is_not_overwritten(spark: SparkSession, topics: Topics) -> None:
    topic = topics.filled(3)
    frame = frame_of(spark, [("a",)], "value string")
    with pytest.raises(Exception, match="mode overwrite is refused"):
        writer(topics, frame, topic=topic).mode("overwrite").save()
    assert len(topics.values(topic)) == 3


def test_a_stream_is_written(spark: SparkSession, topics: Topics, checkpoint: str) -> None:
    source, target = topics.filled(500, stem="in", partitions=2), topics.make("out", 3)
    query = (
        spark.readStream.format("tailrace")
        .option("kafka.bootstrap.servers", topics.bootstrap_servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "200")
        .load()
        .select("key", "value", "timestamp")
        .writeStream.format("tailrace")
        .option("kafka.bootstrap.servers", topics.bootstrap_servers)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    assert query.exception() is None
    found = {row.value: row for rows in topics.rows(target).values() for row in rows}
    given = {row.value: row for rows in topics.rows(source).values() for row in rows}
    assert found == given
    assert len(topics.values(target)) == 500


def test_a_stream_with_a_wrong_column_does_not_start(spark: SparkSession, topics: Topics, checkpoint: str) -> None:
    query = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", "10")
        .load()
        .writeStream.format("tailrace")
        .option("kafka.bootstrap.servers", topics.bootstrap_servers)
        .option("topic", topics.make("wrong"))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(Exception, match="value attribute unsupported type bigint"):
        query.awaitTermination(60)
