"""Our client's groups and transactions on our broker, a child process, that is killed and comes back."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import tailrace
from tailrace.cli.main import main
from tailrace.client.admin import Admin
from tailrace.client.cluster import Cluster
from tailrace.client.consumer import Consumer
from tailrace.client.errors import class_of
from tailrace.client.feature_admin import SAFE_DOWNGRADE, UPGRADE, FeatureAdmin
from tailrace.client.group_admin import GroupAdmin
from tailrace.client.group_consumer import GroupConsumer
from tailrace.client.offsets import READ_COMMITTED
from tailrace.client.producer import Producer
from tailrace.client.transaction_admin import TransactionAdmin
from tailrace.client.transactional_producer import TransactionalProducer
from tailrace.model.ids import TopicPartition

FENCED, INVALID_EPOCH = 90, 47


@pytest.fixture(scope="module")
def broker() -> Iterator[tailrace.Broker]:
    beat = {"group.consumer.min.heartbeat.interval.ms": "100", "group.consumer.heartbeat.interval.ms": "100"}
    with tailrace.Broker(beat) as broker:
        yield broker


@pytest.fixture
def cluster(broker: tailrace.Broker) -> Iterator[Cluster]:
    with Cluster(broker.bootstrap_servers) as cluster:
        yield cluster


def fill(cluster: Cluster, topic: str, numbers: range) -> None:
    with Producer(cluster) as producer:
        for number in numbers:
            producer.send(topic, b"%d" % number, b"%d" % (number % 50))


def committed_values(cluster: Cluster, topic: str) -> list[int]:
    """What a reader under read_committed sees, once nothing is open any more."""
    found = []
    with Consumer(cluster, isolation=READ_COMMITTED) as reader, Consumer(cluster) as writer:
        partitions = reader.assign_topic(topic)
        writer.assign(partitions)
        ends = writer.ends()
        while any(at < ends[each] for each, at in reader.positions.items()):
            found += [int(record.value or b"") for run in reader.poll(1) for record in run.records()]
    return sorted(found)


def test_a_group_resumes_exactly_after_a_kill(broker: tailrace.Broker, cluster: Cluster) -> None:
    Admin(cluster).create_topic("resumed", partitions=3)
    fill(cluster, "resumed", range(300))
    found: list[int] = []
    for attempt in range(3):
        with GroupConsumer(cluster, "resumers", commit_every_s=None) as consumer:
            consumer.subscribe(["resumed"])
            some: list[int] = []
            while len(some) < 100:
                for run in consumer.poll(1):
                    records = list(run.records())[: 100 - len(some)]
                    if records:
                        some += [int(record.value or b"") for record in records]
                        consumer.commit({run.partition: records[-1].offset + 1})
        found += some
        if attempt < 2:
            broker.kill()
            broker.start()
    assert sorted(found) == list(range(300))
    admin = GroupAdmin(cluster)
    assert sum(each.lag or 0 for each in admin.lag(admin.describe("resumers"))) == 0


def test_members_come_and_go(broker: tailrace.Broker, cluster: Cluster) -> None:
    Admin(cluster).create_topic("shared", partitions=4)
    fill(cluster, "shared", range(100))
    with Cluster(broker.bootstrap_servers, client_id="two") as other, GroupConsumer(cluster, "sharers") as one:
        one.subscribe(["shared"])
        while len(one.assignment) < 4:
            one.poll(0.1)
        with GroupConsumer(other, "sharers") as two:
            two.subscribe(pattern="share.")
            while (len(one.assignment), len(two.assignment)) != (2, 2):
                one.poll(0.05)
                two.poll(0.05)
            described = GroupAdmin(cluster).describe("sharers")
            assert [each.client_id for each in described.members] == ["tailrace", "two"]
            assert {each for member in described.members for each in member.partitions} == (
                one.assignment | two.assignment
            )
        while len(one.assignment) < 4:
            one.poll(0.05)


@pytest.mark.parametrize("version", [1, 2])
def test_transactions(cluster: Cluster, version: int) -> None:
    kind = UPGRADE if version == 2 else SAFE_DOWNGRADE
    if next(each.level for each in FeatureAdmin(cluster).features() if each.name == "transaction.version") != version:
        FeatureAdmin(cluster).update({"transaction.version": version}, upgrade_type=kind)
    topic, group = f"paid-{version}", f"payers-{version}"
    Admin(cluster).create_topic(topic, partitions=2)
    place = TopicPartition(topic, 0)
    with Cluster(str(cluster.bootstrap[0])) as fresh, TransactionalProducer(fresh, f"payer-{version}") as producer:
        for number in range(20):
            producer.begin()
            producer.send(topic, b"%d" % number, partition=number % 2)
            producer.send_offsets(group, {place: number})
            if number % 5:
                producer.commit()
            else:
                producer.flush()
                producer.abort()
        assert producer._transactions.is_v2 is (version == 2)
        with TransactionalProducer(fresh, f"payer-{version}") as second:
            second.begin()
            producer.begin()
            with pytest.raises((class_of(FENCED), class_of(INVALID_EPOCH))):
                producer.send_offsets(group, {place: 99})
            with pytest.raises(class_of(FENCED)):
                producer.abort()
            second.send(topic, b"100", partition=0)
            second.commit()
    assert committed_values(cluster, topic) == [number for number in range(20) if number % 5] + [100]
    assert GroupAdmin(cluster).offsets(group)[place].offset == 19


def test_a_copier_that_aborts_at_random_on_a_broker_that_is_killed(broker: tailrace.Broker, cluster: Cluster) -> None:
    Admin(cluster).create_topic("source", partitions=2)
    Admin(cluster).create_topic("copy", partitions=2)
    fill(cluster, "source", range(600))
    chance, transactions = random.Random(3), 0
    with (
        GroupConsumer(cluster, "copiers", commit_every_s=None) as consumer,
        TransactionalProducer(cluster, "copier") as producer,
    ):
        consumer.subscribe(["source"])
        done = 0
        while done < 600:
            for run in consumer.poll(1):
                records = list(run.records())[:40]
                producer.begin()
                transactions += 1
                for record in records:
                    producer.send("copy", record.value, record.key)
                reached = records[-1].offset + 1
                producer.send_offsets("copiers", {run.partition: reached}, consumer.member)
                if transactions == 5:
                    broker.kill()
                    broker.start()
                if chance.random() < 0.3:
                    producer.abort()
                    consumer.seek(run.partition, run.offset)
                else:
                    producer.commit()
                    consumer.seek(run.partition, reached)
                    done += len(records)
    assert committed_values(cluster, "copy") == list(range(600))


def test_a_transaction_that_hangs(cluster: Cluster) -> None:
    Admin(cluster).create_topic("hung")
    place, admin = TopicPartition("hung", 0), TransactionAdmin(cluster)
    with TransactionalProducer(cluster, "hanger") as producer:
        producer.begin()
        producer.send("hung", b"1")
        producer.flush()
        assert [each.transactional_id for each in admin.transactions(states=["Ongoing"])] == ["hanger"]
        assert admin.describe("hanger").partitions == (place,)
        assert admin.find_hanging([place], longer_than_ms=-1000) == []
        (still_open,) = (each for each in admin.producers([place]) if each.open_since is not None)
        admin.abort_hanging(still_open)  # as if it hung
        assert all(each.open_since is None for each in admin.producers([place]))
        producer.abort()
        producer.begin()
        producer.send("hung", b"2")
        producer.flush()
        admin.fence("hanger")
        with pytest.raises(class_of(FENCED)):
            producer.commit()
    assert committed_values(cluster, "hung") == []


def test_the_command_line(
    broker: tailrace.Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAILRACE_BOOTSTRAP", broker.bootstrap_servers)
    lines = [f"value {number}" for number in range(500)]
    (tmp_path / "lines").write_text("\n".join(lines))

    def run(*command: str) -> list[dict[str, object]]:
        assert main([*command, "--json"]) == 0, (command, capsys.readouterr().err)
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    run("topic", "create", "lines", "--partitions", "2")
    run("produce", "lines", "--file", str(tmp_path / "lines"))
    assert main(["consume", "lines", "--group", "readers", "--max", "200"]) == 0
    first = capsys.readouterr().out.splitlines()
    assert main(["consume", "lines", "--group", "readers"]) == 0
    assert sorted([*first, *capsys.readouterr().out.splitlines()]) == sorted(lines)
    assert "readers" in [item["group"] for item in run("group", "list", "--lag")]
    saved = run("group", "describe", "readers")
    assert saved[0]["lag"] == 0
    (tmp_path / "saved").write_text("\n".join(map(json.dumps, saved)))
    run("group", "reset-offsets", "readers", "--to", "earliest", "--execute")
    assert sum(int(str(item["lag"])) for item in run("group", "lag", "readers")) == 500
    run("group", "reset-offsets", "readers", "--from-file", str(tmp_path / "saved"), "--execute")
    assert sum(int(str(item["lag"])) for item in run("group", "lag", "readers")) == 0
    run("group", "delete", "readers", "--topic", "lines", "--yes")
    assert run("group", "lag", "readers") == []
    run("group", "delete", "readers", "--yes")
    run("txn", "list")
    run("txn", "producers", "lines")
    assert run("txn", "find-hanging") == []
