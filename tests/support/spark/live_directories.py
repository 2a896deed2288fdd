"""The directory of a broker that is writing, rolling, deleting and compacting while it is read: ours or Kafka's.

A test module gives the fixtures `directory` and `cluster`, and names a class of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.spark.directory_source import offsets_in, options_for, read_rows
from tailrace.client.admin import Admin
from tailrace.client.cluster import Cluster
from tailrace.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from tailrace.client.producer import Producer
from tailrace.client.transactional_producer import TransactionalProducer
from tailrace.model.ids import TopicPartition
from tailrace.spark.source.files.origin import DirectoryOrigin
from tailrace.spark.source.loss import LossPolicy
from tailrace.spark.source.ranges import OffsetRange

SETTINGS = {
    "log.initial.task.delay.ms": "50",
    "replica.high.watermark.checkpoint.interval.ms": "50",
    "log.flush.start.offset.checkpoint.interval.ms": "50",
    "log.retention.check.interval.ms": "100",
    "log.cleaner.backoff.ms": "50",
    "log.segment.delete.delay.ms": "100",
}
SEGMENTS = {"internal.segment.bytes": "20000", "index.interval.bytes": "1000", "segment.index.bytes": "10000"}
LIMIT_S = 60.0


class Writing:
    """Somebody who writes until the block ends, in a thread."""

    def __init__(self, turn: Callable[[int], None]) -> None:
        self._turn = turn
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._error: BaseException | None = None

    def _run(self) -> None:
        number = 0
        try:
            while not self._ends.wait(0.005):
                self._turn(number)
                number += 1
        except BaseException as error:  # handed to the test's own thread
            self._error = error

    def __enter__(self) -> Writing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        if self._error is not None:
            raise self._error


def _until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < end, "it did not come to that in time"
        time.sleep(0.02)


def _topic(cluster: Cluster, directory: Path, topic: str, configs: dict[str, str]) -> None:
    """Of one partition, whose folder is there: Kafka answers before it makes it.

    High watermarks are noted as well. A broker in its first moments has noted none: its logs are then read to their
    ends, which lie above the first high watermark that it notes.
    """
    Admin(cluster).create_topic(topic, partitions=1, configs=configs)
    _until((directory / f"{topic}-0" / "partition.metadata").exists)
    _until((directory / "replication-offset-checkpoint").exists)


class Stream:
    """What a query does: again and again from where it was to what there is."""

    def __init__(self, directory: Path, topic: str, isolation: int = READ_UNCOMMITTED) -> None:
        self.partition = TopicPartition(topic, 0)
        self.options = options_for(directory, topic, isolation=isolation)
        self.origin = DirectoryOrigin(self.options)
        self.done = 0
        self.rows: list[tuple[Any, ...]] = []

    def step(self) -> None:
        found = self.origin.partitions(self.options.subscription)
        end = self.origin.bounds([self.partition])[self.partition].end
        self.rows += read_rows(self.options, OffsetRange(self.partition, self.done, end, found[self.partition]))
        self.done = end


class LiveDirectoryCases:
    def test_every_record_comes_once_while_segments_roll(self, directory: Path, cluster: Cluster) -> None:
        _topic(cluster, directory, "rolling", SEGMENTS)
        stream = Stream(directory, "rolling")
        with Producer(cluster) as producer:

            def turn(number: int) -> None:
                for n in range(20):
                    producer.send("rolling", b"%d" % (20 * number + n) * 10, partition=0)
                producer.flush()

            with Writing(turn):

                def is_enough() -> bool:
                    stream.step()
                    return len(stream.rows) > 3000

                _until(is_enough)
        found = offsets_in(stream.rows)
        assert found == list(range(stream.done)), [each for each in enumerate(found) if each[0] != each[1]][:3]
        assert [row[3] for row in stream.rows] == [b"%d" % offset * 10 for offset in range(stream.done)]
        assert len(list((directory / "rolling-0").glob("*.log"))) > 3

    def test_what_is_deleted_while_it_is_read_is_counted(self, directory: Path, cluster: Cluster) -> None:
        configs = {**SEGMENTS, "retention.bytes": "60000"}
        partition = TopicPartition("retained", 0)
        _topic(cluster, directory, "retained", configs)
        options = options_for(directory, "retained", fail_on_data_loss=False)
        origin = DirectoryOrigin(options)
        lost = 0
        with Producer(cluster) as producer:

            def turn(number: int) -> None:
                for n in range(50):
                    producer.send("retained", b"%d" % (50 * number + n) * 10, partition=0)
                producer.flush()

            with Writing(turn):

                def has_lost() -> bool:
                    nonlocal lost
                    bounds = origin.bounds([partition])[partition]
                    loss = LossPolicy(fails=False)
                    rows = read_rows(options, OffsetRange(partition, 0, bounds.end), loss=loss)
                    offsets = offsets_in(rows)
                    assert offsets == sorted(set(offsets))
                    assert len(offsets) + loss.lost_offsets == bounds.end
                    assert [row[3] for row in rows] == [b"%d" % offset * 10 for offset in offsets]
                    lost = loss.lost_offsets
                    return lost > 3000

                _until(has_lost)

    @pytest.mark.parametrize("isolation", [READ_UNCOMMITTED, READ_COMMITTED])
    def test_a_log_that_is_compacted_while_it_is_read_has_no_loss(
        self, isolation: int, directory: Path, cluster: Cluster
    ) -> None:
        """No look finds anything lost, nor an aborted value; the last one has the newest value of every key."""
        topic = f"compacted-{isolation}"
        partition = TopicPartition(topic, 0)
        configs = {
            **SEGMENTS,
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": "0",
            "segment.ms": "500",
        }
        _topic(cluster, directory, topic, configs)
        options = options_for(directory, topic, isolation=isolation)
        origin = DirectoryOrigin(options)
        newest: dict[bytes, int] = {}
        gaps = 0

        with TransactionalProducer(cluster, f"{topic}-writer") as producer:

            def turn(number: int) -> None:
                producer.begin()
                for n in range(30):
                    value = b"%d" % number if number % 3 else b"%d aborted" % number
                    producer.send(topic, value, b"%d" % (n % 11), partition=0)
                if number % 3:
                    producer.commit()
                    newest.update((b"%d" % n, number) for n in range(11))
                else:
                    producer.abort()

            with Writing(turn):

                def has_gaps() -> bool:
                    nonlocal gaps
                    bounds = origin.bounds([partition])[partition]
                    rows = read_rows(options, OffsetRange(partition, bounds.start, bounds.end))
                    offsets = offsets_in(rows)
                    assert offsets == sorted(set(offsets))
                    if isolation == READ_COMMITTED:
                        assert not [row for row in rows if b"aborted" in row[3]]
                    gaps = bounds.end - len(rows)
                    return len(newest) == 11 and gaps > 4000

                _until(has_gaps)
        if isolation == READ_COMMITTED:
            end = Admin(cluster).offsets_of([partition], -1)[partition]
            _until(lambda: origin.bounds([partition])[partition].end == end)
            found = {row[2]: int(row[3]) for row in read_rows(options, OffsetRange(partition, 0, end))}
            assert found == newest

    def test_a_topic_that_is_deleted_is_not_there_any_more(self, directory: Path, cluster: Cluster) -> None:
        admin = Admin(cluster)
        for name in ("first", "second"):
            _topic(cluster, directory, name, {})
        stream = Stream(directory, "first")
        stream.step()
        before = stream.origin.partitions(stream.options.subscription)
        admin.delete_topic("first")
        _until(lambda: not (directory / "first-0").exists())
        _topic(cluster, directory, "first", {})
        after = stream.origin.partitions(stream.options.subscription)
        assert list(after) == list(before)
        assert after != before
