"""Orders into a topic and out of it again, by one client, and what became of each of them.

An order is under way from the moment it is given to the producer until the consumer has it. Each must come once, and
in each partition in the order of their numbers; what else comes, a second time or from others, is counted apart.

One thread: an order that is sent is acknowledged before anything is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Final

from tailrace.cli.demo_latency import Latencies
from tailrace.cli.demo_orders import NO_ORDER, Order, Orders, number_of
from tailrace.cli.throughput import Throughput
from tailrace.client.batch_run import BatchRun
from tailrace.client.cluster import Cluster
from tailrace.client.consumer import Consumer
from tailrace.client.offsets import LATEST
from tailrace.client.producer import Delivered, Producer
from tailrace.model.ids import TopicPartition

MOST_UNDER_WAY: Final = 20_000


class Stream:
    def __init__(
        self, cluster: Cluster, topic: str, orders: Orders, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._topic = topic
        self._orders = orders
        self._clock = clock
        self._producer = Producer(cluster, may_create_topics=False, on_delivery=self._delivered)
        self._consumer = Consumer(cluster)
        self._under_way: dict[int, float] = {}
        self._last_numbers: dict[TopicPartition, int] = {}
        self.starts: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.produced = Throughput(clock)
        self.consumed = Throughput(clock)
        self.latencies = Latencies(clock)
        self.last_order: Order | None = None
        self.sent = 0
        self.returned = 0
        self.out_of_order = 0
        self.unexpected = 0

    def begin(self) -> None:
        """Where the topic ends now: what is there already is not ours."""
        partitions = self._consumer.assign_topic(self._topic)
        self.starts = {partition: self._consumer.positions[partition] for partition in partitions}
        self._consumer.seek_to(LATEST)
        self.ends = self._consumer.positions
        self.produced, self.consumed = Throughput(self._clock), Throughput(self._clock)

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    @property
    def is_sound(self) -> bool:
        """Every order came back, none twice, each in its turn, and nothing that was not sent."""
        return self.returned == self.sent and not (self._under_way or self.out_of_order or self.unexpected)

    def behind(self, partition: TopicPartition) -> int:
        """How far the consumer is from the end that it last saw."""
        return max(self.ends[partition] - self._consumer.positions[partition], 0)

    def send(self, count: int) -> None:
        """Up to `count` orders, acknowledged; fewer when the consumer does not keep up."""
        room = min(count, MOST_UNDER_WAY - len(self._under_way))
        if room <= 0:
            return
        for _ in range(room):
            order = self._orders.next()
            self._under_way[order.number] = self._clock()
            self.sent += 1
            self._producer.send(self._topic, order.value, order.key)
        self._producer.flush()

    def receive(self, timeout_s: float) -> None:
        for run in self._consumer.poll(timeout_s):
            self._take(run)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._consumer.close()
        self._producer.__exit__(kind, error, at)

    def _delivered(self, delivered: Delivered) -> None:
        self.produced.add(delivered.record_count, delivered.size_bytes)

    def _take(self, run: BatchRun) -> None:
        now_s = self._clock()
        latencies_s: list[float] = []
        last_number = self._last_numbers.get(run.partition, NO_ORDER)
        count = 0
        for record in run.records():
            count += 1
            number = number_of(record.value)
            sent_at_s = self._under_way.pop(number, None)
            if sent_at_s is None:
                self.unexpected += 1
                continue
            latencies_s.append(now_s - sent_at_s)
            self.out_of_order += number <= last_number
            last_number = number
            self.last_order = Order(number, record.key or b"", record.value or b"")
        self._last_numbers[run.partition] = last_number
        self.starts[run.partition] = run.log_start_offset
        self.ends[run.partition] = max(run.high_watermark, run.next_offset)
        self.returned += len(latencies_s)
        self.consumed.add(count, run.size_bytes)
        self.latencies.add(latencies_s)
