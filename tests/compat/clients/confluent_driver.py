"""confluent-kafka: librdkafka, the C client that most other languages stand on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from client_driver import (
    LARGEST_RECORD_BYTES,
    TIMEOUT_S,
    FencedError,
    Message,
    RefusedError,
    Stored,
    TransactionalWriter,
    as_pairs,
    refusal,
)
from confluent_kafka import (
    OFFSET_END,
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
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

    def read_until(self, topic: str, last: bytes, *, committed: bool = True, partition: int = 0) -> list[bytes]:
        values: list[bytes] = []
        with self._consumer(**{"isolation.level": _isolation(committed)}) as consumer:
            consumer.assign([TopicPartition(topic, partition, 0)])
            while not values or values[-1] != last:
                values.append(_next(consumer)[1].value or b"")
        return values

    def read_to_end(self, topic: str, *, committed: bool, partition: int = 0) -> list[bytes]:
        """The values up to where a reader of this kind has to wait."""
        return [record.value or b"" for record in self.read_records_to_end(topic, partition, committed=committed)]

    def read_records_to_end(self, topic: str, partition: int, *, committed: bool = True) -> list[Stored]:
        found: list[Stored] = []
        ends = {"enable.partition.eof": True, "isolation.level": _isolation(committed)}
        with self._consumer(**ends) as consumer:
            consumer.assign([TopicPartition(topic, partition, 0)])
            while True:
                try:
                    found.append(_next(consumer)[1])
                except RefusedError as error:
                    if error.code == KafkaError._PARTITION_EOF:
                        return found
                    raise

    @contextmanager
    def _consumer(self, group: str = "no-group-is-joined", **settings: object) -> Iterator[Consumer]:
        """A new one each time: one that has been at work takes up to a second to learn of another topic."""
        consumer = Consumer(
            {
                **self._common,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "check.crcs": True,
                "fetch.wait.max.ms": 50,
                "fetch.message.max.bytes": LARGEST_RECORD_BYTES,
                **settings,
            }
        )
        try:
            yield consumer
        finally:
            consumer.close()

    # Groups and transactions

    def committed(self, group: str, topic: str) -> dict[int, int]:
        (answer,) = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        found = _result(answer).topic_partitions
        return {each.partition: each.offset for each in found if each.topic == topic and each.offset != OFFSET_INVALID}

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        wanted = ConsumerGroupTopicPartitions(group, _positions(topic, offsets))
        (answer,) = self._admin.alter_consumer_group_offsets([wanted]).values()
        for each in _result(answer).topic_partitions:
            if each.error:
                raise refusal(each.error.code(), each.error.str())

    def groups(self) -> set[str]:
        return {each.group_id for each in _result(self._admin.list_consumer_groups()).valid}

    def group_state(self, group: str) -> tuple[str, int]:
        found = _answer(self._admin.describe_consumer_groups([group]))
        return found.state.name, len(found.members)

    def delete_group(self, group: str) -> None:
        _answer(self._admin.delete_consumer_groups([group]))

    def transactional(self, transactional_id: str, timeout_ms: int = 60_000) -> TransactionalWriter:
        return _TransactionalProducer(self._common, transactional_id, timeout_ms)

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


class _TransactionalProducer:
    def __init__(self, common: Mapping[str, object], transactional_id: str, timeout_ms: int) -> None:
        named = {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}
        self._common = common
        self._producer = Producer({**common, **named, "message.timeout.ms": timeout_ms, "linger.ms": 0})
        with _refusals_named():
            self._producer.init_transactions(TIMEOUT_S)

    def begin(self) -> None:
        with _refusals_named():
            self._producer.begin_transaction()

    def produce(self, topic: str, messages: Sequence[Message], partition: int = 0) -> None:
        with _refusals_named():
            for each in messages:
                self._producer.produce(topic, each.value, each.key, partition=partition, timestamp=each.timestamp_ms)
        assert self._producer.flush(TIMEOUT_S) == 0, "not everything was answered in time"

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        consumer = Consumer({**self._common, "group.id": group})
        try:
            with _refusals_named():
                self._producer.send_offsets_to_transaction(
                    _positions(topic, offsets), consumer.consumer_group_metadata(), TIMEOUT_S
                )
        finally:
            consumer.close()

    def commit(self) -> None:
        with _refusals_named():
            self._producer.commit_transaction(TIMEOUT_S)

    def abort(self) -> None:
        with _refusals_named():
            self._producer.abort_transaction(TIMEOUT_S)

    def close(self) -> None:
        """It goes when it is no longer used."""


def _isolation(committed: bool) -> str:
    return "read_committed" if committed else "read_uncommitted"


def _positions(topic: str, offsets: Mapping[int, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]


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
    return _result(future)


def _result(future: Future[Any]) -> Any:
    with _refusals_named():
        return future.result(TIMEOUT_S)


@contextmanager
def _refusals_named() -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        code, text = error.args[0].code(), error.args[0].str()
        if code == KafkaError._FENCED:
            raise FencedError(code, text) from error
        raise refusal(code, text) from error
