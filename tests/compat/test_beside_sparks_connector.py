"""Spark's own Kafka connector and Tailrace's source and sink, on the same broker: the same rows, batch by batch.

Both run in one session of the PySpark that the connector is made for. What one of them refuses, the other refuses too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.spark import kafka_connector
from support.spark.topics import T0, Row, Topics, numbered
from tailrace.client.admin import Admin
from tailrace.client.cluster import Cluster
from tailrace.client.transactional_producer import TransactionalProducer
from tailrace.model.ids import TopicPartition
from tailrace.record.compression import CODEC_NAMES
from tailrace.testing.broker import Broker

pytestmark = [pytest.mark.long, pytest.mark.compat]

READ = (
    "one topic",
    "several topics",
    "a pattern",
    "assigned partitions",
    "between offsets",
    "to the ends that are there",
    "timestamps of all partitions",
    "timestamps of each partition",
    "a time after the end, taken for the end",
    "minPartitions",
    "maxRecordsPerPartition",
    "minPartitions and maxRecordsPerPartition",
    "headers",
    "nulls and nothing",
    "append time",
    "every codec",
    "uncommitted",
    "committed",
    "deleted records, from the earliest",
    "deleted records that may be lost",
    "settings that change nothing",
    "a topic that is empty",
)
REFUSED = (
    "no topics",
    "two ways to name topics",
    "an unknown topic",
    "from the latest",
    "to the earliest",
    "offsets of not all partitions",
    "offsets of another topic",
    "a time after the end",
    "deleted records that must not be lost",
    "an own offset reset",
    "an own deserializer",
    "own commits",
    "interceptors",
    "no partitions at least",
    "assigned in no form",
)
STREAMED = (
    "stream of all",
    "stream of so many",
    "stream of so many from offsets",
    "stream of at least so many",
    "stream of a time",
    "stream of times",
    "stream with headers",
    "stream of a pattern",
    "stream of pieces",
    "stream of the latest",
)
WRITTEN = ("keyed", "without keys", "by topic column", "partitions", "headers written", "nulls written", "binary")
NOT_WRITTEN = ("a number as value", "no topic", "no value", "a null topic")


class Stage:
    """Topics of one broker, and the questions about them."""

    def __init__(self, broker: Broker) -> None:
        self.topics = topics = Topics(broker)
        self.plain = topics.filled(100, stem="plain", partitions=3)
        self.other = topics.filled(40, stem="other")
        topics.filled(5, stem="other-before-plain")
        self.uneven = topics.make("uneven", 3)
        topics.fill(self.uneven, {0: map(numbered, range(7)), 1: map(numbered, range(300)), 2: map(numbered, range(2))})
        self.headed = topics.make("headed")
        headers = [(), (("a", b"1"),), (("a", b""), ("a", None), ("ü", b"\xff"))]
        topics.fill(self.headed, {0: [Row(b"%d" % n, headers=each) for n, each in enumerate(headers)]})
        self.nulls = topics.make("nulls")
        topics.fill(self.nulls, {0: [Row(None), Row(b""), Row(None, b"k"), Row(b"v", b""), Row(None, b"")]})
        self.appended = topics.make("appended", message_timestamp_type="LogAppendTime")
        topics.fill(self.appended, {0: map(numbered, range(10))})
        self.packed = topics.make("packed")
        for codec in CODEC_NAMES:
            topics.fill(self.packed, {0: map(numbered, range(50))}, codec=codec, batch_records=20)
        self.transacted = topics.make("transacted", 2)
        self.transact()
        self.shortened = topics.filled(100, stem="shortened")
        self.empty = topics.make("empty", 2)
        with Cluster(topics.bootstrap_servers) as cluster:
            Admin(cluster).delete_records({TopicPartition(self.shortened, 0): 30})
        self.written = {
            name: {kind: topics.make(f"{kind}-written", 3) for kind in ("kafka", "tailrace")} for name in WRITTEN
        }

    def transact(self) -> None:
        with Cluster(self.topics.bootstrap_servers) as cluster, TransactionalProducer(cluster, "stage") as producer:
            for turn in range(6):
                producer.begin()
                for number in range(turn * 10, turn * 10 + 10):
                    producer.send(self.transacted, b"%d" % number, partition=number % 2, timestamp_ms=T0 + number)
                producer.flush()  # what was not sent before an abort would never be there
                producer.abort() if turn % 3 == 1 else producer.commit()

    def work(self) -> dict[str, Any]:
        return {
            "servers": self.topics.bootstrap_servers,
            "batches": self.batches() | self.refused(),
            "streams": self.streams(),
            "writes": self.writes(),
        }

    def batches(self) -> dict[str, dict[str, str]]:
        plain, other = self.plain, self.other
        thirds = {plain: {"0": 5, "1": -2, "2": 33}}
        ends = {plain: {"0": 20, "1": 1, "2": -1}}
        spread = {plain: {"0": T0 + 9000, "1": T0 + 50_000, "2": T0}}
        later = {plain: {"0": T0 + 30_000, "1": T0 + 51_000, "2": T0 + 3000}}
        cases: tuple[dict[str, object], ...] = (
            {"subscribe": plain},
            {"subscribe": f"{plain}, {other}"},
            {"subscribePattern": "plain-[0-9a-f]+"},
            {"assign": {plain: [0, 2], other: [0]}},
            {"subscribe": plain, "startingOffsets": thirds, "endingOffsets": ends},
            {"subscribe": plain, "startingOffsets": "earliest", "endingOffsets": {plain: {"0": -1, "1": -1, "2": 9}}},
            {"subscribe": plain, "startingTimestamp": T0 + 20_000, "endingTimestamp": T0 + 60_000},
            {"subscribe": plain, "startingOffsetsByTimestamp": spread, "endingOffsetsByTimestamp": later},
            {
                "subscribe": plain,
                "startingTimestamp": T0 + 10**9,
                "startingOffsetsByTimestampStrategy": "latest",
            },
            {"subscribe": plain, "minPartitions": 8},
            {"subscribe": self.uneven, "maxRecordsPerPartition": 50},
            {"subscribe": self.uneven, "minPartitions": 7, "maxRecordsPerPartition": 100},
            {"subscribe": self.headed, "includeHeaders": "true"},
            {"subscribe": self.nulls},
            {"subscribe": self.appended},
            {"subscribe": self.packed},
            {"subscribe": self.transacted, "kafka.isolation.level": "read_uncommitted"},
            {"subscribe": self.transacted, "kafka.isolation.level": "read_committed"},
            {"subscribe": self.shortened},
            {
                "subscribe": self.shortened,
                "startingOffsets": {self.shortened: {"0": 10}},
                "failOnDataLoss": "false",
            },
            {
                "subscribe": plain,
                "kafka.fetch.max.wait.ms": 100,
                "kafka.client.id": "judge",
                "groupIdPrefix": "judge",
                "fetchOffset.numRetries": 2,
            },
            {"subscribe": self.empty},
        )
        return {name: as_text(options) for name, options in zip(READ, cases, strict=True)}

    def refused(self) -> dict[str, dict[str, str]]:
        plain = self.plain
        cases: tuple[dict[str, object], ...] = (
            {},
            {"subscribe": plain, "subscribePattern": ".*"},
            {"subscribe": "nobody-made-this"},
            {"subscribe": plain, "startingOffsets": "latest"},
            {"subscribe": plain, "endingOffsets": "earliest"},
            {"subscribe": plain, "startingOffsets": {plain: {"0": 1}}},
            {"subscribe": plain, "startingOffsets": {plain: {"0": 1, "1": 1, "2": 1}, self.other: {"0": 1}}},
            {"subscribe": plain, "startingTimestamp": T0 + 10**9},
            {"subscribe": self.shortened, "startingOffsets": {self.shortened: {"0": 10}}},
            {"subscribe": plain, "kafka.auto.offset.reset": "earliest"},
            {
                "subscribe": plain,
                "kafka.value.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
            },
            {"subscribe": plain, "kafka.enable.auto.commit": "true"},
            {"subscribe": plain, "kafka.interceptor.classes": "some.Interceptor"},
            {"subscribe": plain, "minPartitions": 0},
            {"assign": f"{plain}:0"},
        )
        return {name: as_text(options) for name, options in zip(REFUSED, cases, strict=True)}

    def streams(self) -> dict[str, dict[str, str]]:
        uneven, plain = self.uneven, self.plain
        start = {"startingOffsets": "earliest"}
        cases: tuple[dict[str, object], ...] = (
            {"subscribe": plain, **start},
            {"subscribe": uneven, "maxOffsetsPerTrigger": 100, **start},
            {
                "subscribe": uneven,
                "maxOffsetsPerTrigger": 64,
                "startingOffsets": {uneven: {"0": 3, "1": 100, "2": -1}},
            },
            {"subscribe": plain, "minOffsetsPerTrigger": 1000, "maxTriggerDelay": "1s", **start},
            {"subscribe": plain, "startingTimestamp": T0 + 50_000},
            {"subscribe": plain, "startingOffsetsByTimestamp": {plain: {"0": T0 + 30_000, "1": T0, "2": T0 + 98_000}}},
            {"subscribe": self.headed, "includeHeaders": "true", **start},
            {"subscribePattern": "(plain|other)-.*", "maxOffsetsPerTrigger": 50, **start},
            {"subscribe": uneven, "maxOffsetsPerTrigger": 200, "minPartitions": 6, **start},
            {"subscribe": plain},
        )
        return {name: as_text(options) for name, options in zip(STREAMED, cases, strict=True)}

    def writes(self) -> dict[str, Any]:
        text = "CAST(id AS STRING) AS value"
        headers = "array(named_struct('key', 'h', 'value', CAST('1' AS BINARY))) AS headers"
        columns: dict[str, list[str]] = {
            "keyed": ["CAST(id % 17 AS STRING) AS key", text],
            "without keys": [text],
            "by topic column": ["CAST(id % 17 AS STRING) AS key", text, "'$TOPIC' AS topic"],
            "partitions": [text, "CAST(id % 3 AS INT) AS partition"],
            "headers written": ["'k' AS key", text, headers],
            "nulls written": ["IF(id % 2 = 0, NULL, 'k') AS key", "IF(id % 3 = 0, NULL, CAST(id AS STRING)) AS value"],
            "binary": ["CAST('k' AS BINARY) AS key", "CAST(CAST(id AS STRING) AS BINARY) AS value"],
            "a number as value": ["id AS value"],
            "no topic": [text],
            "no value": ["CAST(id AS STRING) AS key"],
            "a null topic": [text, "CAST(NULL AS STRING) AS topic"],
        }
        options = {"includeHeaders": "true"}
        unwritten = {"topic": self.plain}
        return {
            name: {
                "count": 200,
                "columns": each,
                "options": options if name == "headers written" else {},
                "of": {
                    kind: {}
                    if name in ("no topic", "a null topic")
                    else {"topic": self.written[name][kind]}
                    if name in WRITTEN
                    else unwritten
                    for kind in ("kafka", "tailrace")
                },
            }
            for name, each in columns.items()
        }


def as_text(options: dict[str, object]) -> dict[str, str]:
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in options.items()}


class Judged:
    def __init__(self, stage: Stage, answers: dict[str, Any]) -> None:
        self.stage = stage
        self._answers = answers

    def both(self, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """What Spark's connector said, and what Tailrace said."""
        return self._answers[name]["kafka"], self._answers[name]["tailrace"]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    reason = kafka_connector.why_unavailable()
    if reason:
        pytest.skip(reason)
    scratch: Path = tmp_path_factory.mktemp("connector")
    with Broker({"log.retention.ms": -1}) as broker:
        stage = Stage(broker)
        yield Judged(stage, kafka_connector.answers(stage.work(), scratch))


