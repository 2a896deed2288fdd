"""A broker at work is audited again and again: ours or Kafka's. It is clean, so that nothing may ever be found.

A test module gives the fixtures `broker` (with `stop`, `kill` and `start`), `address`, `directory` and `spark`, and
names a class of its own. Most looks are taken without a JVM, since they are short then and there are more of them; what
needs a shuffle is done by Spark.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from support.spark.local_rdds import LocalSpark
from tailrace.client.admin import Admin
from tailrace.client.cluster import Cluster
from tailrace.client.producer import Producer
from tailrace.client.transactional_producer import TransactionalProducer
from tailrace.model.ids import TopicPartition
from tailrace.record.compression import CODEC_NAMES
from tailrace.spark.auditing.audit import AuditRun, audit
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job.listing import find_places
from tailrace.spark.auditing.rules import RULES
from tailrace.spark.source.files.read_only import ReadOnlyFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = 12.0
PATIENCE_S = 15.0
"""How long the load goes on asking a broker that was killed."""
SEGMENTS = {"internal.segment.bytes": "20000", "index.interval.bytes": "1000", "segment.index.bytes": "10000"}
TOPICS = {
    "rolling": SEGMENTS,
    "retained": {**SEGMENTS, "retention.bytes": "60000"},
    "decided": SEGMENTS,
    "table": {
        **SEGMENTS,
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "0",
        "segment.ms": "500",
    },
}


class Ending(Protocol):
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...


class Load:
    """Writes until the block ends, in a thread: in all codecs, in transactions and without, and deletes records."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._error: BaseException | None = None
        self.turns = 0

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            with ExitStack() as opened:
                cluster = opened.enter_context(Cluster(self._address, timeout_s=PATIENCE_S))
                plain = [
                    opened.enter_context(Producer(cluster, codec=codec, delivery_timeout_s=PATIENCE_S))
                    for codec in CODEC_NAMES
                ]
                writers = [
                    opened.enter_context(TransactionalProducer(cluster, f"writer-{n}", delivery_timeout_s=PATIENCE_S))
                    for n in range(2)
                ]
                for number in itertools.count():
                    if self._ends.wait(0.005):
                        return
                    self._write(plain[number % len(plain)], number)
                    self._decide(writers[number % 2], number)
                    if number % 20 == 19:
                        self._delete(cluster)
                    self.turns += 1
        except BaseException as error:  # handed to the test's own thread
            self._error = error

    def _write(self, producer: Producer, number: int) -> None:
        for topic in ("rolling", "retained"):
            for n in range(15):
                producer.send(topic, b"%d of %d " % (n, number) * 8, b"%d" % n, partition=0)
        producer.flush()

    def _decide(self, producer: TransactionalProducer, number: int) -> None:
        producer.begin()
        for n in range(12):
            value = None if n % 5 == 4 else b"value %d" % number
            producer.send("table", value, b"key %d" % (n + number % 7), partition=0)
            producer.send("decided", b"%d" % number, b"%d" % n, partition=0)
        if number % 4:
            producer.send_offsets("group", {TopicPartition("rolling", 0): number})
            producer.commit()
        else:
            producer.abort()

    def _delete(self, cluster: Cluster) -> None:
        partition = TopicPartition("decided", 0)
        admin = Admin(cluster)
        end = admin.offsets_of([partition], -1)[partition]
        admin.delete_records({partition: max(end - 500, 0)})


def made_topics(address: str, directory: Path) -> None:
    with Cluster(address) as cluster:
        for topic, configs in TOPICS.items():
            Admin(cluster).create_topic(topic, partitions=1, configs=configs)
    end = time.monotonic() + 60
    while not all((directory / f"{topic}-0" / "partition.metadata").exists() for topic in TOPICS):
        assert time.monotonic() < end, "the folders of topics did not come"
        time.sleep(0.05)


def looked_at(directory: Path) -> tuple[Finding, ...]:
    """All but the shuffles, without a JVM."""
    files = ReadOnlyFiles()
    run = AuditRun(LocalSpark(), files, find_places(files, [str(directory)]))  # type: ignore[arg-type]
    run.read()
    return run.report([str(directory)], frozenset(RULES), notes=False).findings


def expect_none(findings: Iterable[Finding]) -> None:
    text = "\n".join(map(str, findings))
    assert not text, text


class AuditedBrokerCases:
    def test_nothing_is_found_while_it_works_nor_after_it_ended(
        self, broker: Ending, address: str, directory: Path, spark: SparkSession
    ) -> None:
        made_topics(address, directory)
        looks = 0
        with Load(address) as load:
            end = time.monotonic() + SECONDS
            while time.monotonic() < end or looks < 3:
                expect_none(looked_at(directory))
                looks += 1
            for _ in range(2):
                expect_none(audit(str(directory), session=spark).findings)
            worked = load.turns
        assert worked > 20
        assert len(list((directory / "rolling-0").glob("*.log"))) > 3
        broker.stop()
        report = audit(str(directory), session=spark)
        expect_none(report.findings)
        assert report.partitions >= len(TOPICS)
        broker.start()
        with suppress(Exception), Load(address):
            time.sleep(2)
            broker.kill()
        expect_none(audit(str(directory), session=spark).findings)
        broker.start()  # what was not noted before the kill is found as the files have it
        broker.stop()
        expect_none(looked_at(directory))
