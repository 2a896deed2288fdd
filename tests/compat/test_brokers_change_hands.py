"""A data directory goes from one broker to the other and back, metadata log included: topics, settings, records,
groups with what they have committed, transactions.

What a client of the next broker reads is what a client of the one before wrote: offsets, timestamps, keys, values and
headers, of every codec. Each broker adds something of its own, and is stopped or killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from support.kafka.killable import KafkaVictim

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.usefixtures("kafka_jars")]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
START_MS = int(time.time() * 1000) - 60_000  # young: after half a minute a broker deletes what is too old
SETTINGS = {
    "orders": {"retention.ms": "123456789", "max.message.bytes": "2000000"},
    "prices": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.75"},
}
PARTITIONS = 2
GROUPS = {"old": "classic", "new": "consumer"}
PAYMENTS = "payments"
DEADLINE_S = 30


class Seen(NamedTuple):
    offset: int
    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class Kafka(KafkaVictim):
    name = "kafka"

    def stop(self) -> None:
        self._script("stop", str(self._folder))


class Tailrace:
    """Started with the properties that Kafka is started with."""

    name = "tailrace"

    def __init__(self, kafka: Kafka, folder: Path) -> None:
        self._properties = folder / "server.properties"
        self.bootstrap_servers = kafka.bootstrap_servers
        port = int(self.bootstrap_servers.rpartition(":")[2])
        folder.mkdir(exist_ok=True)
        self._properties.write_text(
            "process.roles=broker,controller\nnode.id=1\n"
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}\n"
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}\ncontroller.listener.names=CONTROLLER\n"
            f"controller.quorum.voters=1@127.0.0.1:{port + 1}\nlog.dirs={folder}/log\n"
            "offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n"
            "transaction.state.log.min.isr=1\ngroup.initial.rebalance.delay.ms=0\n"
        )
        self._process: subprocess.Popen[str] | None = None

    def launch(self) -> None:
        command = [sys.executable, "-m", "tailrace", "serve", "--config", str(self._properties), "--log-level", "error"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith("ready")

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if process is not None:
            os.kill(process.pid, number)
            process.wait(DEADLINE_S)
            assert process.stdout is not None
            process.stdout.close()


Broker = Kafka | Tailrace


@contextmanager
def running(broker: Broker, *, killed: bool) -> Iterator[str]:
    broker.launch()
    ended = False
    try:
        yield broker.bootstrap_servers
        if not killed:
            broker.stop()
            ended = True
    finally:
        if not ended:
            broker.kill()


def make_topics(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    topics = [NewTopic(name, PARTITIONS, 1, config=config) for name, config in SETTINGS.items()]
    topics.append(NewTopic(PAYMENTS, 1, 1))
    for future in admin.create_topics(topics).values():
        future.result(DEADLINE_S)


def produce(servers: str, who: str) -> None:
    for codec in CODECS:
        producer = Producer(
            {"bootstrap.servers": servers, "compression.type": codec, "enable.idempotence": True, "linger.ms": 20}
        )
        for name in SETTINGS:
            for n in range(60):
                producer.produce(
                    name,
                    key=f"{who}-{codec}-{n}",
                    value=None if n % 7 == 3 else f"{who} {codec} {n} " * 20,
                    partition=n % PARTITIONS,
                    timestamp=START_MS + n,
                    headers={"by": who.encode(), "n": str(n).encode()},
                )
        assert producer.flush(DEADLINE_S) == 0


def end(consumer: Consumer, place: TopicPartition) -> int:
    """A Kafka that has just started may not lead its partitions yet. While it does not, librdkafka once gave the end as
    the beginning, too; `everything` reads from offset 0 instead of asking for the beginning.
    """
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            return consumer.get_watermark_offsets(place, DEADLINE_S)[1]
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def everything(servers: str) -> dict[tuple[str, int], list[Seen]]:
    whole_logs = {"group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error"}
    consumer = Consumer({"bootstrap.servers": servers, **whole_logs})
    found: dict[tuple[str, int], list[Seen]] = {}
    try:
        for name in SETTINGS:
            for index in range(PARTITIONS):
                place = TopicPartition(name, index, 0)
                high = end(consumer, place)
                consumer.assign([place])
                seen: list[Seen] = []
                while not seen or seen[-1].offset < high - 1:
                    message = consumer.poll(DEADLINE_S)
                    assert message is not None
                    assert message.error() is None, message.error()
                    headers = tuple((key, value) for key, value in message.headers() or ())
                    seen.append(Seen(message.offset(), message.timestamp(), message.key(), message.value(), headers))
                found[name, index] = seen
    finally:
        consumer.close()
    return found


def settings(servers: str) -> dict[str, dict[str, str]]:
    """What each topic has of its own."""
    admin = AdminClient({"bootstrap.servers": servers})
    asked = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name) for name in SETTINGS])
    dynamic_topic_config = 1
    return {
        resource.name: {
            key: entry.value for key, entry in future.result(DEADLINE_S).items() if entry.source == dynamic_topic_config
        }
        for resource, future in asked.items()
    }


def committed(servers: str) -> dict[str, list[int]]:
    """By group, for each partition of `orders`."""
    found = {}
    for group in GROUPS:
        consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
        places = [TopicPartition("orders", index) for index in range(PARTITIONS)]
        found[group] = [place.offset for place in consumer.committed(places, DEADLINE_S)]
        consumer.close()
    return found


def commit(servers: str, offset: int) -> None:
    """As a member of each group, of its own protocol."""
    for group, protocol in GROUPS.items():
        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "group.protocol": protocol,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe(["orders"])
        deadline = time.monotonic() + DEADLINE_S
        while len(consumer.assignment()) < PARTITIONS:
            assert time.monotonic() < deadline, f"{group} gets no partitions"
            consumer.poll(0.1)
        places = [TopicPartition("orders", index, offset + index) for index in range(PARTITIONS)]
        consumer.commit(offsets=places, asynchronous=False)
        consumer.close()


def transact(servers: str, who: str, *, leaves_one_open: bool) -> None:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "shop"})
    producer.init_transactions(DEADLINE_S)
    for ending in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(PAYMENTS, f"{who} {ending.__name__}")
        assert producer.flush(DEADLINE_S) == 0
        ending(DEADLINE_S)
    if leaves_one_open:
        producer.begin_transaction()
        producer.produce(PAYMENTS, f"{who} open")
        assert producer.flush(DEADLINE_S) == 0


def payments(servers: str) -> list[str]:
    """What a reader of committed records sees."""
    settings = {"group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": servers, **settings})
    consumer.assign([TopicPartition(PAYMENTS, 0, 0)])
    seen = []
    while (message := consumer.poll(DEADLINE_S)) is not None and message.error() is None:
        seen.append(message.value().decode())
    consumer.close()
    return seen


@pytest.mark.parametrize(("first", "killed"), [("tailrace", False), ("tailrace", True), ("kafka", False)])
def test_a_directory_changes_hands_twice(tmp_path: Path, first: str, killed: bool) -> None:
    folder = tmp_path / "node"
    kafka = Kafka(folder, {})
    tailrace = Tailrace(kafka, folder)
    order: list[Broker] = [tailrace, kafka, tailrace] if first == "tailrace" else [kafka, tailrace, kafka]
    before: dict[tuple[str, int], list[Seen]] = {}
    offsets: dict[str, list[int]] = {}
    paid: list[str] = []
    for turn, broker in enumerate(order):
        with running(broker, killed=killed) as servers:
            if turn == 0:
                make_topics(servers)
            else:
                assert everything(servers) == before
                assert committed(servers) == offsets
            transact(servers, f"{broker.name}-{turn}", leaves_one_open=killed)
            paid.append(f"{broker.name}-{turn} commit_transaction")
            assert payments(servers) == paid
            assert settings(servers) == SETTINGS
            produce(servers, f"{broker.name}-{turn}")
            before = everything(servers)
            assert all(len(seen) == (turn + 1) * len(CODECS) * 60 // PARTITIONS for seen in before.values())
            commit(servers, 10 * (turn + 1))
            offsets = committed(servers)
            assert all(found == [10 * (turn + 1), 10 * (turn + 1) + 1] for found in offsets.values())
