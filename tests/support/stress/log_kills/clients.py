"""Producers and the transaction coordinator of a process. The journal has each operation before it starts."""

from __future__ import annotations

import random
import time

from support.stress.log_kills.broker import Broker, fail
from support.stress.log_kills.journal import (
    ABORTED,
    COMMITTED,
    NO_PRODUCER,
    PLAIN,
    TRANSACTIONAL,
    Attempt,
    Journal,
    Orders,
    Producer,
    Sent,
)
from support.stress.log_kills.workload import PARTITIONS, Partition
from tailrace.model.ids import TopicPartition
from tailrace.storage.origin import Origin
from tailrace.storage.unified_log import UnifiedLog

IDEMPOTENT_IDS = (1, 2)
TRANSACTIONAL_IDS = (11, 12, 13)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Clients:
    def __init__(self, broker: Broker, orders: Orders, journal: Journal) -> None:
        self._broker = broker
        self._orders = orders
        self._journal = journal
        self._random = random.Random(orders.seed)
        self._number = orders.next_number
        self._producers = orders.producers
        self._log_starts = {name: broker.log(each).log_start_offset for name, each in PARTITIONS.items()}
        self._uncleanable: set[str] = set()
        for name in PARTITIONS:
            self._producers.setdefault(name, {})

    def send_again(self) -> None:
        """Whatever was not answered: batches with their sequences, markers as new ones."""
        for attempt in self._orders.waiting:
            if attempt.is_marker:
                self._end(PARTITIONS[attempt.partition], attempt.producer_id, attempt.kind)
            else:
                self._journal.write("again", attempt.number)
                self._append(PARTITIONS[attempt.partition], [attempt])

    def probe(self) -> None:
        for name, producers in self._producers.items():
            log = self._broker.log(PARTITIONS[name])
            for producer_id, producer in producers.items():
                for attempt in producer.recent:
                    outcome, offset = self._slip_in(log, attempt)
                    self._journal.write("probe", attempt.number, attempt is producer.recent[-1], outcome, offset)
                if producer.epoch and producer.recent:
                    old = self._attempt(PARTITIONS[name], producer_id, producer.epoch - 1, 0, PLAIN, 1)
                    self._journal.write("fenced", name, producer_id, self._slip_in(log, old)[0])

    def _slip_in(self, log: UnifiedLog, attempt: Attempt) -> tuple[str, int]:
        (result,) = log.append_as_leader([attempt.batch()], self._orders.run)
        if result.error is not None:
            return type(result.error).__name__, -1
        return "duplicate" if result.is_duplicate else "accepted", result.first_offset

    def work(self) -> None:
        """One thing or another to one partition."""
        partition = self._random.choice(list(PARTITIONS.values()))
        chance = self._random.random()
        if chance < 0.45:
            count = self._random.choice((1, 1, 2, 3))
            self._send(partition, [self._plain(partition) for _ in range(count)])
        elif chance < 0.6:
            self._send(partition, [self._idempotent(partition, self._random.choice(IDEMPOTENT_IDS))])
        elif chance < 0.995:
            self._go_on_with_transaction(partition, self._random.choice(TRANSACTIONAL_IDS))
        elif partition.has_deleted_records:
            self._forget(partition)
        self._note_what_happened()

    def _go_on_with_transaction(self, partition: Partition, producer_id: int) -> None:
        producer = self._producer(partition, producer_id)
        if producer.is_in_transaction and self._random.random() < 0.6:
            self._end(partition, producer_id, self._random.choice((COMMITTED, ABORTED)))
        else:
            self._send(partition, [self._idempotent(partition, producer_id, TRANSACTIONAL)])

    def _producer(self, partition: Partition, producer_id: int) -> Producer:
        return self._producers[partition.name].setdefault(producer_id, Producer())

    def _plain(self, partition: Partition) -> Attempt:
        return self._attempt(partition, NO_PRODUCER, -1, -1, PLAIN, self._random.randint(1, 4))

    def _idempotent(self, partition: Partition, producer_id: int, kind: str = PLAIN) -> Attempt:
        producer = self._producer(partition, producer_id)
        if not producer.is_in_transaction and producer.recent and self._random.random() < 0.02:
            producer.epoch, producer.sequence, producer.recent = producer.epoch + 1, 0, []
        count = self._random.randint(1, 5)
        attempt = self._attempt(partition, producer_id, producer.epoch, producer.sequence, kind, count)
        producer.sequence += count
        producer.is_in_transaction = kind == TRANSACTIONAL
        return attempt

    def _attempt(
        self, partition: Partition, producer_id: int, epoch: int, sequence: int, kind: str, count: int
    ) -> Attempt:
        number = self._number
        self._number += 1
        codec = self._random.choice((0, 0, 0, 1, 2, 3, 4))
        records = [self._record(partition, number, place) for place in range(count)]
        return Attempt(number, partition.name, producer_id, epoch, sequence, kind, codec, records)

    def _record(self, partition: Partition, number: int, place: int) -> Sent:
        pick = self._random
        key = None
        value: str | None = f"{number}.{place}:".ljust(pick.randint(10, 150), "\xe4")
        if partition.keys:
            key = f"k{min(pick.randrange(partition.keys), pick.randrange(partition.keys))}"
            value = None if pick.random() < 0.15 else value
        return Sent(now_ms(), key, value, "header" if pick.random() < 0.1 else None)

    def _end(self, partition: Partition, producer_id: int, kind: str) -> None:
        producer = self._producer(partition, producer_id)
        marker = Attempt(
            self._number, partition.name, producer_id, producer.epoch, -1, kind, 0, [Sent(now_ms(), "", "")]
        )
        self._number += 1
        producer.is_in_transaction = False
        self._send(partition, [marker])

    def _send(self, partition: Partition, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            self._journal.write(*attempt.line())
        self._append(partition, attempts)

    def _append(self, partition: Partition, attempts: list[Attempt]) -> None:
        log = self._broker.log(partition)
        origin = Origin.COORDINATOR if attempts[0].is_marker else Origin.CLIENT
        results = log.append_as_leader([attempt.batch() for attempt in attempts], self._orders.run, origin)
        log.update_high_watermark(log.log_end_offset)
        for attempt, result in zip(attempts, results, strict=True):
            if result.error is not None:
                self._journal.write("refused", attempt.number, repr(result.error))
                continue
            offsets = (result.first_offset, result.last_offset, result.is_duplicate)
            self._journal.write("ack", attempt.number, *offsets, log.local.active.base_offset, now_ms())
            producer = self._producers[partition.name].get(attempt.producer_id)
            if producer is not None and not attempt.is_marker:
                producer.recent = [*producer.recent[-4:], attempt]

    def _forget(self, partition: Partition) -> None:
        """Delete records on demand, up to somewhere in the older half of the log."""
        log = self._broker.log(partition)
        offset = self._random.randint(log.log_start_offset, (log.log_start_offset + log.last_stable_offset) // 2)
        self._journal.write("forget", partition.name, offset)
        self._broker.manager.increment_log_start(
            TopicPartition(partition.topic, 0), offset, lambda: self._started(partition, offset), fail
        )

    def _note_what_happened(self) -> None:
        """Retention has made a log start durable when it returns; on demand that takes a job."""
        for name, partition in PARTITIONS.items():
            log = self._broker.log(partition)
            base = log.local.segments.first.base_offset if log.local.segments.first is not None else 0
            if base > self._log_starts[name]:
                self._started(partition, base)
        cleaner = self._broker.manager.cleaner
        for directory in self._broker.manager.directories:
            for partition_id, why in cleaner.uncleanable(directory.path).items():
                if str(partition_id) not in self._uncleanable:
                    self._uncleanable.add(str(partition_id))
                    self._journal.write("uncleanable", str(partition_id), str(why))

    def _started(self, partition: Partition, offset: int) -> None:
        if offset > self._log_starts[partition.name]:
            self._log_starts[partition.name] = offset
            self._journal.write("start", partition.name, offset)
