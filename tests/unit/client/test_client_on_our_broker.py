"""Our client and command line on our broker, a child process: what tests/compat has Kafka judge, end to end."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import tailrace
from tailrace.cli.main import main
from tailrace.client.admin import Admin
from tailrace.client.batch_run import BatchRun
from tailrace.client.cluster import Cluster
from tailrace.client.cluster_admin import ClusterAdmin
from tailrace.client.config_admin import ConfigAdmin, Resource
from tailrace.client.connection import Connection
from tailrace.client.consumer import Consumer
from tailrace.client.errors import class_of
from tailrace.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from tailrace.client.producer import Producer
from tailrace.client.quorum_admin import QuorumAdmin
from tailrace.model.ids import TopicPartition
from tailrace.protocol.message import Response
from tailrace.record.compression import CODEC_NAMES
from tailrace.record.reader import Record

T0 = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[tailrace.Broker]:
    with tailrace.Broker() as broker:
        yield broker


@pytest.fixture
def cluster(broker: tailrace.Broker) -> Iterator[Cluster]:
    with Cluster(broker.bootstrap_servers) as cluster:
        yield cluster


def read(cluster: Cluster, topic: str) -> dict[int, list[Record]]:
    """All records, by partition."""
    found: dict[int, list[Record]] = {}
    with Consumer(cluster) as consumer:
        consumer.assign_topic(topic)
        ends = consumer.ends()
        while any(at < ends[each] for each, at in consumer.positions.items()):
            for run in consumer.poll(1):
                found.setdefault(run.partition.partition, []).extend(run.records())
    return found


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_every_codec_there_and_back(cluster: Cluster, codec: str) -> None:
    Admin(cluster).create_topic(codec, configs={"retention.ms": "-1"})
    sent = [(T0 + at, b"key %d" % (at % 5), b"value %d" % at, (("h", b"%d" % at),)) for at in range(2000)]
    with Producer(cluster, codec=codec, batch_bytes=5000) as producer:
        for timestamp_ms, key, value, headers in sent:
            producer.send(codec, value, key, headers=headers, timestamp_ms=timestamp_ms)
    (records,) = read(cluster, codec).values()
    assert [(each.timestamp, each.key, each.value, each.headers) for each in records] == sent


def test_every_record_once_and_in_order_though_connections_are_lost(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    Admin(cluster).create_topic("lossy", partitions=3)
    chance, receive = random.Random(5), Connection.receive

    def unlucky(connection: Connection, timeout_s: float) -> tuple[int, Response]:
        if chance.random() < 0.3:
            connection.close()
        return receive(connection, timeout_s)

    monkeypatch.setattr(Connection, "receive", unlucky)
    with Producer(cluster, batch_bytes=300) as producer:
        for number in range(3000):
            producer.send("lossy", b"%d" % number, partition=number % 3)
    monkeypatch.undo()
    found = read(cluster, "lossy")
    assert {number: [int(record.value or b"") for record in records] for number, records in found.items()} == {
        number: list(range(number, 3000, 3)) for number in range(3)
    }


def test_seeking_following_and_deleting(cluster: Cluster) -> None:
    Admin(cluster).create_topic("sought", configs={"retention.ms": "-1"})
    partition = TopicPartition("sought", 0)
    with Producer(cluster) as producer, Consumer(cluster) as consumer:
        consumer.assign([partition])
        for number in range(10):
            producer.send_batch(partition, [(T0 + 100 * number + at, None, b"%d" % number) for at in range(10)])
            producer.flush()
            runs: list[BatchRun] = []
            while not runs:
                runs = consumer.poll(5)
            assert {record.value for run in runs for record in run.records()} == {b"%d" % number}
        assert Admin(cluster).delete_records({partition: 12}) == {partition: 12}
        found = []
        for point in (EARLIEST, LATEST, MAX_TIMESTAMP, T0, T0 + 305, T0 + 350, T0 + 10_000):
            consumer.seek_to(point)
            found.append(consumer.positions[partition])
        assert found == [12, 100, 99, 12, 35, 40, 100]
        consumer.seek(partition, 3)
        assert next(consumer.poll(5)[0].records()).offset == 12


def test_administration(cluster: Cluster) -> None:
    admin, configs = Admin(cluster), ConfigAdmin(cluster)
    admin.create_topic("administered", partitions=2, configs={"retention.ms": "5000"})
    admin.add_partitions("administered", 3)
    configs.alter(Resource.topic("administered"), values={"segment.ms": "7000"}, unset=["retention.ms"])
    values = {each.name: each.value for each in configs.describe(Resource.topic("administered")) if each.is_override}
    assert values == {"segment.ms": "7000"}
    for code, attempt in (
        (36, lambda: admin.create_topic("administered")),
        (17, lambda: admin.create_topic("not/a/name")),
        (38, lambda: admin.create_topic("too-many", replication_factor=3)),
        (40, lambda: admin.create_topic("odd", configs={"retention.ms": "often"})),
        (3, lambda: admin.delete_topic("nowhere")),
        (37, lambda: admin.add_partitions("administered", 1)),
        (1, lambda: admin.delete_records({TopicPartition("administered", 0): 99})),
    ):
        with pytest.raises(class_of(code)):
            attempt()
    described, quorum = ClusterAdmin(cluster).describe(), QuorumAdmin(cluster).describe()
    assert [each.node_id for each in described.brokers] == [quorum.leader_id]
    admin.delete_topic("administered")
    assert "administered" not in {topic.name for topic in admin.topics()}


def test_the_command_line(
    broker: tailrace.Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAILRACE_BOOTSTRAP", broker.bootstrap_servers)
    lines = [f"key {number % 17}=value {number}" for number in range(2000)]
    (tmp_path / "lines").write_text("\n".join(lines))
    for command in (
        ["topic", "create", "cli", "--partitions", "4"],
        ["produce", "cli", "--file", str(tmp_path / "lines"), "--key-separator", "="],
        ["topic", "list", "--sizes"],
        ["topic", "describe", "cli"],
        ["topic", "alter", "cli", "--set", "retention.ms=100000000"],
        ["config", "describe", "--topic", "cli", "--all"],
        ["config", "describe", "--broker", "1", "--all", "--docs"],
        ["config", "set", "--cluster", "log.cleaner.backoff.ms=20000"],
        ["config", "describe", "--cluster"],
        ["config", "unset", "--cluster", "log.cleaner.backoff.ms"],
        ["cluster", "describe"],
        ["cluster", "quorum"],
        ["cluster", "dirs"],
        ["cluster", "features"],
    ):
        assert main([*command, "--json"]) == 0, (command, capsys.readouterr().err)
        assert all(json.loads(line)["type"] for line in capsys.readouterr().out.splitlines())
    assert main(["consume", "cli", "--key-separator", "="]) == 0
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(lines)
    assert main(["topic", "delete", "cli", "--yes"]) == 0


def test_a_broker_that_is_killed_and_comes_back(broker: tailrace.Broker, cluster: Cluster) -> None:
    Admin(cluster).create_topic("killed")
    found: list[bytes | None] = []
    with Producer(cluster, batch_bytes=500) as producer, Consumer(cluster) as consumer:
        consumer.assign_topic("killed")
        for number in range(3000):
            producer.send("killed", b"%d" % number)
            if number % 1000 == 500:  # with batches under way
                broker.kill()
                broker.start()
        producer.flush()
        while len(found) < 3000:
            found += [record.value for run in consumer.poll(5) for record in run.records()]
    assert found == [b"%d" % number for number in range(3000)]
