"""A broker is killed at random moments while transactional copiers work: the copy equals the original in the end.

    PYTHONPATH=tests python -m support.stress.copier_kills --kills 50 --seed 7

A feeder writes numbered records to the topic `input` without an end. Three copiers, members of one group, read it under
read_committed and write what they read to the same partition of `output`, each handful in a transaction together with
the offsets that it was read up to. Some transactions are aborted on purpose. While the broker is down everybody waits;
what a client is told to do (try again, abort, begin as a new producer) it does, and goes on from the group's committed
offsets. In the end each partition of `output`, read under read_committed, must be that of `input`, record by record.

Some kills fall into the start, when logs are recovered and coordinators loaded.

The last line printed is the figures as JSON; the exit code is 1 when there was a difference.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from support.stress.broker_kills import BROKER_SETTINGS, Victim

INPUT, OUTPUT = "input", "output"
PARTITIONS = 3
COPIERS = 3
GROUP = "copiers"
SETTINGS = {
    **BROKER_SETTINGS,
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
TOPIC_SETTINGS = {"segment.bytes": str(1 << 20), "segment.index.bytes": "4096"}
RECORDS_A_SECOND = 1500
MOST_AHEAD = 3000  # records that the copiers have not copied yet, lest they need for ever in the end
HANDFUL = 40
SHARE_OF_ABORTS = 0.1
WORK_SECONDS = 0.5  # at most, from the first copy of a life on
SHARE_OF_KILLED_STARTS = 0.2
START_SECONDS = 0.5
PATIENCE_SECONDS = 120
SHOWN_DIFFERENCES = 20
QUICK_TO_COME_BACK = {
    "metadata.recovery.strategy": "none",  # there is nobody else to turn to
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 50,
    "log_level": 0,
}


@dataclass
class Figures:
    kills: int = 0
    killed_starts: int = 0
    fed: int = 0
    copied: int = 0
    committed: int = 0
    aborted: int = 0
    new_producers: int = 0
    jumps: int = 0
    """How often a client went on with another offset than it was told to."""
    longest_start_seconds: float = 0.0
    seconds: float = 0.0
    differences: list[str] = field(default_factory=list)


class Feeder:
    """An idempotent producer on a thread; a record's value is `partition:number`."""

    def __init__(self, address: str, copied: Callable[[], int], is_over: Event) -> None:
        self.sent = [0] * PARTITIONS
        self._copied = copied
        self.errors: list[str] = []
        self._is_over = is_over
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "message.timeout.ms": PATIENCE_SECONDS * 1000,
                "linger.ms": 2,
                "error_cb": lambda error: None,  # that nobody is there is no news
                **QUICK_TO_COME_BACK,
            }
        )
        self.thread = Thread(target=self._run, name="feeder")

    def _run(self) -> None:
        while not self._is_over.is_set():
            for partition in range(PARTITIONS) if sum(self.sent) - self._copied() < MOST_AHEAD else ():
                value = b"%d:%d" % (partition, self.sent[partition])
                try:
                    self._producer.produce(INPUT, value, partition=partition, on_delivery=self._note)
                except BufferError:
                    continue
                self.sent[partition] += 1
            self._producer.poll(0)
            time.sleep(PARTITIONS / RECORDS_A_SECOND)
        left = self._producer.flush(PATIENCE_SECONDS)
        if left:
            self.errors.append(f"{left} records were not fed in the end")

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(f"the feeder was refused: {error.str()}")


