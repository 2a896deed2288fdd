"""A broker is killed at random moments while idempotent producers write, and everything is there, once, in the end.

    PYTHONPATH=tests python -m support.stress.broker_kills --kills 50 --seed 7

Producers never stop: while the broker is down their records wait and go out again when it is back. They give up nothing
and get no second chance: librdkafka sends a record again only while it has no answer for it. So at the end each record
must be in the log exactly once, in the order in which its producer sent it, and at the offset that was acknowledged.
Beside them topics are created; those that were acknowledged must be there.

Some kills fall into the start, when logs are recovered; the broker is started again on what is left, with no help.

The last line printed is the figures as JSON; the exit code is 1 when there was a difference.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC = "storm"
PARTITIONS = 3
TOPIC_SETTINGS = {"segment.bytes": str(1 << 20), "segment.index.bytes": "4096"}
BROKER_SETTINGS = {
    "log.flush.offset.checkpoint.interval.ms": "300",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "log.flush.start.offset.checkpoint.interval.ms": "300",
    "log.initial.task.delay.ms": "100",
}
PRODUCERS = ("none", "lz4", "zstd")  # one for each codec
WAITING_RECORDS = 500  # each producer's queue
PAD_BYTES = 200
WORK_SECONDS = 0.4  # at most, from the first answer to a producer on
SHARE_OF_KILLED_STARTS = 0.2
START_SECONDS = 0.5
PATIENCE_SECONDS = 120
SHOWN_DIFFERENCES = 20


class Victim(Protocol):
    """A broker that can be killed and started again."""

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def is_running(self) -> bool: ...

    def launch(self) -> None: ...

    def wait_until_ready(self) -> None: ...

    def kill(self) -> None: ...


@dataclass
class Figures:
    kills: int = 0
    killed_starts: int = 0
    sent: int = 0
    acknowledged: int = 0
    topics: int = 0
    longest_start_seconds: float = 0.0
    seconds: float = 0.0
    differences: list[str] = field(default_factory=list)


class Sender:
    """One idempotent producer on a thread. A record's value is `producer:partition:number`, padded."""

    def __init__(self, number: int, address: str, codec: str, is_over: Event) -> None:
        self.number = number
        self.sent: Counter[int] = Counter()
        self.acknowledged: dict[int, list[tuple[int, int]]] = {each: [] for each in range(PARTITIONS)}
        """By partition: offset and number."""
        self.errors: list[str] = []
        self._is_over = is_over
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "compression.type": codec,
                "enable.idempotence": True,
                "message.timeout.ms": PATIENCE_SECONDS * 1000,
                "metadata.recovery.strategy": "none",  # there is nobody else to turn to
                "linger.ms": 2,
                "queue.buffering.max.messages": WAITING_RECORDS,
                "reconnect.backoff.ms": 5,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 5,
                "retry.backoff.max.ms": 50,
                "error_cb": self._noticed,
                "log_level": 0,
            }
        )
        self.thread = Thread(target=self._run, name=f"sender-{number}")

    def _noticed(self, error: KafkaError) -> None:
        if error.fatal():
            self.errors.append(f"producer {self.number}: {error.str()}")

    def _run(self) -> None:
        random_of_it = random.Random(self.number)
        while not self._is_over.is_set():
            partition = random_of_it.randrange(PARTITIONS)
            number = self.sent[partition]
            value = b"%d:%d:%d:" % (self.number, partition, number)
            try:
                self._producer.produce(
                    TOPIC, value.ljust(PAD_BYTES, b"."), partition=partition, on_delivery=self._note(partition, number)
                )
            except BufferError:
                self._producer.poll(0.01)
                continue
            except KafkaException as error:
                self.errors.append(f"producer {self.number}: {error}")
                return
            self.sent[partition] += 1
            self._producer.poll(0)
            if not sum(self.sent.values()) % 50:
                time.sleep(0.002)  # leaves the broker some of the processor
        left = self._producer.flush(PATIENCE_SECONDS)
        if left:
            self.errors.append(f"producer {self.number}: {left} records were not acknowledged in the end")

    def _note(self, partition: int, number: int) -> Callable[[KafkaError | None, Any], None]:
        def note(error: KafkaError | None, message: Any) -> None:
            if error is None:
                self.acknowledged[partition].append((message.offset(), number))
            else:
                self.errors.append(f"producer {self.number}: {partition}:{number} was refused: {error.str()}")

        return note


