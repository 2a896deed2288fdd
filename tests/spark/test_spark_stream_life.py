"""What happens to a stream while it runs: brokers go and come back, topics grow, go, and are made again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.spark.topics import Topics
from tailrace.client.admin import Admin
from tailrace.client.cluster import Cluster
from tailrace.client.coordinators import GROUP, Coordinators
from tailrace.client.group_offsets import fetch_offsets
from tailrace.model.ids import TopicPartition
from tailrace.testing.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

TIMEOUT_S = 120
SECRET = "a-secret-that-nobody-may-see"


class Stream:
    """A query that keeps the numbers it saw, batch by batch."""

    def __init__(self, spark: SparkSession, topics: Topics, checkpoint: str, **options: object) -> None:
        reader = spark.readStream.format("tailrace").option("kafka.bootstrap.servers", topics.bootstrap_servers)
        self._frame = reader.options(**{"startingOffsets": "earliest", **options}).load()
        self._checkpoint = checkpoint
        self.batches: list[list[int]] = []

    def start(self, **trigger: Any) -> StreamingQuery:
        writer = self._frame.writeStream.foreachBatch(self._keep).option("checkpointLocation", self._checkpoint)
        return writer.trigger(**(trigger or {"processingTime": "50 milliseconds"})).start()

    def run(self) -> None:
        """Everything that is there now."""
        query = self.start(availableNow=True)
        assert query.awaitTermination(TIMEOUT_S)

    def _keep(self, frame: DataFrame, batch_id: int) -> None:
        rows = frame.selectExpr("CAST(CAST(value AS STRING) AS INT) AS number").collect()
        self.batches.append(sorted(row.number for row in rows))

    @property
    def numbers(self) -> list[int]:
        return sorted(number for batch in self.batches for number in batch)


@pytest.fixture
def own_topics() -> Iterator[Topics]:
    """Of a broker that the test may kill."""
    with Broker({"log.retention.ms": -1}) as broker:
        yield Topics(broker)


def test_a_query_survives_a_broker_that_is_killed(spark: SparkSession, own_topics: Topics, checkpoint: str) -> None:
    topic = own_topics.filled(100, partitions=2)
    stream = Stream(spark, own_topics, checkpoint, subscribe=topic)
    query = stream.start()
    query.processAllAvailable()
    for first in (100, 200):
        own_topics.broker.kill()
        own_topics.broker.start()
        own_topics.add_numbered(topic, 100, partitions=2, first=first)
        query.processAllAvailable()
        assert stream.numbers == list(range(first + 100))
    assert query.isActive
    query.stop()


def test_a_broker_that_stays_away_is_a_clear_error(spark: SparkSession, own_topics: Topics, checkpoint: str) -> None:
    topic = own_topics.filled(10)
    settings = {"kafka.default.api.timeout.ms": 2000, "kafka.request.timeout.ms": 1000, "fetchOffset.numRetries": 1}
    stream = Stream(spark, own_topics, checkpoint, subscribe=topic, **settings)
    stream.run()
    own_topics.broker.kill()
    query = stream.start()
    with pytest.raises(Exception, match=f"{own_topics.bootstrap_servers}"):
        query.awaitTermination(TIMEOUT_S)
    assert not query.isActive


def test_partitions_and_topics_that_appear_are_read_from_their_start(
    spark: SparkSession, topics: Topics, checkpoint: str
) -> None:
    stem = topics.name("growing")
    first = topics.broker.create_topic(f"{stem}-1", retention_ms=-1)
    topics.add_numbered(first, 10)
    stream = Stream(spark, topics, checkpoint, subscribePattern=f"{stem}-.*")
    query = stream.start()
    query.processAllAvailable()
    with Cluster(topics.bootstrap_servers) as cluster:
        Admin(cluster).add_partitions(first, 3)
    topics.add_numbered(first, 30, partitions=3, first=10)
    second = topics.broker.create_topic(f"{stem}-2", retention_ms=-1)
    topics.add_numbered(second, 10, first=40)
    query.processAllAvailable()
    query.stop()
    assert stream.numbers == list(range(50))


@pytest.mark.parametrize("fails", [True, False])
def test_a_topic_that_was_made_again_is_loss(spark: SparkSession, topics: Topics, checkpoint: str, fails: bool) -> None:
    topic = topics.filled(20)
    stream = Stream(spark, topics, checkpoint, subscribe=topic, failOnDataLoss=str(fails).lower())
    stream.run()
    with Cluster(topics.bootstrap_servers) as cluster:
        Admin(cluster).delete_topic(topic)
    topics.broker.create_topic(topic, retention_ms=-1)
    topics.add_numbered(topic, 30, first=100)  # more than before: offsets alone would not tell
    if fails:
        with pytest.raises(Exception, match=rf"{topic}-0: offsets .* lost"):
            stream.run()
        assert stream.numbers == list(range(20))
    else:
        stream.run()
        assert stream.numbers == [*range(20), *range(100, 130)]


@pytest.mark.parametrize("fails", [True, False])
def test_records_deleted_before_they_were_read_are_loss(
    spark: SparkSession, topics: Topics, checkpoint: str, fails: bool
) -> None:
    topic = topics.filled(20)
    stream = Stream(spark, topics, checkpoint, subscribe=topic, failOnDataLoss=str(fails).lower())
    stream.run()
    topics.add_numbered(topic, 80, first=20)
    with Cluster(topics.bootstrap_servers) as cluster:
        Admin(cluster).delete_records({TopicPartition(topic, 0): 50})
    if fails:
        with pytest.raises(Exception, match=rf"{topic}-0: offsets 20 to 49 are lost"):
            stream.run()
    else:
        stream.run()
        assert stream.numbers == [*range(20), *range(50, 100)]


def test_a_batch_that_failed_is_read_again_and_no_other(spark: SparkSession, topics: Topics, checkpoint: str) -> None:
    topic = topics.filled(100, partitions=2)
    stream = Stream(spark, topics, checkpoint, subscribe=topic, maxOffsetsPerTrigger=40)
    keep, failed = stream._keep, []

    def fail_once(frame: DataFrame, batch_id: int) -> None:
        if batch_id == 1 and not failed:
            failed.append(batch_id)
            raise RuntimeError("this batch fails once")
        keep(frame, batch_id)

    stream._keep = fail_once  # type: ignore[method-assign]
    with pytest.raises(Exception, match="this batch fails once"):
        stream.run()
    topics.add_numbered(topic, 100, partitions=2, first=100)
    stream.run()
    assert stream.numbers == list(range(200))
    assert [len(batch) for batch in stream.batches] == [40] * 5


def test_a_group_has_no_lag_when_everything_is_read(spark: SparkSession, topics: Topics, checkpoint: str) -> None:
    topic, group = topics.filled(100, partitions=2), topics.name("group")
    stream = Stream(spark, topics, checkpoint, subscribe=topic, commitGroup=group, maxOffsetsPerTrigger=60)
    stream.run()
    assert committed(topics, group) == {0: 50, 1: 50}
    query = stream.start()
    topics.add_numbered(topic, 20, partitions=2, first=100)
    query.processAllAvailable()
    assert committed(topics, group) == {0: 60, 1: 60}
    query.stop()


def committed(topics: Topics, group: str) -> dict[int, int]:
    with Cluster(topics.bootstrap_servers) as cluster:
        return {
            each.partition: found.offset
            for each, found in fetch_offsets(cluster, Coordinators(cluster, GROUP), group).items()
        }


def test_secrets_are_not_in_plans_checkpoints_or_errors(spark: SparkSession, topics: Topics, checkpoint: str) -> None:
    topic = topics.filled(10)
    with pytest.raises(Exception) as refused:
        Stream(spark, topics, checkpoint, subscribe=topic, **{"kafka.sasl.jaas.config": SECRET}).run()
    assert "kafka.sasl.jaas.config" in str(refused.value)
    assert SECRET not in str(refused.value)
    for path in Path(checkpoint).rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"startingOffsets": "somewhere"}, "startingOffsets"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger"),
        ({"endingOffsets": "latest"}, "endingOffsets"),
        ({"startingOffset": "earliest"}, "startingOffsets"),
        ({"failOnDataLoss": "perhaps"}, "failOnDataLoss"),
        ({"kafka.fetch.min.bites": "1"}, "fetch.min.bytes"),
        ({"startingOffsets": json.dumps({"other": {"0": 1}})}, "other"),
    ],
)
def test_wrong_options_are_named_before_anything_is_read(
    spark: SparkSession, topics: Topics, checkpoint: str, options: dict[str, str], named: str
) -> None:
    stream = Stream(spark, topics, checkpoint, subscribe=topics.filled(1), **options)
    with pytest.raises(Exception, match=named):
        stream.run()
    assert stream.batches == []