class Copier:
    """One member of the group, on a thread."""

    def __init__(self, number: int, address: str, protocol: str, is_over: Event) -> None:
        self.name = f"copier-{number}"
        self.committed = 0
        self.aborted = 0
        self.new_producers = 0
        self.jumps = 0
        self.copied = 0
        self.errors: list[str] = []
        self._address = address
        self._random = random.Random(number)
        self._is_over = is_over
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
                "error_cb": lambda error: None,
                **of_protocol,
                **QUICK_TO_COME_BACK,
            }
        )
        self._handful: list[Message] = []
        self._next: dict[int, int] = {}
        """The offset that a partition must go on with; none where it was just given to this member."""
        # With a callback the group goes on only from within `poll`: what is read and written in between is all of one
        # generation, or refused.
        self._consumer.subscribe([INPUT], on_revoke=self._revoked, on_lost=self._revoked)
        self.thread = Thread(target=self._run, name=self.name)

    def _run(self) -> None:
        try:
            producer = self._new_producer()
            while not self._is_over.is_set():
                messages = self._read()
                if messages and not self._copy(producer, messages):
                    producer = self._new_producer()
            self._consumer.close()
        except Exception as error:
            self.errors.append(f"{self.name}: {error!r}")

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """What was read of them belongs to nobody now. What comes later in the same poll is of the next assignment."""
        gone = {each.partition for each in partitions}
        self._handful[:] = [message for message in self._handful if message.partition() not in gone]
        for partition in gone:
            self._next.pop(partition, None)

    def _read(self) -> list[Message]:
        """A handful of those partitions that are this member's now. `input` has every offset: where a client goes on
        with another one than it was told, it is told again."""
        handful = self._handful
        handful.clear()
        while len(handful) < HANDFUL and (message := self._consumer.poll(0.0 if handful else 0.05)) is not None:
            if message.error() is not None:
                continue
            partition, offset = message.partition(), message.offset()
            if self._next.get(partition, offset) != offset:
                self.jumps += 1
                self._go_back()
                return []
            self._next[partition] = offset + 1
            handful.append(message)
        return list(handful)

    def _new_producer(self) -> Producer:
        """Whatever the one before has begun is aborted by this."""
        self.new_producers += 1
        producer = Producer(
            {
                "bootstrap.servers": self._address,
                "transactional.id": self.name,
                "transaction.timeout.ms": 20_000,
                "linger.ms": 2,
                "error_cb": lambda error: None,
                **QUICK_TO_COME_BACK,
            }
        )
        self._until_done(lambda: producer.init_transactions(5))
        self._go_back()
        return producer

    def _copy(self, producer: Producer, messages: list[Message]) -> bool:
        """False when the producer is of no use any more."""
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
        self._go_back()

    def _go_back(self) -> None:
        """To where the group has committed."""

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
        """What may be tried again is."""
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


