"""A client that produces to one topic partition and reads it, and logs the responses.

Every record has a different value. After a lost response the client does not know whether its records are there, and
goes on with others. `acked`, `asking` and `read` are the events that `sim.record_checker` compares.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.record.builder import BatchBuilder
from tailrace.record.reader import application_records
from tailrace.sim.kafka_link import KafkaLink
from tailrace.sim.machine import Boot
from tailrace.sim.process import Process

TOPIC: Final = "records"
_NONE, _OFFSET_OUT_OF_RANGE, _TOPIC_EXISTS = 0, 1, 36
_STEP_BACK: Final = 100


@dataclass(frozen=True, slots=True)
class RecordLoad:
    """How much the client does."""

    mean_pause_ms: int = 100
    max_records: int = 5
    max_record_bytes: int = 200
    request_timeout_ms: int = 5_000
    max_wait_ms: int = 500


class Acked:
    """Records of a topic partition that a broker has acknowledged."""

    __slots__ = ("base_offset", "broker", "values")

    def __init__(self, broker: str, base_offset: int, values: list[bytes]) -> None:
        self.broker = broker
        self.base_offset = base_offset
        self.values = values


class Read:
    """Records that a broker has returned for a fetch."""

    __slots__ = ("broker", "high_watermark", "offset", "records", "request")

    def __init__(
        self, broker: str, request: int, offset: int, high_watermark: int, records: list[tuple[int, bytes]]
    ) -> None:
        self.broker = broker
        self.request = request
        self.offset = offset
        self.high_watermark = high_watermark
        self.records = records


def record_client(broker: str, port: int, load: RecordLoad) -> Boot:
    """For `Universe.add_machine`: a client of one broker."""
    return partial(RecordClient, broker=broker, port=port, load=load)


class RecordClient:
    def __init__(self, process: Process, broker: str, port: int, load: RecordLoad) -> None:
        self.broker = broker
        self.position = 0
        """The offset that it reads next."""
        self.acked = 0
        self.is_producing = True
        self._process = process
        self._load = load
        self._random: random.Random = process.env.random
        self._log = process.machine.universe.log
        self._name = process.machine.name
        self._sent = 0
        self._fetches = 0
        self._has_topic = False
        self._producer = KafkaLink(process, broker, port, load.request_timeout_ms)
        self._consumer = KafkaLink(process, broker, port, load.request_timeout_ms)
        self._produce_later()
        self._fetch()

    def due_ms(self) -> int | None:
        return None

    def run_due(self, now_ms: int) -> None:
        """It has no deadlines but those of its jobs."""

    def ends_with(self, error: Exception) -> bool:
        return False

    def _later(self, action: Any) -> None:
        pause_ms = int(self._random.expovariate(1.0) * self._load.mean_pause_ms)
        self._process.env.jobs.later("client", pause_ms, action)

    # Producing

    def _produce_later(self) -> None:
        self._later(self._produce)

    def _produce(self) -> None:
        if not self._has_topic:
            topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
            self._producer.ask(CreateTopicsRequest(topics=[topic], timeout_ms=2_000), 7, self._created)
            return
        if not self.is_producing:
            self._produce_later()
            return
        values = []
        builder = BatchBuilder()
        for _ in range(self._random.randint(1, self._load.max_records)):
            self._sent += 1
            padding = b"." * self._random.randrange(self._load.max_record_bytes)
            value = f"{self._name}/{self._process.number}/{self._sent}/".encode() + padding
            builder.append(self._process.env.clock.now_ms(), None, value)
            values.append(value)
        part = PartitionProduceData(index=0, records=bytes(builder.build()))
        data = [TopicProduceData(name=TOPIC, partition_data=[part])]
        request = ProduceRequest(acks=-1, timeout_ms=self._load.request_timeout_ms, topic_data=data)
        self._producer.ask(request, 9, partial(self._produced, values))

    def _created(self, response: Any) -> None:
        self._has_topic = response is not None and response.topics[0].error_code in (_NONE, _TOPIC_EXISTS)
        self._produce_later()

    def _produced(self, values: list[bytes], response: Any) -> None:
        if response is not None:
            partition = response.responses[0].partition_responses[0]
            if partition.error_code == _NONE:
                self.acked = partition.base_offset + len(values)
                text = f"{self.broker} has {len(values)} records at {partition.base_offset}"
                self._log.add(self._name, "acked", text, data=Acked(self.broker, partition.base_offset, values))
        self._produce_later()

    # Reading

    def _fetch(self) -> None:
        self._fetches += 1
        self._log.add(self._name, "asking", f"{self.broker} for {self.position}", data=self._fetches)
        part = FetchPartition(partition=0, fetch_offset=self.position, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=self._load.max_wait_ms,
            min_bytes=1,
            max_bytes=50 << 20,
            topics=[FetchTopic(topic=TOPIC, partitions=[part])],
        )
        self._consumer.ask(request, 12, partial(self._fetched, self.position))

    def _fetched(self, offset: int, response: Any) -> None:
        partition = response.responses[0].partitions[0] if response is not None and response.responses else None
        if partition is not None and partition.error_code == _NONE:
            found = [
                (record.offset, bytes(record.value or b""))
                for record in application_records(partition.records or b"")
                if record.offset >= offset
            ]
            read = Read(self.broker, self._fetches, offset, partition.high_watermark, found)
            text = f"{self.broker} has {len(found)} records from {offset}, high watermark {partition.high_watermark}"
            self._log.add(self._name, "read", text, data=read)
            self.position = found[-1][0] + 1 if found else offset
            self._fetch()
            return
        if partition is not None and partition.error_code == _OFFSET_OUT_OF_RANGE:
            self._log.add(
                self._name,
                "out-of-range",
                f"{self.broker} at {offset}",
                data=Read(self.broker, self._fetches, offset, -1, []),
            )
            self.position = max(0, offset - _STEP_BACK)
        self._later(self._fetch)
