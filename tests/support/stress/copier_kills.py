"""A broker is killed while transactional copiers work: at the end the copy equals the original.

    PYTHONPATH=tests python -m support.stress.copier_kills --kills 50 --seed 7

A feeder writes numbered records to the topic `input` without end. Three copiers, members of one group, read it under
read_committed and write what they read to the same partition of `output`: a few records in a transaction, with the
offsets that the group commits for them. Some transactions are aborted on purpose. A client does what an error asks for
(try again, abort, create a new producer) and continues from the group's committed offsets. At the end each partition of
`output`, read under read_committed, must equal that of `input`, record by record.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

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

INPUT, OUTPUT = "input", "output"
COPIERS: Final = 3
GROUP: Final = "copiers"
PROTOCOLS: Final = ("classic", "consumer")
SETTINGS: Final = {
    **BROKER_SETTINGS,
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
RECORDS_PER_SECOND: Final = 1500
MAX_AHEAD: Final = 3000
"""Records that are not copied yet. More would take too long at the end."""
TRANSACTION_RECORDS: Final = 40
SHARE_OF_ABORTS: Final = 0.1


@dataclass
class Figures(BrokerFigures):
    fed: int = 0
    copied: int = 0
    committed: int = 0
    aborted: int = 0
    new_producers: int = 0
    jumps: int = 0
    """How often a consumer continued at another offset than it had to."""


class Feeder(ClientThread):
    """An idempotent producer. A record's value is `partition:number`."""

    def __init__(self, address: str, copied: Callable[[], int]) -> None:
        super().__init__("feeder")
        self.sent = [0] * PARTITIONS
        self._copied = copied
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "message.timeout.ms": PATIENCE_SECONDS * 1000,
                "linger.ms": 2,
                **QUICK_RECONNECT,
            }
        )

    def work(self) -> None:
        while not self.is_over.is_set():
            for partition in range(PARTITIONS) if sum(self.sent) - self._copied() < MAX_AHEAD else ():
                value = b"%d:%d" % (partition, self.sent[partition])
                try:
                    self._producer.produce(INPUT, value, partition=partition, on_delivery=self._note)
                except BufferError:
                    continue
                self.sent[partition] += 1
            self._producer.poll(0)
            time.sleep(PARTITIONS / RECORDS_PER_SECOND)
        left = self._producer.flush(PATIENCE_SECONDS)
        if left:
            self.errors.append(f"feeder: {left} records were not acknowledged at the end")

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(f"feeder: a record was refused: {error.str()}")


class Copier(ClientThread):
    """One member of the group."""

    def __init__(self, number: int, address: str, protocol: str) -> None:
        super().__init__(f"copier-{number}")
        self.committed = 0
        self.aborted = 0
        self.new_producers = 0
        self.jumps = 0
        self.copied = 0
        self._address = address
        self._random = random.Random(number)
        of_protocol: dict[str, Any] = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 500}
        if protocol != "classic":
            of_protocol = {"group.protocol": protocol}
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": GROUP,
                "client.id": self.name,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 50,
                **of_protocol,
                **QUICK_RECONNECT,
            }
        )
        self._batch: list[Message] = []
        self._next: dict[int, int] = {}
        """The next offset of each partition, unless it was just assigned to this member."""
        # With a callback the member rejoins only within `poll`: what is read and written in between belongs to one
        # generation, or is refused.
        self._consumer.subscribe([INPUT], on_revoke=self._revoked, on_lost=self._revoked)

    def work(self) -> None:
        producer = self._new_producer()
        while not self.is_over.is_set():
            messages = self._read()
            if messages and not self._copy(producer, messages):
                producer = self._new_producer()
        self._consumer.close()

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Drop what was read from them. What follows in the same poll belongs to the next assignment."""
        gone = {each.partition for each in partitions}
        self._batch[:] = [message for message in self._batch if message.partition() not in gone]
        for partition in gone:
            self._next.pop(partition, None)

    def _read(self) -> list[Message]:
        """Some records of the assigned partitions. `input` has every offset: a consumer that skips some seeks again."""
        batch = self._batch
        batch.clear()
        while len(batch) < TRANSACTION_RECORDS and (message := self._consumer.poll(0.0 if batch else 0.05)) is not None:
            if message.error() is not None:
                continue
            partition, offset = message.partition(), message.offset()
            if self._next.get(partition, offset) != offset:
                self.jumps += 1
                self._seek_to_committed()
                return []
            self._next[partition] = offset + 1
            batch.append(message)
        return list(batch)

    def _new_producer(self) -> Producer:
        """Aborts what the preceding one has left open."""
        self.new_producers += 1
        producer = Producer(
            {
                "bootstrap.servers": self._address,
                "transactional.id": self.name,
                "transaction.timeout.ms": 20_000,
                "linger.ms": 2,
                **QUICK_RECONNECT,
            }
        )
        self._until_done(lambda: producer.init_transactions(5))
        self._seek_to_committed()
        return producer

    def _copy(self, producer: Producer, messages: list[Message]) -> bool:
        """False if the producer can no longer be used."""
        positions = {message.partition(): message.offset() + 1 for message in messages}
        offsets = [TopicPartition(INPUT, partition, offset) for partition, offset in positions.items()]
        try:
            producer.begin_transaction()
            for message in messages:
                producer.produce(OUTPUT, message.value(), partition=message.partition())
            if self._random.random() < SHARE_OF_ABORTS:
                self._abort(producer)
                return True
            metadata = self._consumer.consumer_group_metadata()
            self._until_done(lambda: producer.send_offsets_to_transaction(offsets, metadata, 5))
            self._until_done(lambda: producer.commit_transaction(5))
        except KafkaException as failure:
            error = failure.args[0]
            if not error.txn_requires_abort():
                return False
            try:
                self._abort(producer)
            except KafkaException:
                return False
            return True
        self.committed += 1
        self.copied += len(messages)
        return True

    def _abort(self, producer: Producer) -> None:
        self._until_done(lambda: producer.abort_transaction(5))
        self.aborted += 1
        self._seek_to_committed()

    def _seek_to_committed(self) -> None:
        def seek() -> None:
            assigned = self._consumer.assignment()
            for where in self._consumer.committed(assigned, 5) if assigned else ():
                if where.error is not None:
                    raise KafkaException(where.error)
                self._consumer.seek(TopicPartition(INPUT, where.partition, max(where.offset, 0)))
                self._next[where.partition] = max(where.offset, 0)

        self._until_done(seek, is_retried=lambda error: True)

    def _until_done(
        self, action: Callable[[], object], is_retried: Callable[[KafkaError], bool] = KafkaError.retriable
    ) -> None:
        """Retry until it succeeds or the error is final."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                action()
            except KafkaException as failure:
                if not is_retried(failure.args[0]) or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                return