class CopierStorm:
    def __init__(
        self,
        victim: Victim,
        seed: int,
        protocol: str = "classic",
        told: Callable[[int], None] = lambda kills: None,
    ) -> None:
        """`protocol` is the group's: classic or consumer."""
        self.figures = Figures()
        self._victim = victim
        self._protocol = protocol
        self._told = told
        self._random = random.Random(seed)
        self._copiers: list[Copier] = []
        self._feeder: Feeder | None = None

    def run(self, kills: int) -> Figures:
        """The victim must not run yet; it runs when this returns."""
        began = time.monotonic()
        self._start()
        address = self._victim.bootstrap_servers
        self._make_topics(address)
        is_fed, is_over = Event(), Event()
        self._copiers = [Copier(number, address, self._protocol, is_over) for number in range(COPIERS)]
        self._feeder = Feeder(address, lambda: sum(copier.copied for copier in self._copiers), is_fed)
        threads = [self._feeder.thread, *(copier.thread for copier in self._copiers)]
        for thread in threads:
            thread.start()
        try:
            while self.figures.kills < kills and not self.figures.differences:
                self._round()
                self._told(self.figures.kills)
            self._start()
            is_fed.set()
            self._feeder.thread.join()
            self._wait_for_the_rest()
        finally:
            is_fed.set()
            is_over.set()
            for thread in threads:
                thread.join()
        self._take_stock()
        self.figures.seconds = time.monotonic() - began
        return self.figures

    def _make_topics(self, address: str) -> None:
        admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        made = admin.create_topics([NewTopic(name, PARTITIONS, 1, config=TOPIC_SETTINGS) for name in (INPUT, OUTPUT)])
        for future in made.values():
            future.result(30)

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
        self._wait_for_copies()
        time.sleep(self._random.uniform(0, WORK_SECONDS))
        self._kill()

    def _start(self) -> None:
        began = time.monotonic()
        self._victim.launch()
        self._victim.wait_until_ready()
        self.figures.longest_start_seconds = max(self.figures.longest_start_seconds, time.monotonic() - began)

    def _wait_for_copies(self) -> None:
        """Until a transaction of this life is committed."""
        before = self._committed()
        self._wait(lambda: self._committed() > before, "no transaction was committed after a start")

    def _committed(self) -> int:
        return sum(copier.committed for copier in self._copiers)

    def _wait(self, is_there: Callable[[], bool], complaint: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_there():
            if not self._victim.is_running:
                self.figures.differences.append(f"the broker ended by itself after kill {self.figures.kills}")
            elif time.monotonic() > deadline:
                self.figures.differences.append(f"{complaint} within {PATIENCE_SECONDS} s")
            elif not any(copier.errors for copier in self._copiers):
                time.sleep(0.01)
                continue
            return

    def _kill(self) -> None:
        if not self._victim.is_running:
            self.figures.differences.append(f"the broker ended by itself before kill {self.figures.kills + 1}")
        self._victim.kill()
        self.figures.kills += 1

    # After all of them

    def _wait_for_the_rest(self) -> None:
        """Until the group has committed the end of the input."""
        consumer = Consumer({"bootstrap.servers": self._victim.bootstrap_servers, "group.id": GROUP, "log_level": 0})
        parts = [TopicPartition(INPUT, partition) for partition in range(PARTITIONS)]
        try:
            ends = [consumer.get_watermark_offsets(part, 30)[1] for part in parts]

            def is_copied() -> bool:
                try:
                    return [where.offset for where in consumer.committed(parts, 5)] == ends
                except KafkaException:
                    return False

            self._wait(is_copied, f"the copiers did not come to the end {ends}")
        finally:
            consumer.close()

    def _take_stock(self) -> None:
        figures, feeder = self.figures, self._feeder
        assert feeder is not None
        differences = figures.differences + feeder.errors
        for copier in self._copiers:
            differences += copier.errors
            figures.copied += copier.copied
            figures.committed += copier.committed
            figures.aborted += copier.aborted
            figures.new_producers += copier.new_producers
            figures.jumps += copier.jumps
        figures.fed = sum(feeder.sent)
        if self._victim.is_running:
            for partition in range(PARTITIONS):
                original = read_committed(self._victim.bootstrap_servers, INPUT, partition)
                if original != [b"%d:%d" % (partition, number) for number in range(feeder.sent[partition])]:
                    differences.append(f"partition {partition}: what was fed is not what is there")
                copy = read_committed(self._victim.bootstrap_servers, OUTPUT, partition)
                differences += compared(partition, original, copy)
        figures.differences = differences[:SHOWN_DIFFERENCES]


def compared(partition: int, original: list[bytes], copy: list[bytes]) -> list[str]:
    if original == copy:
        return []
    lost, doubled = set(original) - set(copy), len(copy) - len(set(copy))
    at = next((at for at, pair in enumerate(zip(original, copy, strict=False)) if pair[0] != pair[1]), len(copy))
    return [
        f"partition {partition}: {len(original)} records, {len(copy)} copies, {len(lost)} lost {sorted(lost)[:3]}, "
        f"{doubled} doubled, different from number {at} on: {original[at : at + 3]} became {copy[at : at + 3]}"
    ]


def read_committed(address: str, topic: str, partition: int) -> list[bytes]:
    """The values that a read_committed consumer gets, to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "check.crcs": True,
            "log_level": 0,
        }
    )
    values: list[bytes] = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.5):
                error = message.error()
                if error is None:
                    values.append(message.value() or b"")
                elif error.code() == KafkaError._PARTITION_EOF:
                    return values
        raise AssertionError(f"{topic}-{partition} has no end that can be read: {len(values)} values came")
    finally:
        consumer.close()


def main() -> int:
    import tailrace

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--protocol", choices=("classic", "consumer"), default="classic")
    args = parser.parse_args()
    broker = tailrace.Broker(SETTINGS)
    try:
        told = lambda kills: print(json.dumps({"inputs": kills}), flush=True)  # noqa: E731
        figures = CopierStorm(broker, args.seed, args.protocol, told).run(args.kills)
    finally:
        broker.close()
    print(json.dumps(vars(figures)))
    return 1 if figures.differences else 0


if __name__ == "__main__":
    sys.exit(main())
