"""Statistics by real Spark tasks: the same as without a JVM, from files and from a broker, and errors as they were."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.spark.local_rdds import LocalSpark
from support.spark.topics import T0, Row, Topics
from tailrace.model.errors import CorruptMessageError
from tailrace.spark import stats
from tailrace.spark.statistics.stats import StatsProgress
from tailrace.spark.statistics.topic_stats import TopicStats
from tailrace.testing.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 3000


@pytest.fixture(scope="module")
def topic(topics: Topics) -> str:
    topic = topics.make("stats", 2)
    for partition in range(2):
        rows = [
            Row(
                None if n % 50 == 49 else b"value %d" % (n % 97),
                b"k%d" % (n * n % 211),
                T0 + 1000 * n,
                (("source", b"web"),) if n % 4 else (),
            )
            for n in range(COUNT)
        ]
        topics.fill(topic, {partition: rows}, batch_records=30, codec="zstd" if partition else "none")
    return topic


def plain(found: TopicStats) -> TopicStats:
    """Without what depends on the clock or on where it came from."""
    trials = tuple(replace(each, pack_ns_per_byte=0.0, unpack_ns_per_byte=0.0) for each in found.codec_trials.trials)
    gain = replace(found.compaction, whole=replace(found.compaction.whole, stored_bytes=0, gained_bytes=0, share=0.0))
    return replace(
        found,
        source="",
        codec_trials=replace(found.codec_trials, trials=trials),
        compaction=replace(gain, closed=None),
    )


def test_a_topic_of_a_broker_and_of_its_files(spark: SparkSession, broker: Broker, topics: Topics, topic: str) -> None:
    told: list[StatsProgress] = []
    options = {"maxRecordsPerPartition": 1000}
    asked = stats(topic, brokers=topics.bootstrap_servers, session=spark, options=options, told=told.append)
    read = stats(topic, path=str(broker.data_dir), session=spark, options={**options, "failOnDataLoss": False})
    local: Any = LocalSpark()
    alone = stats(topic, brokers=topics.bootstrap_servers, session=local, options=options)
    assert plain(asked) == plain(alone)
    assert asked.records == 2 * COUNT
    assert asked.keys.distinct == len({n * n % 211 for n in range(COUNT)})
    assert asked.compaction.whole.records == 2 * asked.keys.distinct
    assert {each.codec for each in asked.codecs} == {"none", "zstd"}
    assert asked.headers.records == 2 * (COUNT - len(range(0, COUNT, 4)))
    assert {each.doing for each in told} == {"reading", "counting", "sampling"}
    assert {(each.tasks_done, each.tasks) for each in told if each.doing == "reading"} >= {(6, 6)}
    # A broker notes every few seconds how much is committed.
    assert read.records == sum(each.end - each.start for each in read.partitions) <= asked.records
    assert read.topic == topic


def test_damage_is_raised_as_what_it_was(spark: SparkSession, tmp_path: Path) -> None:
    from support.stats.topics import T0 as SINCE
    from support.stats.topics import Put, write_topic
    from support.stats.topics import Row as Record

    write_topic(tmp_path, [Put(0, (Record(SINCE, b"k", b"v" * 500),)) for _ in range(20)])
    file = next((tmp_path / "t-0").glob("*.log"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    with pytest.raises(CorruptMessageError, match="t-0: offsets"):
        stats(path=str(tmp_path), session=spark)
    found = stats(path=str(tmp_path), session=spark, options={"skipCorrupt": True, "failOnDataLoss": False})
    assert (found.records, len(found.skipped)) == (19, 1)
