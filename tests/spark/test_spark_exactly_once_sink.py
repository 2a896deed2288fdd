"""The exactly-once sink of streams, and batches that are written whole or not at all, in Spark itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.spark.topics import Topics
from tailrace.client.cluster import Cluster
from tailrace.client.offsets import LATEST, READ_COMMITTED, find_offsets
from tailrace.client.transaction_admin import TransactionAdmin
from tailrace.model.ids import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FAILS_AT_777 = "assert_true(offset <> 777) IS NULL"


def source(spark: SparkSession, topics: Topics, topic: str, rows_per_batch: int) -> DataFrame:
    return (
        spark.readStream.format("tailrace")
        .option("kafka.bootstrap.servers", topics.bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", rows_per_batch)
        .load()
    )


def copy(topics: Topics, frame: DataFrame, topic: str, sink_id: str, checkpoint: str) -> None:
    (
        frame.writeStream.format("tailrace")
        .option("kafka.bootstrap.servers", topics.bootstrap_servers)
        .option("topic", topic)
        .option("delivery", "exactly-once")
        .option("sinkId", sink_id)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )


def committed(topics: Topics, topic: str) -> list[int]:
    """Numbers of the rows that a read_committed reader gets. Waits until nothing is open in front of the end."""
    with Cluster(topics.bootstrap_servers) as cluster:
        partitions = [TopicPartition(topic, number) for number in cluster.topic(topic).partitions]
        points = dict.fromkeys(partitions, LATEST)
        deadline, backoff = cluster.deadline(), cluster.backoff()
        while find_offsets(cluster, points) != find_offsets(cluster, points, isolation=READ_COMMITTED):
            deadline.check("waiting for transactions to end")
            backoff.wait(deadline)
    return sorted(int(value or b"") for value in topics.values(topic))


def test_a_stream_is_copied_once(spark: SparkSession, topics: Topics, checkpoint: str) -> None:
    one, two = topics.filled(900, partitions=2), topics.make("copy", 2)
    frame = source(spark, topics, one, 300).select("value")
    copy(topics, frame.repartition(2), two, two, checkpoint)
    assert committed(topics, two) == list(range(900))
    topics.add_numbered(one, 100, partitions=2, first=900)
    copy(topics, frame.repartition(3), two, two, checkpoint)
    assert committed(topics, two) == list(range(1000))
    with Cluster(topics.bootstrap_servers) as cluster:
        listed = TransactionAdmin(cluster).transactions()
    ids = [each.transactional_id for each in listed if each.transactional_id.startswith(f"{two}-")]
    assert len(ids) <= 1 + 2 * 3, "ids of one batch are those of the next"


def test_a_batch_that_is_run_again_writes_nothing(spark: SparkSession, topics: Topics, checkpoint: str) -> None:
    one, two = topics.filled(200), topics.make("copy", 2)
    frame = source(spark, topics, one, 100).select("value").repartition(2)
    copy(topics, frame, two, two, checkpoint)
    commits = Path(checkpoint) / "commits"
    last = max((each for each in commits.iterdir() if each.name.isdigit()), key=lambda each: int(each.name))
    for name in (last.name, f".{last.name}.crc"):
        (commits / name).unlink(missing_ok=True)  # as if the driver had died before it wrote it
    copy(topics, frame, two, two, checkpoint)
    assert committed(topics, two) == list(range(200))


def test_a_batch_that_fails_leaves_nothing(spark: SparkSession, topics: Topics, checkpoint: str) -> None:
    one, two = topics.filled(1000), topics.make("copy")
    rows = source(spark, topics, one, 600)
    with pytest.raises(Exception, match="777"):
        copy(topics, rows.where(FAILS_AT_777).select("value"), two, two, checkpoint)
    assert committed(topics, two) == list(range(600))
    copy(topics, rows.select("value"), two, two, checkpoint)
    assert committed(topics, two) == list(range(1000))


def test_a_transactional_batch_is_whole(spark: SparkSession, topics: Topics) -> None:
    topic = topics.make("batch", 2)
    options = {"kafka.bootstrap.servers": topics.bootstrap_servers, "topic": topic, "transactional": "true"}
    rows = spark.range(0, 500, 1, 3).selectExpr("CAST(id AS STRING) AS value")
    rows.write.format("tailrace").mode("append").options(**options).save()
    assert committed(topics, topic) == list(range(500))
    more = spark.range(500, 600, 1, 2).selectExpr("CAST(id AS STRING) AS value")
    for _ in range(2):
        more.write.format("tailrace").mode("append").options(**options, sinkId=topic).save()
    assert committed(topics, topic) == sorted([*range(500), *range(500, 600), *range(500, 600)])


def test_a_transactional_batch_that_fails_leaves_nothing(spark: SparkSession, topics: Topics) -> None:
    topic = topics.make("batch", 2)
    options = {"kafka.bootstrap.servers": topics.bootstrap_servers, "topic": topic, "transactional": "true"}
    rows = spark.range(0, 500, 1, 3).where("assert_true(id <> 499) IS NULL").selectExpr("CAST(id AS STRING) AS value")
    with pytest.raises(Exception, match="499"):
        rows.write.format("tailrace").mode("append").options(**options).save()
    assert committed(topics, topic) == []