@pytest.mark.parametrize("name", READ)
def test_the_same_rows(judged: Judged, name: str) -> None:
    theirs, ours = judged.both(name)
    assert "error" not in theirs, theirs
    assert "error" not in ours, ours
    assert (ours["schema"], ours["rows"]) == (theirs["schema"], theirs["rows"])


def test_the_aborted_are_there_for_who_asks(judged: Judged) -> None:
    assert [len(judged.both(name)[1]["rows"]) for name in ("uncommitted", "committed")] == [60, 40]


@pytest.mark.parametrize("name", ["minPartitions", "minPartitions and maxRecordsPerPartition"])
def test_in_as_many_pieces(judged: Judged, name: str) -> None:
    theirs, ours = judged.both(name)
    assert ours["pieces"] == theirs["pieces"]


def test_records_per_piece_count_without_a_least_number_of_pieces_too(judged: Judged) -> None:
    """To the connector's batch reader they mean nothing then."""
    theirs, ours = judged.both("maxRecordsPerPartition")
    assert (theirs["pieces"], ours["pieces"]) == (3, 8)


@pytest.mark.parametrize("name", STREAMED)
def test_the_same_rows_in_every_batch(judged: Judged, name: str) -> None:
    theirs, ours = judged.both(name)
    assert "error" not in theirs, theirs
    assert ours == theirs


@pytest.mark.parametrize("name", [*REFUSED, *NOT_WRITTEN])
def test_the_same_is_refused(judged: Judged, name: str) -> None:
    theirs, ours = judged.both(name)
    assert "error" in theirs
    assert "error" in ours


@pytest.mark.parametrize("name", WRITTEN)
def test_the_same_is_written(judged: Judged, name: str) -> None:
    theirs, ours = judged.both(name)
    assert "error" not in theirs, theirs
    assert "error" not in ours, ours
    written = judged.stage.written[name]
    assert placed(judged.stage.topics, written["tailrace"], name) == placed(judged.stage.topics, written["kafka"], name)


def placed(topics: Topics, topic: str, name: str) -> dict[int, list[Any]]:
    """Rows by partition; where nothing tells the partition, of all partitions together."""
    has_places = name not in ("without keys", "nulls written")
    found: dict[int, list[Any]] = {}
    for partition, rows in topics.rows(topic).items():
        found.setdefault(partition if has_places else -1, []).extend(
            (row.key, row.value, [(key, value) for key, value in row.headers]) for row in rows
        )
    return {partition: sorted(rows, key=repr) for partition, rows in found.items()}
