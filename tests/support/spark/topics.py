"""Topics for tests that start Spark: made with names of their own, filled by a few batches, read back by our client."""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tailrace.client.cluster import Cluster
from tailrace.client.consumer import Consumer
from tailrace.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from tailrace.client.producer import Producer
from tailrace.model.ids import TopicPartition
from tailrace.testing.broker import Broker

T0 = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC
BATCH_RECORDS = 1000

Headers = tuple[tuple[str, bytes | None], ...]


class Row(NamedTuple):
    """A record as it goes in, or as it was found."""

    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int = T0
    headers: Headers = ()


class Topics:
    """Of one broker. Every name that `make` gives is new."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.bootstrap_servers = broker.bootstrap_servers

    def name(self, stem: str = "topic") -> str:
        """One that nobody has."""
        return f"{re.sub(r'[^a-zA-Z0-9-]+', '-', stem)}-{uuid.uuid4().hex[:8]}"

    def make(self, stem: str = "topic", partitions: int = 1, **configs: object) -> str:
        """Nothing in it is ever too old."""
        return self.broker.create_topic(self.name(stem), partitions, **{"retention_ms": -1, **configs})

    def fill(
        self,
        topic: str,
        rows: Mapping[int, Iterable[Row]],
        *,
        batch_records: int = BATCH_RECORDS,
        codec: str = "none",
    ) -> None:
        """The rows of each partition, in batches of so many."""
        with Cluster(self.bootstrap_servers) as cluster, Producer(cluster, codec=codec) as producer:
            for number, of_partition in rows.items():
                for piece in pieces(of_partition, batch_records):
                    producer.send_batch(
                        TopicPartition(topic, number),
                        [(row.timestamp_ms, row.key, row.value, row.headers) for row in piece],
                    )

    def filled(
        self, count: int, *, stem: str = "topic", partitions: int = 1, first: int = 0, every_ms: int = 1000
    ) -> str:
        """A topic with `count` numbered rows (`numbered`), dealt to its partitions in turn."""
        topic = self.make(stem, partitions)
        self.add_numbered(topic, count, partitions=partitions, first=first, every_ms=every_ms)
        return topic

    def add_numbered(
        self, topic: str, count: int, *, partitions: int = 1, first: int = 0, every_ms: int = 1000
    ) -> None:
        numbers = range(first, first + count)
        self.fill(
            topic,
            {
                partition: [numbered(number, every_ms) for number in numbers if number % partitions == partition]
                for partition in range(partitions)
            },
        )

    def rows(self, topic: str, *, committed_only: bool = True) -> dict[int, list[Row]]:
        """What is in the topic now, by partition."""
        with Cluster(self.bootstrap_servers) as cluster:
            partitions = [TopicPartition(topic, number) for number in cluster.topic(topic).partitions]
            return rows_of(cluster, partitions, committed_only=committed_only)

    def values(self, topic: str) -> list[bytes | None]:
        """All of them, sorted; no value is taken for an empty one."""
        found = [row.value for rows in self.rows(topic).values() for row in rows]
        return sorted(found, key=lambda value: value or b"")


def numbered(number: int, every_ms: int = 1000) -> Row:
    """Row `number`: the value is the number, the key its last digit; one a second from T0 on."""
    return Row(b"%d" % number, b"%d" % (number % 10), T0 + number * every_ms)


def pieces(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    remaining = iter(rows)
    while piece := list(itertools.islice(remaining, size)):
        yield piece


def rows_of(
    cluster: Cluster, partitions: Iterable[TopicPartition], *, committed_only: bool = True
) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {partition.partition: [] for partition in partitions}
    with Consumer(cluster, isolation=READ_COMMITTED if committed_only else READ_UNCOMMITTED) as consumer:
        consumer.assign(partitions)
        ends = consumer.ends()
        while any(consumer.positions[partition] < end for partition, end in ends.items()):
            for run in consumer.poll(1.0):
                found[run.partition.partition] += [
                    Row(record.value, record.key, record.timestamp, record.headers) for record in run.records()
                ]
    return found
