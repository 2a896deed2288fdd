"""What the guide to Spark's Kafka integration shows, with one word changed: the format's name.

Batch writes have `.mode("append")` besides, which Spark wants of every source that is written in Python.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.spark.topics import T0, Row, Topics, numbered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

THE_WORD = "tailrace"
TIMEOUT_S = 120

COLUMNS = [
    ("key", "binary"),
    ("value", "binary"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("timestampType", "int"),
]
HEADERS = ("headers", "array<struct<key:string,value:binary>>")


def batch(spark: SparkSession, topics: Topics, **options: object) -> DataFrame:
    reader = spark.read.format(THE_WORD).option("kafka.bootstrap.servers", topics.bootstrap_servers)
    return reader.options(**options).load()


def stream(spark: SparkSession, topics: Topics, **options: object) -> DataFrame:
    reader = spark.readStream.format(THE_WORD).option("kafka.bootstrap.servers", topics.bootstrap_servers)
    return reader.options(**options).load()


def numbers(frame: DataFrame) -> list[int]:
    rows = frame.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)").collect()
    assert all(row.key == str(int(row.value) % 10) for row in rows)
    return sorted(int(row.value) for row in rows)


def appended_to(path: Path, frame: DataFrame, checkpoint: str, **trigger: Any) -> None:
    """Run the query to its end, into Parquet."""
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(path))
        .option("checkpointLocation", checkpoint)
        .trigger(**trigger)
        .start()
    )
    assert query.awaitTermination(TIMEOUT_S)
    assert query.exception() is None


# ---- batch queries ------------------------------------------------------------------------------------------------


def test_one_topic_from_earliest_to_latest_with_the_schema_of_sparks_source(
    spark: SparkSession, topics: Topics
) -> None:
    topic = topics.filled(50, partitions=2)
    frame = batch(spark, topics, subscribe=topic)
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema] == COLUMNS
    assert numbers(frame) == list(range(50))
    row = frame.where("CAST(value AS STRING) = '7'").selectExpr("*", "CAST(timestamp AS DOUBLE) AS at").collect()[0]
    assert (bytes(row.key), bytes(row.value), row.topic, row.partition, row.offset) == (b"7", b"7", topic, 1, 3)
    assert (row.at * 1000, row.timestampType) == (T0 + 7000, 0)


def test_headers_when_they_are_asked_for(spark: SparkSession, topics: Topics) -> None:
    topic = topics.make()
    headers = (("a", b"\x00\x01"), ("a", b"2"), ("none", None))
    topics.fill(topic, {0: [Row(b"with", headers=headers), Row(b"without")]})
    frame = batch(spark, topics, subscribe=topic, includeHeaders="true")
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema] == [*COLUMNS, HEADERS]
    first, second = frame.orderBy("offset").collect()
    assert [(each.key, each.value and bytes(each.value)) for each in first.headers] == list(headers)
    assert not second.headers


def test_several_topics_between_given_offsets(spark: SparkSession, topics: Topics) -> None:
    first, second = topics.filled(200, partitions=2), topics.filled(20)
    frame = batch(
        spark,
        topics,
        subscribe=f"{first},{second}",
        startingOffsets=json.dumps({first: {"0": 23, "1": -2}, second: {"0": -2}}),
        endingOffsets=json.dumps({first: {"0": 50, "1": -1}, second: {"0": -1}}),
    )
    found = {(row.topic, row.partition): (row.low, row.high) for row in bounds(frame).collect()}
    assert found == {(first, 0): (23, 49), (first, 1): (0, 99), (second, 0): (0, 19)}
    assert frame.count() == 27 + 100 + 20


def bounds(frame: DataFrame) -> DataFrame:
    return (
        frame.groupBy("topic", "partition")
        .agg({"offset": "min"})
        .withColumnRenamed("min(offset)", "low")
        .join(
            frame.groupBy("topic", "partition").agg({"offset": "max"}).withColumnRenamed("max(offset)", "high"),
            ["topic", "partition"],
        )
    )


def test_topics_by_pattern(spark: SparkSession, topics: Topics) -> None:
    stem = topics.name("pattern")
    for place in range(2):
        topic = topics.broker.create_topic(f"{stem}.{place}")
        topics.fill(topic, {0: [numbered(number) for number in range(place * 10, place * 10 + 10)]})
    topics.fill(topics.broker.create_topic(f"not-this-{stem[8:]}"), {0: [numbered(99)]})
    frame = batch(spark, topics, subscribePattern=f"{stem}.*", startingOffsets="earliest", endingOffsets="latest")
    assert numbers(frame) == list(range(20))


def test_assigned_partitions(spark: SparkSession, topics: Topics) -> None:
    topic = topics.filled(60, partitions=3)
    frame = batch(spark, topics, assign=json.dumps({topic: [0, 2]}))
    assert numbers(frame) == [number for number in range(60) if number % 3 != 1]


def test_between_timestamps_of_each_partition(spark: SparkSession, topics: Topics) -> None:
    topic = topics.filled(100, partitions=2)
    frame = batch(
        spark,
        topics,
        subscribe=topic,
        startingOffsetsByTimestamp=json.dumps({topic: {"0": T0 + 10_000, "1": T0 + 50_500}}),
        endingOffsetsByTimestamp=json.dumps({topic: {"0": T0 + 20_000, "1": T0 + 60_000}}),
    )
    assert numbers(frame) == [*range(10, 20, 2), *range(51, 60, 2)]


def test_between_timestamps_of_all_partitions(spark: SparkSession, topics: Topics) -> None:
    topic = topics.filled(100, partitions=2)
    frame = batch(spark, topics, subscribe=topic, startingTimestamp=T0 + 30_000, endingTimestamp=T0 + 40_000)
    assert numbers(frame) == list(range(30, 40))


def test_a_batch_in_more_pieces_than_partitions(spark: SparkSession, topics: Topics) -> None:
    topic = topics.filled(100, partitions=2)
    frame = batch(spark, topics, subscribe=topic, minPartitions=8)
    assert frame.rdd.getNumPartitions() >= 8
    assert numbers(frame) == list(range(100))


# ---- streaming queries --------------------------------------------------------------------------------------------


def test_a_stream_that_takes_what_is_there_now(
    spark: SparkSession, topics: Topics, checkpoint: str, tmp_path: Path
) -> None:
    topic = topics.filled(1000, partitions=2)
    frame = stream(spark, topics, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=400)
    for more in (0, 500):
        topics.add_numbered(topic, more, partitions=2, first=1000)
        appended_to(tmp_path / "out", frame, checkpoint, availableNow=True)
        assert numbers(spark.read.parquet(str(tmp_path / "out"))) == list(range(1000 + more))
    # 400 offsets at a time: three batches, and two more.
    assert len(list((Path(checkpoint) / "commits").glob("[0-9]*"))) == 5


@pytest.mark.filterwarnings("ignore:.*once.*:FutureWarning")
def test_a_stream_of_one_batch(spark: SparkSession, topics: Topics, checkpoint: str, tmp_path: Path) -> None:
    topic = topics.filled(100)
    frame = stream(spark, topics, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=10)
    appended_to(tmp_path / "out", frame, checkpoint, once=True)
    assert numbers(spark.read.parquet(str(tmp_path / "out"))) == list(range(100))


def test_a_stream_every_so_often(spark: SparkSession, topics: Topics, checkpoint: str) -> None:
    topic = topics.filled(10, partitions=2)
    frame = stream(spark, topics, subscribe=topic)  # from the latest offsets on: what comes after the start
    query = (
        frame.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
        .writeStream.format("memory")
        .queryName("every_so_often")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="50 milliseconds")
        .start()
    )
    try:
        query.processAllAvailable()
        for first in (10, 30):
            topics.add_numbered(topic, 20, partitions=2, first=first)
            query.processAllAvailable()
            assert numbers(spark.table("every_so_often")) == list(range(10, first + 20))
    finally:
        query.stop()


def test_a_stream_joined_with_a_table(spark: SparkSession, topics: Topics, checkpoint: str, tmp_path: Path) -> None:
    topic = topics.filled(20)
    names = spark.createDataFrame([(str(digit), f"name {digit}") for digit in range(5)], "digit string, name string")
    frame = stream(spark, topics, subscribe=topic, startingOffsets="earliest").selectExpr(
        "CAST(key AS STRING) AS digit", "CAST(value AS STRING) AS number"
    )
    appended_to(tmp_path / "out", frame.join(names, "digit"), checkpoint, availableNow=True)
    found = {(row.number, row.name) for row in spark.read.parquet(str(tmp_path / "out")).collect()}
    assert found == {(str(number), f"name {number % 10}") for number in range(20) if number % 10 < 5}


def test_two_streams_joined(spark: SparkSession, topics: Topics, checkpoint: str, tmp_path: Path) -> None:
    """Impressions and clicks, as the guide to streaming has them: a click within ten seconds counts."""
    shown, clicked = topics.make("shown"), topics.make("clicked")
    topics.fill(shown, {0: [Row(b"ad-%d" % n, timestamp_ms=T0 + n * 1000) for n in range(20)]})
    late = {n: 30_000 if n % 5 == 0 else 4000 for n in range(20)}
    topics.fill(clicked, {0: [Row(b"ad-%d" % n, timestamp_ms=T0 + n * 1000 + late[n]) for n in range(20)]})

    def ads(topic: str, side: str) -> DataFrame:
        frame = stream(spark, topics, subscribe=topic, startingOffsets="earliest")
        ad, at = f"CAST(value AS STRING) AS {side}_ad", f"timestamp AS {side}_at"
        return frame.selectExpr(ad, at).withWatermark(f"{side}_at", "1 minute")

    joined = ads(shown, "shown").join(
        ads(clicked, "clicked"),
        on=_expr("shown_ad = clicked_ad AND clicked_at BETWEEN shown_at AND shown_at + INTERVAL 10 SECONDS"),
    )
    appended_to(tmp_path / "out", joined, checkpoint, availableNow=True)
    found = {row.shown_ad for row in spark.read.parquet(str(tmp_path / "out")).collect()}
    assert found == {f"ad-{n}" for n in range(20) if n % 5}


def test_counts_in_windows_with_a_watermark(
    spark: SparkSession, topics: Topics, checkpoint: str, tmp_path: Path
) -> None:
    from pyspark.sql.functions import col, window

    topic = topics.filled(120, partitions=2)
    frame = stream(spark, topics, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=60)
    counts = (
        frame.withWatermark("timestamp", "10 seconds")
        .groupBy(window(col("timestamp"), "20 seconds"))
        .count()
        .selectExpr("CAST(window.start AS LONG) AS start", "count")
    )
    appended_to(tmp_path / "out", counts, checkpoint, availableNow=True)
    found = {row.start: row["count"] for row in spark.read.parquet(str(tmp_path / "out")).collect()}
    # Windows that the watermark (T0 + 119 s − 10 s) has passed are complete; the others are not given out yet.
    assert found == {T0 // 1000 + start: 20 for start in range(0, 100, 20)}


def test_a_function_of_each_batch(spark: SparkSession, topics: Topics, checkpoint: str, tmp_path: Path) -> None:
    topic = topics.filled(100)
    seen: list[tuple[int, int]] = []

    def to_two_places(frame: DataFrame, batch_id: int) -> None:
        frame.persist()
        seen.append((batch_id, frame.count()))
        frame.write.mode("append").parquet(str(tmp_path / "one"))
        frame.write.mode("append").parquet(str(tmp_path / "two"))
        frame.unpersist()

    query = (
        stream(spark, topics, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=50)
        .writeStream.foreachBatch(to_two_places)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(TIMEOUT_S)
    assert seen == [(0, 50), (1, 50)]
    for place in ("one", "two"):
        assert numbers(spark.read.parquet(str(tmp_path / place))) == list(range(100))


# ---- writing ------------------------------------------------------------------------------------------------------


def write_batch(frame: DataFrame, topics: Topics, **options: str) -> None:
    writer = frame.write.format(THE_WORD).option("kafka.bootstrap.servers", topics.bootstrap_servers)
    writer.options(**options).mode("append").save()


def test_a_batch_to_the_topic_of_an_option(spark: SparkSession, topics: Topics) -> None:
    topic = topics.make(partitions=2)
    frame = spark.range(100).selectExpr("CAST(id % 10 AS STRING) AS key", "CAST(id AS STRING) AS value")
    write_batch(frame, topics, topic=topic)
    assert numbers(batch(spark, topics, subscribe=topic)) == list(range(100))


def test_a_batch_fans_out_by_its_topic_column(spark: SparkSession, topics: Topics) -> None:
    even, odd = topics.make("even"), topics.make("odd")
    frame = spark.range(100).selectExpr(
        f"IF(id % 2 = 0, '{even}', '{odd}') AS topic", "CAST(id % 10 AS STRING) AS key", "CAST(id AS STRING) AS value"
    )
    write_batch(frame, topics)
    for topic, first in ((even, 0), (odd, 1)):
        assert numbers(batch(spark, topics, subscribe=topic)) == list(range(first, 100, 2))


def test_a_batch_with_headers_and_partitions(spark: SparkSession, topics: Topics) -> None:
    topic = topics.make(partitions=3)
    frame = spark.range(30).selectExpr(
        "CAST(id AS STRING) AS value",
        "CAST(id % 3 AS INT) AS partition",
        "array(named_struct('key', 'n', 'value', CAST(CAST(id AS STRING) AS BINARY))) AS headers",
    )
    write_batch(frame, topics, topic=topic, includeHeaders="true")
    for partition, rows in topics.rows(topic).items():
        assert sorted(int(row.value or b"") for row in rows) == list(range(partition, 30, 3))
        assert all(row.headers == (("n", row.value),) and row.key is None for row in rows)


def write_stream(frame: DataFrame, topics: Topics, checkpoint: str, **options: str) -> None:
    query = (
        frame.writeStream.format(THE_WORD)
        .option("kafka.bootstrap.servers", topics.bootstrap_servers)
        .option("checkpointLocation", checkpoint)
        .options(**options)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(TIMEOUT_S)
    assert query.exception() is None


def test_a_stream_to_the_topic_of_an_option(spark: SparkSession, topics: Topics, checkpoint: str) -> None:
    topic, copy = topics.filled(100, partitions=2), topics.make("copy", 3)
    frame = stream(spark, topics, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=60)
    write_stream(frame.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)"), topics, checkpoint, topic=copy)
    assert numbers(batch(spark, topics, subscribe=copy)) == list(range(100))


def test_a_stream_fans_out_by_its_topic_column(spark: SparkSession, topics: Topics, checkpoint: str) -> None:
    topic, even, odd = topics.filled(100), topics.make("even"), topics.make("odd")
    frame = stream(spark, topics, subscribe=topic, startingOffsets="earliest").selectExpr(
        f"IF(CAST(CAST(value AS STRING) AS INT) % 2 = 0, '{even}', '{odd}') AS topic", "key", "value"
    )
    write_stream(frame, topics, checkpoint)
    for name, first in ((even, 0), (odd, 1)):
        assert numbers(batch(spark, topics, subscribe=name)) == list(range(first, 100, 2))


def test_each_batch_of_a_stream_to_two_topics(spark: SparkSession, topics: Topics, checkpoint: str) -> None:
    topic, one, two = topics.filled(50), topics.make("one"), topics.make("two")

    def to_two_topics(frame: DataFrame, batch_id: int) -> None:
        for name in (one, two):
            write_batch(frame.select("key", "value"), topics, topic=name)

    query = (
        stream(spark, topics, subscribe=topic, startingOffsets="earliest")
        .writeStream.foreachBatch(to_two_topics)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(TIMEOUT_S)
    for name in (one, two):
        assert numbers(batch(spark, topics, subscribe=name)) == list(range(50))


def _expr(text: str) -> Any:
    from pyspark.sql.functions import expr

    return expr(text)
