"""A broker is killed while client threads work: what such tests share, for Tailrace and for a real Kafka.

Clients never stop: while the broker is down they wait, and they continue when it is back. Some kills fall into a start,
when logs are recovered and coordinators loaded; the broker is started again on what is left, without help.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from support.kafka.killable import KillableBroker
from support.stress.killed_processes import Figures, KillTest, Progress

PARTITIONS: Final = 3
BROKER_SETTINGS: Final = {
    "log.flush.offset.checkpoint.interval.ms": "300",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "log.flush.start.offset.checkpoint.interval.ms": "300",
    "log.initial.task.delay.ms": "100",
}
TOPIC_SETTINGS: Final = {"segment.bytes": str(1 << 20), "segment.index.bytes": "4096"}
QUICK_RECONNECT: Final[dict[str, Any]] = {
    "metadata.recovery.strategy": "none",  # there is no other broker
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 50,
    "log_level": 0,
    "error_cb": lambda error: None,  # an unreachable broker is expected
}
SHARE_OF_KILLED_STARTS: Final = 0.2
START_SECONDS: Final = 0.5
PATIENCE_SECONDS: Final = 120


@dataclass
class BrokerFigures(Figures):
    killed_starts: int = 0
    longest_start_seconds: float = 0.0


BrokerFiguresT = TypeVar("BrokerFiguresT", bound=BrokerFigures)


class ClientThread(ABC):
    """A client on a thread. `errors` are what it must not meet; each is a difference."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.errors: list[str] = []
        self.is_over = Event()
        self._thread = Thread(target=self._run, name=name)

    @abstractmethod
    def work(self) -> None:
        """Work until `is_over` is set."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Let it finish what it has begun."""
        self.is_over.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self.work()
        except Exception as error:
            self.errors.append(f"{self.name}: {error!r}")


class BrokerKillTest(KillTest[BrokerFiguresT]):
    """`figures` is counted by the subject; `work_seconds` is the longest time from the first progress to the kill."""

    topics: tuple[str, ...]
    work_seconds: float

    def __init__(
        self,
        figures: BrokerFiguresT,
        broker: KillableBroker,
        seed: int,
        kills: int,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(figures, seed, kills, progress)
        self.broker = broker
        self.clients: list[ClientThread] = []

    @abstractmethod
    def make_clients(self) -> list[ClientThread]: ...

    @abstractmethod
    def progress(self) -> int:
        """Grows whenever the broker has served a client."""

    @abstractmethod
    def compare(self) -> Iterator[str]:
        """Differences between what the broker has and what clients know, after the last kill."""

    def begin_round(self) -> None:
        """Runs in each round after the broker is ready."""

    def prepare(self) -> None:
        self.start()
        self.admin = AdminClient({"bootstrap.servers": self.broker.bootstrap_servers, **QUICK_RECONNECT})
        created = self.admin.create_topics(
            [NewTopic(name, PARTITIONS, 1, config=TOPIC_SETTINGS) for name in self.topics]
        )
        for future in created.values():
            future.result(30)
        self.clients = self.make_clients()
        for client in self.clients:
            client.start()

    def round(self) -> None:
        if self.figures.kills:
            if self.random.random() < SHARE_OF_KILLED_STARTS:
                self.broker.launch()
                self.pause(START_SECONDS)
                self._kill()
                self.figures.killed_starts += 1
                return
            self.start()
        self.begin_round()
        before = self.progress()
        self.wait(lambda: self.progress() > before, PATIENCE_SECONDS, "no client was served after a start")
        self.pause(self.work_seconds)
        self._kill()

    def complete(self) -> None:
        self.start()

    def close(self) -> None:
        for client in self.clients:
            client.is_over.set()
        for client in self.clients:
            client.stop()

    def check(self) -> None:
        for client in self.clients:
            self.figures.differences += client.errors
        if self.broker.is_running:
            self.figures.differences += self.compare()
        else:
            self.note_difference("the broker ended after the last start without being killed")

    def start(self) -> None:
        began = time.monotonic()
        self.broker.launch()
        self.broker.wait_until_ready()
        self.figures.longest_start_seconds = max(self.figures.longest_start_seconds, time.monotonic() - began)

    def _kill(self) -> None:
        if not self.broker.is_running:
            self.note_difference(f"the broker ended before kill {self.figures.kills + 1} without being killed")
        self.broker.kill()
        self.figures.kills += 1

    def wait(self, is_done: Callable[[], bool], patience_seconds: float, what: str) -> bool:
        """Not longer than broker and clients are well; what is wrong with them is found elsewhere."""
        return super().wait(lambda: is_done() or not self._is_well(), patience_seconds, what)

    def _is_well(self) -> bool:
        return self.broker.is_running and not any(client.errors for client in self.clients)


def read_partition(
    address: str, topic: str, partition: int, isolation: str = "read_uncommitted"
) -> list[tuple[int, bytes]]:
    """Offset and value of every record up to the end, in the order of the log."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "check.crcs": True,
            "log_level": 0,
        }
    )
    found: list[tuple[int, bytes]] = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.5):
                error = message.error()
                if error is None:
                    found.append((message.offset(), message.value() or b""))
                elif error.code() == KafkaError._PARTITION_EOF:
                    return found
                elif error.code() not in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
                    raise KafkaException(error)
        raise AssertionError(f"{topic}-{partition}: no end within {PATIENCE_SECONDS} s, after {len(found)} records")
    finally:
        consumer.close()
