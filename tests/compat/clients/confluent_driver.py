"""confluent-kafka: librdkafka, the C client that most other languages stand on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from client_driver import LARGEST_RECORD_BYTES, TIMEOUT_S, Message, RefusedError, Stored, as_pairs
from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

LIBRARY_CHOOSES = -1


class ConfluentDriver:
    name = "confluent-kafka"

    def __init__(self, address: str) -> None:
        self._address = address
        self._common = {"bootstrap.servers": address, "topic.metadata.refresh.interval.ms": 5000}
        self._admin = AdminClient(self._common)

    def close(self) -> None:
        """Its clients go when they are no longer used."""

    # Records

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        idempotent: bool = False,
        acks: int = -1,
        partition: int | None = 0,
    ) -> list[int]:
        producer = Producer(
            {
                **self._common,
                "compression.type": codec,
                "enable.idempotence": idempotent,
                "acks": acks,
                "message.max.bytes": LARGEST_RECORD_BYTES,
                "linger.ms": 5,
            }
        )
        reports: list[tuple[KafkaError | None, int]] = []
        for message in messages:
            producer.produce(
                topic,
                message.value,
                message.key,
                partition=LIBRARY_CHOOSES if partition is None else partition,
                timestamp=message.timestamp_ms,
                headers=list(message.headers),
                on_delivery=lambda error, sent: reports.append((error, sent.offset())),
            )
        assert producer.flush(TIMEOUT_S) == 0, "not everything was answered in time"
        for error, _ in reports:
            if error is not None:
                raise RefusedError(error.code(), error.str())
        return [offset for _, offset in reports]

    def read(self, topic: str, count: int, *, offset: int = 0) -> list[Stored]:
        with self._consumer() as consumer:
            consumer.assign([TopicPartition(topic, 0, offset)])
            return [_next(consumer)[1] for _ in range(count)]

    def read_partitions(self, topic: str, partitions: int, count: int) -> dict[int, list[Stored]]:
        found: dict[int, list[Stored]] = {number: [] for number in range(partitions)}
        with self._consumer() as consumer:
            consumer.assign([TopicPartition(topic, number, 0) for number in found])
            for _ in range(count):
                partition, record = _next(consumer)
                found[partition].append(record)
        return found

    def read_at_each(self, topic: str, offsets: Sequence[int]) -> list[Stored]:
        with self._consumer() as consumer:
            consumer.assign([TopicPartition(topic, 0, offsets[0])])
            found = [_next(consumer)[1]]
            for offset in offsets[1:]:
                consumer.seek(TopicPartition(topic, 0, offset))
                found.append(_next(consumer)[1])
            return found

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        asked = TopicPartition(topic, 0, timestamp_ms)
        with self._consumer() as consumer:
            (answer,) = consumer.offsets_for_times([asked], timeout=TIMEOUT_S)
        return None if answer.offset == OFFSET_END else int(answer.offset)

    def bounds(self, topic: str) -> tuple[int, int]:
        with self._consumer() as consumer:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)
        return low, high

    @contextmanager
    def _consumer(self) -> Iterator[Consumer]:
        """A new one each time: one that has been at work takes up to a second to learn of another topic."""
        consumer = Consumer(
            {
                **self._common,
                "group.id": "no-group-is-joined",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "check.crcs": True,
                "fetch.wait.max.ms": 50,
                "fetch.message.max.bytes": LARGEST_RECORD_BYTES,
            }
        )
        try:
            yield consumer
        finally:
            consumer.close()

    # Administration

    def create_topic(self, topic: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None:
        new = NewTopic(topic, partitions, 1, config=dict(settings or {}))
        _answer(self._admin.create_topics([new], operation_timeout=TIMEOUT_S))

    def delete_topic(self, topic: str) -> None:
        _answer(self._admin.delete_topics([topic], operation_timeout=TIMEOUT_S))

    def add_partitions(self, topic: str, total: int) -> None:
        _answer(self._admin.create_partitions([NewPartitions(topic, total)], operation_timeout=TIMEOUT_S))

    def topics(self) -> dict[str, int]:
        found = self._admin.list_topics(timeout=TIMEOUT_S).topics
        return {name: len(topic.partitions) for name, topic in found.items()}

    def settings(self, topic: str) -> dict[str, str]:
        return self._described(ConfigResource(ResourceType.TOPIC, topic))

    def broker_settings(self) -> dict[str, str]:
        return self._described(ConfigResource(ResourceType.BROKER, str(self.broker_id())))

    def broker_id(self) -> int:
        (broker,) = self._admin.list_topics(timeout=TIMEOUT_S).brokers
        return int(broker)

    def _described(self, resource: ConfigResource) -> dict[str, str]:
        found = _answer(self._admin.describe_configs([resource]))
        return {name: entry.value for name, entry in found.items()}

    def set(self, topic: str, settings: Mapping[str, str]) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        _answer(self._admin.incremental_alter_configs([resource]))

    def delete_records(self, topic: str, before_offset: int) -> None:
        _answer(self._admin.delete_records([TopicPartition(topic, 0, before_offset)]))

    def cluster(self) -> tuple[str | None, list[str]]:
        found = self._admin.describe_cluster(request_timeout=TIMEOUT_S).result(TIMEOUT_S)
        return found.cluster_id, [f"{node.host}:{node.port}" for node in found.nodes]


def _next(consumer: Consumer) -> tuple[int, Stored]:
    """Partition and record."""
    message = consumer.poll(TIMEOUT_S)
    assert message is not None, "no record came in time"
    if error := message.error():
        raise RefusedError(error.code(), error.str())
    record = Stored(
        message.offset(), message.value(), message.key(), message.timestamp()[1], as_pairs(message.headers())
    )
    return message.partition(), record


def _answer(asked: Mapping[Any, Future[Any]]) -> Any:
    (future,) = asked.values()
    try:
        return future.result(TIMEOUT_S)
    except KafkaException as error:
        raise RefusedError(error.args[0].code(), error.args[0].str()) from error
