"""A broker is killed while idempotent producers write: at the end every record is there exactly once.

    PYTHONPATH=tests python -m support.stress.broker_kills --kills 50 --seed 7

While the broker is down the producers' records wait, and they are sent again when it is back. No record is given up,
and none gets a second chance: librdkafka sends a record again only while it has no response for it. So at the end each
record must be in the log exactly once, in the order in which its producer sent it, and at the acknowledged offset.
Topics are created concurrently; those that were acknowledged must exist.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import NewTopic

from support.kafka.killable import KillableBroker, killable_broker
from support.stress.killed_brokers import (
    BROKER_SETTINGS,
    PARTITIONS,
    PATIENCE_SECONDS,
    QUICK_RECONNECT,
    BrokerFigures,
    BrokerKillTest,
    ClientThread,
    read_partition,
)
from support.stress.killed_processes import Progress, parser, print_progress, run_program

TOPIC: Final = "records"
CODECS: Final = ("none", "lz4", "zstd")
"""A producer for each."""
QUEUED_RECORDS: Final = 500
PAD_BYTES: Final = 200


@dataclass
class Figures(BrokerFigures):
    sent: int = 0
    acknowledged: int = 0
    topics: int = 0


class Sender(ClientThread):
    """An idempotent producer. A record's value is `producer:partition:number`, padded."""

    def __init__(self, number: int, address: str, codec: str) -> None:
        super().__init__(f"producer {number}")
        self.number = number
        self.sent: Counter[int] = Counter()
        self.acknowledged: dict[int, list[tuple[int, int]]] = {each: [] for each in range(PARTITIONS)}
        """By partition: offset and number."""
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "compression.type": codec,
                "enable.idempotence": True,
                "message.timeout.ms": PATIENCE_SECONDS * 1000,
                "linger.ms": 2,
                "queue.buffering.max.messages": QUEUED_RECORDS,
                **QUICK_RECONNECT,
                "error_cb": self._note_error,
            }
        )

    def _note_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.errors.append(f"{self.name}: {error.str()}")

    def work(self) -> None:
        chance = random.Random(self.number)
        while not self.is_over.is_set():
            partition = chance.randrange(PARTITIONS)
            number = self.sent[partition]
            value = b"%d:%d:%d:" % (self.number, partition, number)
            try:
                self._producer.produce(
                    TOPIC, value.ljust(PAD_BYTES, b"."), partition=partition, on_delivery=self._note(partition, number)
                )
            except BufferError:
                self._producer.poll(0.01)
                continue
            self.sent[partition] += 1
            self._producer.poll(0)
            if not sum(self.sent.values()) % 50:
                time.sleep(0.002)  # leaves the broker some of the processor
        left = self._producer.flush(PATIENCE_SECONDS)
        if left:
            self.errors.append(f"{self.name}: {left} records were not acknowledged at the end")

    def _note(self, partition: int, number: int) -> Callable[[KafkaError | None, Any], None]:
        def note(error: KafkaError | None, message: Any) -> None:
            if error is None:
                self.acknowledged[partition].append((message.offset(), number))
            else:
                self.errors.append(f"{self.name}: {partition}:{number} was refused: {error.str()}")

        return note


class BrokerKills(BrokerKillTest[Figures]):
    topics = (TOPIC,)
    work_seconds = 0.4

    def __init__(self, broker: KillableBroker, seed: int, kills: int, progress: Progress | None = None) -> None:
        super().__init__(Figures(), broker, seed, kills, progress)
        self._senders: list[Sender] = []
        self._created: dict[str, Future[Any]] = {}

    def make_clients(self) -> list[ClientThread]:
        address = self.broker.bootstrap_servers
        self._senders = [Sender(number, address, codec) for number, codec in enumerate(CODECS)]
        return [*self._senders]

    def progress(self) -> int:
        return sum(len(each) for sender in self._senders for each in sender.acknowledged.values())

    def begin_round(self) -> None:
        self._created |= self.admin.create_topics([NewTopic(f"created-{self.figures.kills}", 1, 1)])

    def check(self) -> None:
        super().check()
        self.figures.sent = sum(sum(sender.sent.values()) for sender in self._senders)
        self.figures.acknowledged = self.progress()

    def compare(self) -> Iterator[str]:
        for partition in range(PARTITIONS):
            yield from self._compare(partition)
        existing = self.admin.list_topics(timeout=30).topics
        acknowledged = [name for name, each in self._created.items() if each.done() and each.exception() is None]
        self.figures.topics = len(acknowledged)
        yield from (f"topic {name} was created and does not exist" for name in acknowledged if name not in existing)

    def _compare(self, partition: int) -> Iterator[str]:
        found: dict[int, list[tuple[int, int]]] = {sender.number: [] for sender in self._senders}
        for offset, value in read_partition(self.broker.bootstrap_servers, TOPIC, partition):
            producer, written_to, number, *_ = value.split(b":")
            if int(written_to) != partition:
                yield f"partition {partition}: {value!r} at offset {offset} was sent to another partition"
            found[int(producer)].append((offset, int(number)))
        for sender in self._senders:
            wrong = differences(found[sender.number], sender.acknowledged[partition], sender.sent[partition])
            yield from (f"partition {partition}, {sender.name}: {each}" for each in wrong)


def differences(found: list[tuple[int, int]], acknowledged: list[tuple[int, int]], sent: int) -> Iterator[str]:
    """What is wrong with the records of one producer in a partition; each is an offset and a number."""
    numbers = [number for _, number in found]
    lost = set(acknowledged) - set(found)
    if lost:
        yield f"acknowledged and lost: {sorted(lost)[:5]} of {len(lost)}"
    doubles = [number for number, count in Counter(numbers).items() if count > 1]
    if doubles:
        yield f"more than once: {doubles[:5]} of {len(doubles)}"
    if numbers != sorted(numbers):
        yield "out of order"
    if set(numbers) != set(range(sent)):
        yield f"{len(set(numbers))} records of {sent} that were sent"


def run(options: argparse.Namespace) -> Figures:
    with killable_broker(BROKER_SETTINGS) as broker:
        return BrokerKills(broker, options.seed, options.kills, print_progress).run()


if __name__ == "__main__":
    sys.exit(run_program(parser(__doc__, kills=50), run))
