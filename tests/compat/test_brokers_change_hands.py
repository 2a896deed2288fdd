"""A data directory goes from one broker to the other and back, metadata log included: topics, settings, records.

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
from kafka_victim import KafkaVictim

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.usefixtures("kafka_jars")]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS = {
    "orders": {"retention.ms": "123456789", "max.message.bytes": "2000000"},
    "prices": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.75"},
}
PARTITIONS = 2
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
                    timestamp=1_700_000_000_000 + n,
                    headers={"by": who.encode(), "n": str(n).encode()},
                )
        assert producer.flush(DEADLINE_S) == 0


def ends(consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
    """A Kafka that has just started may not lead its partitions yet."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            return consumer.get_watermark_offsets(place, DEADLINE_S)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def everything(servers: str) -> dict[tuple[str, int], list[Seen]]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "unused", "enable.auto.commit": False})
    found: dict[tuple[str, int], list[Seen]] = {}
    try:
        for name in SETTINGS:
            for index in range(PARTITIONS):
                place = TopicPartition(name, index, 0)
                low, high = ends(consumer, place)
                assert low == 0
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


@pytest.mark.parametrize(("first", "killed"), [("tailrace", False), ("tailrace", True), ("kafka", False)])
def test_a_directory_changes_hands_twice(tmp_path: Path, first: str, killed: bool) -> None:
    folder = tmp_path / "node"
    kafka = Kafka(folder, {})
    tailrace = Tailrace(kafka, folder)
    order: list[Broker] = [tailrace, kafka, tailrace] if first == "tailrace" else [kafka, tailrace, kafka]
    before: dict[tuple[str, int], list[Seen]] = {}
    for turn, broker in enumerate(order):
        with running(broker, killed=killed) as servers:
            if turn == 0:
                make_topics(servers)
            else:
                assert everything(servers) == before
            assert settings(servers) == SETTINGS
            produce(servers, f"{broker.name}-{turn}")
            before = everything(servers)
            assert all(len(seen) == (turn + 1) * len(CODECS) * 60 // PARTITIONS for seen in before.values())
