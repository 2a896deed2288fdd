"""Directories of a broker that writes, rolls, compacts and deletes while an audit reads: nothing but notes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import tailrace
from support.spark.live_directories import SEGMENTS, SETTINGS, Writing
from support.spark.local_rdds import LocalSpark
from tailrace.client.admin import Admin
from tailrace.client.cluster import Cluster
from tailrace.client.producer import Producer
from tailrace.client.transactional_producer import TransactionalProducer
from tailrace.spark.auditing.audit import AuditRun
from tailrace.spark.auditing.audit_report import AuditReport
from tailrace.spark.auditing.job.listing import find_places
from tailrace.spark.auditing.rules import NOTE, RULES
from tailrace.spark.source.files.read_only import ReadOnlyFiles

FILES = ReadOnlyFiles()
COMPACTED = {
    **SEGMENTS,
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
    "segment.ms": "500",
}
LOOKS = 4
MOST_LOOKS = 100
ENOUGH_RECORDS = 100


@pytest.fixture(scope="module")
def live() -> Iterator[tailrace.Broker]:
    with tailrace.Broker(SETTINGS) as broker:
        yield broker


def look(directory: Path) -> AuditReport:
    places = find_places(FILES, [str(directory)])
    audit = AuditRun(LocalSpark(), FILES, places)  # type: ignore[arg-type]
    audit.read()
    return audit.report([str(directory)], frozenset(RULES), notes=True)


def test_nothing_is_wrong_with_a_busy_directory(live: tailrace.Broker) -> None:
    with ExitStack() as writers:
        one, other = (writers.enter_context(Cluster(live.bootstrap_servers)) for _ in range(2))  # each for one thread
        admin = Admin(one)
        admin.create_topic("rolling", partitions=2, configs={**SEGMENTS, "retention.bytes": "60000"})
        admin.create_topic("compacted", partitions=1, configs=COMPACTED)
        admin.create_topic("plain", partitions=1, configs=SEGMENTS)
        plain = writers.enter_context(Producer(one))
        packed = writers.enter_context(Producer(one, codec="lz4"))
        transactional = writers.enter_context(TransactionalProducer(other, "writer"))

        def roll(number: int) -> None:
            for n in range(20):
                packed.send("rolling", b"%d" % (20 * number + n) * 20, partition=n % 2)
                plain.send("plain", b"%d" % n * 10, partition=0)
            packed.flush()
            plain.flush()

        def transact(number: int) -> None:
            transactional.begin()
            for n in range(20):
                transactional.send("compacted", b"%d" % number, b"%d" % (n % 7), partition=0)
                transactional.send("rolling", b"%d" % number, partition=n % 2)
            if number % 3:
                transactional.commit()
            else:
                transactional.abort()

        writers.enter_context(Writing(roll))
        writers.enter_context(Writing(transact))
        looks = records = 0
        while looks < LOOKS or (looks < MOST_LOOKS and records <= ENOUGH_RECORDS):
            report = look(live.data_dir)
            assert [finding for finding in report.findings if finding.severity != NOTE] == []
            looks += 1
            records = sum(each.records for topic, each in report.figures.items() if topic == "plain")
    report = look(live.data_dir)
    assert report.is_clean, report.findings
    assert report.figures["plain"].records > ENOUGH_RECORDS
    assert report.figures["rolling"].codecs["lz4"].batches > 0
    assert report.segments > 10
