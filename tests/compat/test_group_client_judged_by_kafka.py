"""Our client's groups and transactions on a real Kafka broker; Kafka's tools and clients say what became of them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from support.kafka.tools import KAFKA_SCRIPT, run_tool

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of kafka-python's use of importlib
    from kafka import KafkaConsumer

    from golden.broker import Broker
    from support.kafka.client import free_port
from tailrace.cli.main import main
from tailrace.client.admin import Admin
from tailrace.client.cluster import Cluster
from tailrace.client.errors import class_of
from tailrace.client.feature_admin import SAFE_DOWNGRADE, UPGRADE, FeatureAdmin
from tailrace.client.group_admin import GroupAdmin
from tailrace.client.group_consumer import GroupConsumer
from tailrace.client.producer import Producer
from tailrace.client.transaction_admin import TransactionAdmin
from tailrace.client.transactional_producer import TransactionalProducer
from tailrace.model.ids import TopicPartition

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.usefixtures("kafka_jars")]

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
FENCED, SUBSCRIBED, NON_EMPTY = 90, 86, 68


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka"), free_port()) as broker:
        yield broker


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    with Cluster(broker.address) as cluster:
        yield cluster


def fill(cluster: Cluster, topic: str, count: int) -> None:
    with Producer(cluster) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, b"%d" % number)


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """One of Kafka's tools beside us. The script that starts it is its parent: both end with the block."""
    process = subprocess.Popen(
        [str(KAFKA_SCRIPT), "tool", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def offsets_by_kafka(broker: Broker, group: str) -> dict[int, tuple[int, int, int]]:
    """By partition: committed, end and lag, as Kafka's tool has them."""
    said, _ = run_tool(GROUPS, "--bootstrap-server", broker.address, "--describe", "--group", group)
    rows = re.findall(rf"^{group} +\S+ +(\d+) +(\d+) +(\d+) +(\d+)", said, re.MULTILINE)
    return {int(number): (int(at), int(end), int(lag)) for number, at, end, lag in rows}


def test_a_group_commits_and_goes_on(broker: Broker, cluster: Cluster) -> None:
    Admin(cluster).create_topic("read", partitions=3)
    fill(cluster, "read", 90)
    found: list[bytes | None] = []
    with GroupConsumer(cluster, "readers", commit_every_s=None) as consumer:
        consumer.subscribe(["read"])
        while len(found) < 40:
            for run in consumer.poll(1):
                records = list(run.records())[: 40 - len(found)]
                if records:
                    found += [record.value for record in records]
                    consumer.commit({run.partition: records[-1].offset + 1})
    told = offsets_by_kafka(broker, "readers")
    assert sum(at for at, _, _ in told.values()) == 40
    with GroupConsumer(cluster, "readers") as consumer:
        consumer.subscribe(pattern="re.d")
        while len(found) < 90:
            found += [record.value for run in consumer.poll(1) for record in run.records()]
    assert sorted(found, key=lambda value: int(value or b"")) == [b"%d" % number for number in range(90)]
    told = offsets_by_kafka(broker, "readers")
    admin = GroupAdmin(cluster)
    lags = admin.lag(admin.describe("readers"))
    assert {each.partition.partition: (each.offset, each.end, each.lag) for each in lags} == told


def test_members_share_with_kafkas_own(broker: Broker, cluster: Cluster) -> None:
    """Kafka's console consumer under the consumer protocol, and ours, in one group."""
    Admin(cluster).create_topic("shared", partitions=4)
    command = (
        *("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", broker.address),
        *("--topic", "shared", "--group", "sharers"),
        *("--command-property", "group.protocol=consumer"),
    )
    with running(*command), GroupConsumer(cluster, "sharers") as consumer:
        consumer.subscribe(["shared"])
        deadline_s = time.monotonic() + 60
        while not consumer.has_joined:
            assert time.monotonic() < deadline_s
            consumer.poll(0.5)
        while len(GroupAdmin(cluster).describe("sharers").members) < 2 or len(consumer.assignment) != 2:
            assert time.monotonic() < deadline_s
            consumer.poll(0.5)
        described = GroupAdmin(cluster).describe("sharers")
        held = [each for member in described.members for each in member.partitions]
        assert len(held) == len(set(held))
        for code, attempt in (
            (NON_EMPTY, lambda: GroupAdmin(cluster).delete("sharers")),
            (SUBSCRIBED, lambda: GroupAdmin(cluster)._delete_offsets("sharers", [TopicPartition("shared", 0)])),
        ):
            with pytest.raises(class_of(code)):
                attempt()


@pytest.mark.parametrize("version", [1, 2])
def test_transactions(broker: Broker, cluster: Cluster, version: int) -> None:
    kind = UPGRADE if version == 2 else SAFE_DOWNGRADE
    levels = {each.name: each.level for each in FeatureAdmin(cluster).features()}
    if levels["transaction.version"] != version:
        FeatureAdmin(cluster).update({"transaction.version": version}, upgrade_type=kind)
    topic, group, name = f"paid-{version}", f"payers-{version}", f"payer-{version}"
    Admin(cluster).create_topic(topic)
    place = TopicPartition(topic, 0)
    with Cluster(broker.address) as fresh, TransactionalProducer(fresh, name) as producer:
        for number in range(12):
            producer.begin()
            producer.send(topic, b"%d" % number)
            producer.send_offsets(group, {place: number})
            if number % 4:
                producer.commit()
            else:
                producer.flush()
                producer.abort()
        said, _ = run_tool(TRANSACTIONS, "--bootstrap-server", broker.address, "describe", "--transactional-id", name)
        assert "CompleteCommit" in said
        producer.begin()
        producer.send(topic, b"100")
        producer.flush()
        TransactionAdmin(cluster).fence(name)
        with pytest.raises(class_of(FENCED)):
            producer.commit()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reader = KafkaConsumer(
            topic,
            bootstrap_servers=broker.address,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            consumer_timeout_ms=3000,
        )
        values = [int(record.value) for record in reader]
        reader.close()
    assert values == [number for number in range(12) if number % 4]
    assert offsets_by_kafka(broker, group)[0][0] == 11


def test_the_command_line(
    broker: Broker, cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAILRACE_BOOTSTRAP", broker.address)

    def run(*command: str) -> list[dict[str, object]]:
        assert main([*command, "--json"]) == 0, (command, capsys.readouterr().err)
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    Admin(cluster).create_topic("lines", partitions=2)
    fill(cluster, "lines", 50)
    assert len(run("consume", "lines", "--group", "liners")) == 50
    run("group", "reset-offsets", "liners", "--shift-by", "-5", "--execute")
    assert {lag for _, _, lag in offsets_by_kafka(broker, "liners").values()} == {5}
    exported, _ = run_tool(
        GROUPS,
        *("--bootstrap-server", broker.address, "--reset-offsets", "--to-earliest", "--all-topics"),
        *("--group", "liners", "--export", "--dry-run"),
    )
    ours = run("group", "reset-offsets", "liners", "--to", "earliest")
    lines = {f"{item['topic']},{item['partition']},{item['offset']}" for item in ours}
    assert {line.replace('"', "") for line in exported.split() if line.count(",") == 2} == lines
    assert run("txn", "find-hanging") == []
    assert "liners" in [item["group"] for item in run("group", "list", "--lag")]
    run("group", "delete", "liners", "--yes")
    assert "liners" not in run_tool(GROUPS, "--bootstrap-server", broker.address, "--list")[0]


def test_share_groups(broker: Broker, cluster: Cluster) -> None:
    Admin(cluster).create_topic("pool")
    command = (
        *(SHARE_CONSUMER, "--bootstrap-server", broker.address),
        *("--topic", "pool", "--group", "poolers", "--max-messages", "3"),
    )
    with running(*command) as theirs:
        admin, deadline_s = GroupAdmin(cluster), time.monotonic() + 60
        while admin.kind_of("poolers") != "share" or not admin.describe("poolers").members:
            assert time.monotonic() < deadline_s
            time.sleep(0.2)
        described = admin.describe("poolers")
        assert (described.state, described.members[0].client_id) == ("Stable", "console-share-consumer")
        while theirs.poll() is None:
            assert time.monotonic() < deadline_s
            fill(cluster, "pool", 1)
            time.sleep(0.2)
        while admin.describe("poolers").members:
            assert time.monotonic() < deadline_s
            time.sleep(0.2)
        admin.alter_offsets("poolers", {TopicPartition("pool", 0): 1})
        (lag,) = admin.lag(admin.describe("poolers"))
        assert (lag.offset, lag.lag) == (1, (lag.end or 0) - 1)
        assert admin.delete_offsets("poolers", ["pool"]) == [TopicPartition("pool", 0)]
        admin.delete("poolers")
        assert admin.kind_of("poolers") is None
