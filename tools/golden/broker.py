"""One real Kafka broker on the loopback interface, run by `benchmarks/peers/kafka`, and what we ask of it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import NamedTuple

import cramjam
import kafka.codec
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from support.kafka.tools import KAFKA_SCRIPT

# kafka-python asks for python-snappy, which itself is a cover over cramjam; raw blocks are all it needs from it.
kafka.codec.snappy = SimpleNamespace(
    compress=lambda data: bytes(cramjam.snappy.compress_raw(data)),
    decompress=lambda data: bytes(cramjam.snappy.decompress_raw(data)),
)

HEAP = "512M"
SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.retention.ms": "-1",  # the fixed timestamps we write lie years back
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.segment.delete.delay.ms": "0",
    "log.initial.task.delay.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "log.flush.start.offset.checkpoint.interval.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "transaction.max.timeout.ms": "3600000",
}


class Message(NamedTuple):
    """A record to send."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Broker:
    """A broker over `folder`; `log_dir` is where its partitions are. Leaving the `with` block kills what still runs.

    `settings` come on top of `SETTINGS`. With `tells`, the broker tells in the file `server_log` what it does.
    """

    def __init__(
        self, folder: Path, port: int, settings: Mapping[str, str] | None = None, *, tells: bool = False
    ) -> None:
        self.folder = folder
        self.settings = {**SETTINGS, **(settings or {})}
        self.tells = tells
        self.server_log = folder / "server.log"
        self.log_dir = folder / "log"
        self.port = port
        self.address = f"127.0.0.1:{port}"

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if (self.folder / "pid").exists():
            self.kill()

    def start(self) -> None:
        settings = [f"{name}={value}" for name, value in self.settings.items()]
        self._script("start", str(self.folder), str(self.port), *settings)

    def stop(self) -> None:
        self._script("stop", str(self.folder))

    def kill(self) -> None:
        self._script("kill", str(self.folder))

    def _script(self, *arguments: str) -> None:
        variables = {"KAFKA_HEAP": HEAP, "KAFKA_LOG": "1" if self.tells else ""}
        subprocess.run([str(KAFKA_SCRIPT), *arguments], check=True, env={**os.environ, **variables})

    def partition_dir(self, topic: str) -> Path:
        return self.log_dir / f"{topic}-0"

    def admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self.address)

    def create_topic(self, topic: str, settings: Mapping[str, str]) -> None:
        admin = self.admin()
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1, "configs": dict(settings)}})
        admin.close()
        wait_until(lambda: (self.partition_dir(topic) / "partition.metadata").exists(), f"the directory of {topic}")

    def alter_topic(self, topic: str, **settings: str) -> None:
        """Names with underscores for dots. Returns when the broker has the new values in its metadata."""
        wanted = {name.replace("_", "."): value for name, value in settings.items()}
        admin = self.admin()
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, wanted)])
        admin.close()
        time.sleep(1)  # the log takes a new setting a moment after the controller has it, and nothing tells when

    def delete_records(self, topic: str, before_offset: int) -> None:
        admin = self.admin()
        admin.delete_records({TopicPartition(topic, 0): before_offset})
        admin.close()

    def writer(self, topic: str, codec: str | None = None, **settings: object) -> Writer:
        return Writer(self.address, topic, codec, settings)

    def checkpoint(self, name: str) -> dict[str, int]:
        """A checkpoint file of the log dir: offsets by `topic-partition`."""
        lines = (self.log_dir / name).read_text().splitlines()[2:]
        return {f"{topic}-{partition}": int(offset) for topic, partition, offset in map(str.split, lines)}

    def wait_for_cleaner(self, topic: str, up_to_offset: int) -> None:
        def cleaned() -> bool:
            leftovers = [file for file in self.partition_dir(topic).iterdir() if file.suffix in LEFTOVER_SUFFIXES]
            return self.checkpoint("cleaner-offset-checkpoint").get(f"{topic}-0", -1) >= up_to_offset and not leftovers

        wait_until(cleaned, f"the cleaner to reach {up_to_offset} in {topic}")


LEFTOVER_SUFFIXES = {".cleaned", ".swap", ".deleted"}


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"gave up waiting for {what} after {timeout_s} s")
        time.sleep(0.1)


class Writer:
    """A kafka-python producer that makes exactly one batch of each call of `batch`."""

    def __init__(self, address: str, topic: str, codec: str | None, settings: Mapping[str, object]) -> None:
        self._topic = topic
        self._producer = KafkaProducer(
            bootstrap_servers=address,
            compression_type=codec,
            linger_ms=60_000,
            batch_size=1 << 20,
            delivery_timeout_ms=300_000,
            **{"enable_idempotence": False, **settings},
        )
        if "transactional_id" in settings:
            self._producer.init_transactions()

    def batch(self, messages: Sequence[Message]) -> int:
        """Send the messages as one batch; its base offset."""
        sent = [
            self._producer.send(
                self._topic,
                value=message.value,
                key=message.key,
                headers=list(message.headers),
                partition=0,
                timestamp_ms=message.timestamp_ms,
            )
            for message in messages
        ]
        self._producer.flush()
        offsets = [future.get(timeout=10).offset for future in sent]
        if offsets != list(range(offsets[0], offsets[0] + len(offsets))):
            raise RuntimeError(f"{self._topic}: the batch was split: {offsets}")
        return int(offsets[0])

    def begin(self) -> None:
        self._producer.begin_transaction()

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=5)

    def abandon(self) -> None:
        """Leave without ending the transaction, as a process that was killed does."""
        self._producer.close(timeout=0)