class CopierKills(BrokerKillTest[Figures]):
    """`protocol` is the group's: classic or consumer."""

    topics = (INPUT, OUTPUT)
    work_seconds = 0.5

    def __init__(
        self,
        broker: KillableBroker,
        seed: int,
        kills: int,
        protocol: str = "classic",
        progress: Progress | None = None,
    ) -> None:
        super().__init__(Figures(), broker, seed, kills, progress)
        self._protocol = protocol
        self._copiers: list[Copier] = []

    def make_clients(self) -> list[ClientThread]:
        address = self.broker.bootstrap_servers
        self._copiers = [Copier(number, address, self._protocol) for number in range(COPIERS)]
        self._feeder = Feeder(address, lambda: sum(copier.copied for copier in self._copiers))
        return [self._feeder, *self._copiers]

    def progress(self) -> int:
        return sum(copier.committed for copier in self._copiers)

    def complete(self) -> None:
        """Until the group has committed the end of the input."""
        super().complete()
        self._feeder.stop()
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap_servers, "group.id": GROUP, "log_level": 0})
        parts = [TopicPartition(INPUT, partition) for partition in range(PARTITIONS)]
        try:
            ends = [consumer.get_watermark_offsets(part, 30)[1] for part in parts]

            def is_copied() -> bool:
                try:
                    return [each.offset for each in consumer.committed(parts, 5)] == ends
                except KafkaException:
                    return False

            self.wait(is_copied, PATIENCE_SECONDS, f"the copiers did not reach the end {ends}")
        finally:
            consumer.close()

    def check(self) -> None:
        figures = self.figures
        figures.fed = sum(self._feeder.sent)
        for copier in self._copiers:
            figures.copied += copier.copied
            figures.committed += copier.committed
            figures.aborted += copier.aborted
            figures.new_producers += copier.new_producers
            figures.jumps += copier.jumps
        super().check()

    def compare(self) -> Iterator[str]:
        for partition in range(PARTITIONS):
            original, copy = self._read(INPUT, partition), self._read(OUTPUT, partition)
            if original != [b"%d:%d" % (partition, number) for number in range(self._feeder.sent[partition])]:
                yield f"partition {partition}: the input differs from what the feeder has sent"
            yield from differences(partition, original, copy)

    def _read(self, topic: str, partition: int) -> list[bytes]:
        found = read_partition(self.broker.bootstrap_servers, topic, partition, "read_committed")
        return [value for _, value in found]


def differences(partition: int, original: list[bytes], copy: list[bytes]) -> Iterator[str]:
    if original == copy:
        return
    lost, doubled = set(original) - set(copy), len(copy) - len(set(copy))
    at = next((at for at, pair in enumerate(zip(original, copy, strict=False)) if pair[0] != pair[1]), len(copy))
    yield (
        f"partition {partition}: {len(original)} records, {len(copy)} copies, {len(lost)} lost {sorted(lost)[:3]}, "
        f"{doubled} doubled, different from number {at} on: {original[at : at + 3]} became {copy[at : at + 3]}"
    )


def run(options: argparse.Namespace) -> Figures:
    with killable_broker(SETTINGS) as broker:
        return CopierKills(broker, options.seed, options.kills, options.protocol, print_progress).run()


if __name__ == "__main__":
    options = parser(__doc__, kills=50)
    options.add_argument("--protocol", choices=PROTOCOLS, default=PROTOCOLS[0])
    sys.exit(run_program(options, run))
