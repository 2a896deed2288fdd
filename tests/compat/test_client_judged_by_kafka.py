"""Our client against a real Kafka broker, and Kafka's own clients and tools as witnesses of what it did."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.kafka.tools import dump_log_segments, run_tool

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of kafka-python's use of importlib
    from kafka import KafkaProducer

    from golden.broker import Broker
    from support.kafka.client import consume_all, free_port
from tailrace.cli.main import main
from tailrace.client.admin import TO_HIGH_WATERMARK, Admin
from tailrace.client.batch_run import BatchRun
from tailrace.client.cluster import Cluster
from tailrace.client.cluster_admin import ClusterAdmin
from tailrace.client.config_admin import ConfigAdmin, Resource
from tailrace.client.connection import Connection
from tailrace.client.consumer import Consumer
from tailrace.client.errors import class_of
from tailrace.client.feature_admin import FeatureAdmin
from tailrace.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, READ_COMMITTED, READ_UNCOMMITTED
from tailrace.client.producer import Delivered, Producer
from tailrace.client.quorum_admin import QuorumAdmin
from tailrace.model.errors import InvalidTimestampError, MessageTooLargeError, TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.protocol.message import Response
from tailrace.protocol.messages.fetch import FetchRequest
from tailrace.protocol.messages.produce import ProduceRequest
from tailrace.record.compression import CODEC_NAMES
from tailrace.record.reader import Record

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.usefixtures("kafka_jars")]

T0 = 1_700_000_000_000
ODD = (
    (T0, b"k", b"v", ()),
    (T0 + 1, None, b"", (("h", b"1"), ("h", None))),
    (T0 + 2, b"", None, (("ключ", b"\x00\xff"),)),
    (T0 + 3, b"\xff", b"x" * 3000, ()),
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka"), free_port()) as broker:
        yield broker


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    with Cluster(broker.address) as cluster:
        yield cluster


def read(cluster: Cluster, topic: str, isolation: int = READ_UNCOMMITTED) -> dict[int, list[Record]]:
    """All records, by partition."""
    found: dict[int, list[Record]] = {}
    with Consumer(cluster, isolation=isolation) as consumer:
        consumer.assign_topic(topic)
        ends = consumer.ends()
        while any(at < ends[each] for each, at in consumer.positions.items()):
            for run in consumer.poll(1):
                found.setdefault(run.partition.partition, []).extend(run.records())
    return found


# In


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_kafka_reads_what_we_wrote(broker: Broker, cluster: Cluster, codec: str) -> None:
    topic = f"written-{codec}"
    Admin(cluster).create_topic(topic, configs={"retention.ms": "-1"})
    partition = TopicPartition(topic, 0)
    with Producer(cluster, codec=codec) as producer:
        producer.send_batch(partition, ODD)
        for number in range(3000):
            producer.send(topic, b"value %d" % number, b"key %d" % number, timestamp_ms=T0 + number)
    seen = consume_all(broker, {topic: len(ODD) + 3000}, "read_uncommitted")[topic]
    assert [tuple(seen[at])[:3] for at in range(len(ODD))] == [each[:3] for each in ODD]
    assert [tuple(seen[at].headers) for at in range(len(ODD))] == [each[3] for each in ODD]
    assert [seen[len(ODD) + at].value for at in range(3000)] == [b"value %d" % at for at in range(3000)]
    (log,) = broker.partition_dir(topic).glob("*.log")
    batches = dump_log_segments([log])[log].batches
    assert {each["compresscodec"].lower() for each in batches} == {codec}
    assert len({each["producerId"] for each in batches}) == 1
    assert cluster.any_connection().version_for(ProduceRequest.KEY) == 13


def test_keys_go_where_kafkas_own_producer_puts_them(cluster: Cluster, broker: Broker) -> None:
    keys = [f"customer-{number}" for number in range(200)] + ["ä", "日本", "x" * 500]
    for topic in ("keys-of-kafka", "keys-of-ours"):
        Admin(cluster).create_topic(topic, partitions=7)
    run_tool(
        "org.apache.kafka.tools.ConsoleProducer",
        *("--bootstrap-server", broker.address, "--topic", "keys-of-kafka"),
        *("--reader-property", "parse.key=true", "--reader-property", "key.separator=="),
        stdin="".join(f"{key}=v\n" for key in keys),
    )
    with Producer(cluster) as producer:
        for key in keys:
            producer.send("keys-of-ours", b"v", key.encode())
    theirs, ours = (
        {number: {record.key for record in records} for number, records in read(cluster, topic).items()}
        for topic in ("keys-of-kafka", "keys-of-ours")
    )
    assert ours == theirs
    assert len(ours) == 7


def test_every_record_once_and_in_order_though_connections_are_lost(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    Admin(cluster).create_topic("lossy", partitions=3)
    chance, receive = random.Random(5), Connection.receive
    lost = 0

    def unlucky(connection: Connection, timeout_s: float) -> tuple[int, Response]:
        nonlocal lost
        if chance.random() < 0.3:
            lost += 1
            connection.close()
        return receive(connection, timeout_s)

    monkeypatch.setattr(Connection, "receive", unlucky)
    told: list[Delivered] = []
    with Producer(cluster, batch_bytes=300, on_delivery=told.append) as producer:
        for number in range(6000):
            producer.send("lossy", b"%d" % number, partition=number % 3)
    monkeypatch.undo()
    assert lost > 10
    found = read(cluster, "lossy")
    assert {number: [int(record.value or b"") for record in records] for number, records in found.items()} == {
        number: list(range(number, 6000, 3)) for number in range(3)
    }
    assert sum(each.record_count for each in told) == 6000


@pytest.mark.parametrize("acks", [0, 1])
def test_fewer_acks(cluster: Cluster, acks: int) -> None:
    topic = f"acks-{acks}"
    Admin(cluster).create_topic(topic)
    with Producer(cluster, acks=acks) as producer:
        for number in range(500):
            producer.send(topic, b"%d" % number)
    while Admin(cluster).offsets_of([TopicPartition(topic, 0)], LATEST)[TopicPartition(topic, 0)] < 500:
        assert acks == 0
    assert [record.value for record in read(cluster, topic)[0]] == [b"%d" % number for number in range(500)]


def test_what_kafka_refuses(cluster: Cluster) -> None:
    admin = Admin(cluster)
    admin.create_topic("small", configs={"max.message.bytes": "1000"})
    admin.create_topic("punctual", configs={"message.timestamp.after.max.ms": "1000"})
    for topic, value, timestamp_ms, expected in (
        ("small", b"x" * 2000, None, MessageTooLargeError),
        ("punctual", b"", 4_000_000_000_000, InvalidTimestampError),
    ):
        producer = Producer(cluster)
        producer.send(topic, value, timestamp_ms=timestamp_ms)
        with pytest.raises(TailraceError) as raised:
            producer.flush()
        assert isinstance(raised.value.__cause__, expected), raised.value


# Out


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_we_read_what_kafka_python_wrote(cluster: Cluster, broker: Broker, codec: str | None) -> None:
    topic = f"read-{codec}"
    Admin(cluster).create_topic(topic, configs={"retention.ms": "-1"})
    producer = KafkaProducer(bootstrap_servers=broker.address, compression_type=codec, linger_ms=20)
    sent = [(at, key, value, tuple(each for each in headers if each[1] is not None)) for at, key, value, headers in ODD]
    for timestamp, key, value, headers in sent:  # a header without a value is beyond kafka-python
        producer.send(topic, value=value, key=key, headers=list(headers), partition=0, timestamp_ms=timestamp)
    producer.close()
    assert [(each.timestamp, each.key, each.value, each.headers) for each in read(cluster, topic)[0]] == sent
    assert cluster.any_connection().version_for(FetchRequest.KEY) == 18


def test_aborted_transactions_are_not_read_as_committed(cluster: Cluster, broker: Broker) -> None:
    Admin(cluster).create_topic("transactions")
    producer = KafkaProducer(bootstrap_servers=broker.address, transactional_id="t", linger_ms=0)
    producer.init_transactions()
    for outcome in ("commit", "abort", "commit", "abort"):
        producer.begin_transaction()
        for number in range(3):
            producer.send("transactions", f"{outcome} {number}".encode())
        producer.flush()
        getattr(producer, f"{outcome}_transaction")()
    producer.close()
    everything = [record.value for record in read(cluster, "transactions")[0]]
    committed = [record.value for record in read(cluster, "transactions", READ_COMMITTED)[0]]
    assert len(everything) == 12
    assert committed == [b"commit 0", b"commit 1", b"commit 2"] * 2


def test_seeking_by_offset_and_time_as_kafkas_tool_finds_it(cluster: Cluster, broker: Broker) -> None:
    Admin(cluster).create_topic("times", configs={"retention.ms": "-1"})
    partition = TopicPartition("times", 0)
    with Producer(cluster) as producer:
        for number in range(10):
            producer.send_batch(partition, [(T0 + 100 * number + at, None, b"%d" % number) for at in range(10)])
    with Consumer(cluster) as consumer:
        consumer.assign([partition])
        found = {}
        for point in (EARLIEST, LATEST, MAX_TIMESTAMP, T0, T0 + 305, T0 + 350, T0 + 10_000):
            consumer.seek_to(point)
            found[point] = consumer.positions[partition]
        output, _ = run_tool(
            "org.apache.kafka.tools.GetOffsetShell",
            *("--bootstrap-server", broker.address, "--topic", "times", "--time", str(T0 + 350)),
        )
        assert output.strip() == f"times:0:{found[T0 + 350]}"
        assert list(found.values()) == [0, 100, 99, 0, 35, 40, 100]
        consumer.seek(partition, 57)
        runs: list[BatchRun] = consumer.poll(5)
        assert next(runs[0].records()).offset == 57


def test_following(cluster: Cluster) -> None:
    Admin(cluster).create_topic("followed")
    with Consumer(cluster) as consumer, Producer(cluster) as producer:
        consumer.assign_topic("followed")
        for number in range(5):
            producer.send("followed", b"%d" % number)
            producer.flush()
            runs: list[BatchRun] = []
            while not runs:
                runs = consumer.poll(5)
            assert [record.value for run in runs for record in run.records()] == [b"%d" % number]


def test_offsets_that_are_gone(cluster: Cluster) -> None:
    Admin(cluster).create_topic("trimmed")
    partition = TopicPartition("trimmed", 0)
    with Producer(cluster) as producer:
        for number in range(30):
            producer.send_batch(partition, [(T0, None, b"%d" % number)])
    with Consumer(cluster) as consumer:
        consumer.assign([partition])
        assert Admin(cluster).delete_records({partition: 12}) == {partition: 12}
        runs: list[BatchRun] = []
        while not runs:
            runs = consumer.poll(5)
        assert next(runs[0].records()).offset == 12
    assert Admin(cluster).delete_records({partition: TO_HIGH_WATERMARK}) == {partition: 30}


# Administration


def test_kafkas_tools_see_what_we_administered(cluster: Cluster, broker: Broker) -> None:
    admin, configs = Admin(cluster), ConfigAdmin(cluster)
    created = admin.create_topic("administered", partitions=2, replication_factor=1, configs={"retention.ms": "5000"})
    assert (created.partitions, created.replication_factor) == (2, 1)
    admin.add_partitions("administered", 3)
    configs.alter(Resource.topic("administered"), values={"segment.ms": "7000"}, unset=["retention.ms"])
    configs.alter(Resource.topic("administered"), append={"cleanup.policy": "compact"})
    output, _ = run_tool(
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", broker.address, "--describe", "--topic", "administered"),
    )
    head, *partitions = output.strip().splitlines()
    assert "PartitionCount: 3" in head
    assert "segment.ms=7000" in head
    assert "retention.ms=5000" not in head
    assert len(partitions) == 3
    values = {each.name: each.value for each in configs.describe(Resource.topic("administered")) if each.is_override}
    assert set((values.pop("cleanup.policy") or "").split(",")) == {"delete", "compact"}
    assert values == {"segment.ms": "7000"}
    admin.delete_topic("administered")
    assert "administered" not in {topic.name for topic in admin.topics()}


def test_errors_are_kafkas(cluster: Cluster) -> None:
    admin, configs = Admin(cluster), ConfigAdmin(cluster)
    admin.create_topic("there")
    for code, attempt in (
        (36, lambda: admin.create_topic("there")),
        (17, lambda: admin.create_topic("not/a/name")),
        (38, lambda: admin.create_topic("too-many", replication_factor=3)),
        (40, lambda: admin.create_topic("odd", configs={"retention.ms": "often"})),
        (3, lambda: admin.delete_topic("nowhere")),
        (37, lambda: admin.add_partitions("there", 1)),
        (3, lambda: admin.topic("nowhere")),
        (3, lambda: configs.describe(Resource.topic("nowhere"))),
        (40, lambda: configs.alter(Resource.topic("there"), values={"no.such.setting": "1"})),
        (1, lambda: admin.delete_records({TopicPartition("there", 0): 99})),
    ):
        with pytest.raises(class_of(code)):
            attempt()
    admin.create_topic("not-made", validate_only=True)
    assert "not-made" not in {topic.name for topic in admin.topics()}


def test_settings_of_brokers(cluster: Cluster) -> None:
    configs = ConfigAdmin(cluster)
    for resource in (Resource.broker(1), Resource.cluster_default()):
        configs.alter(resource, values={"log.cleaner.backoff.ms": "12345"})
        while not (own := [each for each in configs.describe(resource) if each.name == "log.cleaner.backoff.ms"]) or (
            own[0].value != "12345"
        ):
            pass  # the broker has it a moment after the controller
        assert own[0].is_override
        configs.alter(resource, unset=["log.cleaner.backoff.ms"])


def test_the_cluster_is_described(cluster: Cluster, broker: Broker) -> None:
    Admin(cluster).create_topic("described", partitions=2)
    with Producer(cluster) as producer:  # a log is there a moment after its leader; now it is
        for number in range(2):
            producer.send("described", b"", partition=number)
    admin = ClusterAdmin(cluster)
    described = admin.describe()
    assert [str(each.address) for each in described.brokers] == [broker.address]
    (directory,) = admin.log_dirs()
    assert directory.path == str(broker.log_dir)
    assert {TopicPartition("described", 0), TopicPartition("described", 1)} <= {
        each.partition for each in directory.partitions
    }
    (narrowed,) = admin.log_dirs([1], [TopicPartition("described", 1)])
    assert [each.partition.partition for each in narrowed.partitions] == [1]
    quorum = QuorumAdmin(cluster).describe()
    assert (quorum.leader_id, [each.node_id for each in quorum.voters]) == (1, [1])
    levels = {each.name: each.level for each in FeatureAdmin(cluster).features()}
    assert levels["metadata.version"] == 30


# The command line


def test_there_and_back_on_the_command_line(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAILRACE_BOOTSTRAP", broker.address)
    lines = [f"key {number % 17}=value {number}" for number in range(5000)]
    (tmp_path / "lines").write_text("\n".join(lines))
    assert main(["topic", "create", "cli", "--partitions", "4"]) == 0
    assert main(["produce", "cli", "--file", str(tmp_path / "lines"), "--key-separator", "=", "--codec", "lz4"]) == 0
    capsys.readouterr()
    assert main(["consume", "cli", "--key-separator", "="]) == 0
    read_back = capsys.readouterr().out.splitlines()
    assert sorted(read_back) == sorted(lines)
    for key in range(17):
        assert [line for line in read_back if line.startswith(f"key {key}=")] == [
            line for line in lines if line.startswith(f"key {key}=")
        ]
    for command in (["topic", "list", "--sizes"], ["cluster", "dirs"], ["cluster", "features"]):
        assert main([*command, "--json"]) == 0
        assert all(json.loads(line)["type"] for line in capsys.readouterr().out.splitlines())
    assert main(["topic", "delete", "cli", "--yes"]) == 0