class Storm:
    def __init__(self, victim: Victim, seed: int, told: Callable[[int], None] = lambda kills: None) -> None:
        self.figures = Figures()
        self._victim = victim
        self._told = told
        self._random = random.Random(seed)
        self._topics: dict[str, Future[Any]] = {}
        self._admin: AdminClient | None = None
        self._senders: list[Sender] = []

    def run(self, kills: int) -> Figures:
        """The victim must not run yet; it runs when this returns."""
        began = time.monotonic()
        self._start()
        address = self._victim.bootstrap_servers
        self._admin = AdminClient(
            {
                "bootstrap.servers": address,
                "reconnect.backoff.ms": 5,
                "reconnect.backoff.max.ms": 50,
                "log_level": 0,
                "error_cb": lambda error: None,  # that nobody is there is no news
            }
        )
        (made,) = self._admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=TOPIC_SETTINGS)]).values()
        made.result(30)
        is_over = Event()
        self._senders = [Sender(number, address, codec, is_over) for number, codec in enumerate(PRODUCERS)]
        for sender in self._senders:
            sender.thread.start()
        try:
            while self.figures.kills < kills and not self.figures.differences:
                self._round()
                self._told(self.figures.kills)
            self._start()
        finally:
            is_over.set()
            for sender in self._senders:
                sender.thread.join()
        self._take_stock()
        self.figures.seconds = time.monotonic() - began
        return self.figures

    # One life

    def _round(self) -> None:
        if self.figures.kills:
            if self._random.random() < SHARE_OF_KILLED_STARTS:
                self._victim.launch()
                time.sleep(self._random.uniform(0, START_SECONDS))
                self._kill()
                self.figures.killed_starts += 1
                return
            self._start()
        self._create_topic()
        self._wait_for_load()
        time.sleep(self._random.uniform(0, WORK_SECONDS))
        self._kill()

    def _start(self) -> None:
        began = time.monotonic()
        self._victim.launch()
        self._victim.wait_until_ready()
        self.figures.longest_start_seconds = max(self.figures.longest_start_seconds, time.monotonic() - began)

    def _wait_for_load(self) -> None:
        """Until a producer has an answer of this life: they take a second or two to find out that they may go on."""
        before = self._answers()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._answers() == before and self._is_well():
            if time.monotonic() > deadline:
                self.figures.differences.append(f"no record was acknowledged within {PATIENCE_SECONDS} s of a start")
                return
            time.sleep(0.005)

    def _answers(self) -> int:
        return sum(len(each) for sender in self._senders for each in sender.acknowledged.values())

    def _is_well(self) -> bool:
        return self._victim.is_running and not any(sender.errors for sender in self._senders)

    def _kill(self) -> None:
        if not self._victim.is_running:
            self.figures.differences.append(f"the broker ended by itself before kill {self.figures.kills + 1}")
        self._victim.kill()
        self.figures.kills += 1

    def _create_topic(self) -> None:
        assert self._admin is not None
        self._topics |= self._admin.create_topics([NewTopic(f"made-{self.figures.kills}", 1, 1)])

    # After all of them

    def _take_stock(self) -> None:
        differences = self.figures.differences + [error for sender in self._senders for error in sender.errors]
        if self._victim.is_running:
            for partition in range(PARTITIONS):
                differences += self._compare(partition)
            differences += self._missing_topics()
        else:
            differences.append("the broker ended by itself after the last start")
        self.figures.sent = sum(sum(sender.sent.values()) for sender in self._senders)
        self.figures.acknowledged = self._answers()
        self.figures.differences = differences[:SHOWN_DIFFERENCES]

    def _compare(self, partition: int) -> list[str]:
        found: dict[int, list[tuple[int, int]]] = {sender.number: [] for sender in self._senders}
        differences: list[str] = []
        for offset, value in read_all(self._victim.bootstrap_servers, partition):
            who, where, number, *_ = value.split(b":")
            if int(where) != partition:
                differences.append(f"partition {partition}: {value!r} at offset {offset} belongs elsewhere")
            found[int(who)].append((offset, int(number)))
        for sender in self._senders:
            label = f"partition {partition}, producer {sender.number}"
            told = sender.acknowledged[partition]
            differences += (f"{label}: {each}" for each in _wrong(found[sender.number], told, sender.sent[partition]))
        return differences

    def _missing_topics(self) -> list[str]:
        assert self._admin is not None
        there = self._admin.list_topics(timeout=30).topics
        acknowledged = [name for name, future in self._topics.items() if future.done() and future.exception() is None]
        self.figures.topics = len(acknowledged)
        return [f"topic {name} was made and is not there" for name in acknowledged if name not in there]


def _wrong(found: list[tuple[int, int]], acknowledged: list[tuple[int, int]], sent: int) -> Iterator[str]:
    """What is wrong with one producer's records of a partition; each is an offset and a number."""
    numbers = [number for _, number in found]
    lost = set(acknowledged) - set(found)
    if lost:
        yield f"acknowledged and not there: {sorted(lost)[:5]} of {len(lost)}"
    doubles = [number for number, count in Counter(numbers).items() if count > 1]
    if doubles:
        yield f"there more than once: {doubles[:5]} of {len(doubles)}"
    if numbers != sorted(numbers):
        yield "out of order"
    if set(numbers) != set(range(sent)):
        yield f"{len(set(numbers))} records of {sent} that were sent"


def read_all(address: str, partition: int) -> list[tuple[int, bytes]]:
    """Offset and value of every record, in the order of the log."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "unused", "enable.auto.commit": False, "check.crcs": True}
    )
    try:
        where = TopicPartition(TOPIC, partition, 0)
        low, end = consumer.get_watermark_offsets(where, timeout=30)
        assert low == 0
        consumer.assign([where])
        found: list[tuple[int, bytes]] = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(found) < end:
            assert time.monotonic() < deadline, f"partition {partition}: {len(found)} records came of {end}"
            for message in consumer.consume(1000, timeout=0.2):
                if message.error():
                    raise KafkaException(message.error())
                found.append((message.offset(), message.value()))
        return found
    finally:
        consumer.close()


def main() -> int:
    import tailrace

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    broker = tailrace.Broker(BROKER_SETTINGS)
    try:
        storm = Storm(broker, args.seed, lambda kills: print(json.dumps({"inputs": kills}), flush=True))
        figures = storm.run(args.kills)
    finally:
        broker.close()
    print(json.dumps(vars(figures)))
    return 1 if figures.differences else 0


if __name__ == "__main__":
    sys.exit(main())
