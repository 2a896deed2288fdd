"""kafka-python: pure Python, synchronous."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import cramjam
from client_driver import (
    LARGEST_RECORD_BYTES,
    TIMEOUT_S,
    Message,
    RefusedError,
    Stored,
    TransactionalWriter,
    as_pairs,
    refusal,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its use of importlib
    import kafka.codec
    import kafka.errors
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType
    from kafka.errors import KafkaError
    from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata

# It asks for python-snappy, which itself is a cover over cramjam; raw blocks are all it needs from it.
kafka.codec.snappy = SimpleNamespace(
    compress=lambda data: bytes(cramjam.snappy.compress_raw(data)),
    decompress=lambda data: bytes(cramjam.snappy.decompress_raw(data)),
)


class KafkaPythonDriver:
    name = "kafka-python"

    def __init__(self, address: str) -> None:
        self._address = address
        self._admin = KafkaAdminClient(bootstrap_servers=address)
        self._consumer = KafkaConsumer(
            bootstrap_servers=address,
            enable_auto_commit=False,
            auto_offset_reset="none",
            check_crcs=True,
            fetch_max_wait_ms=50,
            max_partition_fetch_bytes=LARGEST_RECORD_BYTES,
        )

    def close(self) -> None:
        self._consumer.close()
        self._admin.close()

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
        producer = KafkaProducer(
            bootstrap_servers=self._address,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            acks="all" if acks < 0 else acks,
            linger_ms=5,
            max_request_size=LARGEST_RECORD_BYTES,
        )
        try:
            sent = [
                producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    headers=list(message.headers),
                    partition=partition,
                    timestamp_ms=message.timestamp_ms,
                )
                for message in messages
            ]
            producer.flush(TIMEOUT_S)
            return [_refusals_named(lambda future=future: future.get(TIMEOUT_S)).offset for future in sent]
        finally:
            producer.close(timeout=TIMEOUT_S)

    def read(self, topic: str, count: int, *, offset: int = 0) -> list[Stored]:
        partition = TopicPartition(topic, 0)
        self._consumer.assign([partition])
        self._consumer.seek(partition, offset)
        return self._polled(partition, count)

    def read_partitions(self, topic: str, partitions: int, count: int) -> dict[int, list[Stored]]:
        found: dict[int, list[Stored]] = {number: [] for number in range(partitions)}
        assigned = [TopicPartition(topic, number) for number in found]
        self._consumer.assign(assigned)
        self._consumer.seek_to_beginning(*assigned)
        deadline = time.monotonic() + TIMEOUT_S
        while sum(map(len, found.values())) < count:
            assert time.monotonic() < deadline, f"{found}"
            for partition, records in self._consumer.poll(timeout_ms=500).items():
                found[partition.partition] += map(_stored, records)
        return found

    def read_at_each(self, topic: str, offsets: Sequence[int]) -> list[Stored]:
        partition = TopicPartition(topic, 0)
        self._consumer.assign([partition])
        found: list[Stored] = []
        for offset in offsets:
            self._consumer.seek(partition, offset)
            found += self._polled(partition, 1)
        return found

    def _polled(self, partition: TopicPartition, count: int) -> list[Stored]:
        found: list[Stored] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} records"
            polled = self._consumer.poll(timeout_ms=500, max_records=count - len(found))
            found += map(_stored, polled.get(partition, ()))
        return found

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        partition = TopicPartition(topic, 0)
        found = self._consumer.offsets_for_times({partition: timestamp_ms})[partition]
        return None if found is None or found.offset < 0 else int(found.offset)

    def bounds(self, topic: str) -> tuple[int, int]:
        partition = TopicPartition(topic, 0)
        return self._consumer.beginning_offsets([partition])[partition], self._consumer.end_offsets([partition])[
            partition
        ]

    def read_until(self, topic: str, last: bytes, *, committed: bool = True, partition: int = 0) -> list[bytes]:
        consumer = KafkaConsumer(
            bootstrap_servers=self._address,
            isolation_level="read_committed" if committed else "read_uncommitted",
            fetch_max_wait_ms=50,
        )
        consumer.assign([TopicPartition(topic, partition)])
        consumer.seek(TopicPartition(topic, partition), 0)
        values: list[bytes] = []
        deadline = time.monotonic() + TIMEOUT_S
        try:
            while last not in values:
                assert time.monotonic() < deadline, f"{values}"
                for records in consumer.poll(timeout_ms=500).values():
                    values += [record.value for record in records]
        finally:
            consumer.close()
        return values[: values.index(last) + 1]

    # Groups and transactions

    def committed(self, group: str, topic: str) -> dict[int, int]:
        found = _refusals_named(lambda: self._admin.list_group_offsets({group: None}))[group]
        return {each.partition: at.offset for each, at in found.items() if each.topic == topic and at.offset >= 0}

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        answers = _refusals_named(lambda: self._admin.alter_group_offsets(group, _positions(topic, offsets)))
        for error in answers.values():
            if error.errno:
                raise refusal(error.errno, error.__name__)

    def groups(self) -> set[str]:
        return {each["group_id"] for each in self._admin.list_groups()}

    def group_state(self, group: str) -> tuple[str, int]:
        found = _refusals_named(lambda: self._admin.describe_groups([group]))[group]
        return found["group_state"].upper(), len(found["members"])

    def delete_group(self, group: str) -> None:
        for answer in self._admin.delete_groups([group]).values():
            if answer != "OK":
                raise refusal(getattr(kafka.errors, answer).errno, answer)

    def transactional(self, transactional_id: str, timeout_ms: int = 60_000) -> TransactionalWriter:
        return _TransactionalProducer(self._address, transactional_id, timeout_ms)

    # Administration

    def create_topic(self, topic: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None:
        wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(settings or {})}
        _refusals_named(lambda: self._admin.create_topics({topic: wanted}))

    def delete_topic(self, topic: str) -> None:
        _refusals_named(lambda: self._admin.delete_topics([topic]))

    def add_partitions(self, topic: str, total: int) -> None:
        _refusals_named(lambda: self._admin.create_partitions({topic: total}))

    def topics(self) -> dict[str, int]:
        return {topic["name"]: len(topic["partitions"]) for topic in self._admin.describe_topics()}

    def settings(self, topic: str) -> dict[str, str]:
        return self._described(ConfigResourceType.TOPIC, topic)

    def broker_settings(self) -> dict[str, str]:
        (broker,) = self._admin.describe_cluster()["brokers"]
        return self._described(ConfigResourceType.BROKER, str(broker["broker_id"]))

    def _described(self, kind: ConfigResourceType, name: str) -> dict[str, str]:
        answer = self._admin.describe_configs([ConfigResource(kind, name)], config_filter="all")
        ((found,),) = [resources.values() for resources in answer.values()]
        return {key: entry["value"] for key, entry in found.items()}

    def set(self, topic: str, settings: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(settings))
        ((answer,),) = [resources.values() for resources in self._admin.alter_configs([resource]).values()]
        if answer != "OK":
            raise RefusedError(int(answer.removeprefix("[Error ").partition("]")[0]), answer)

    def delete_records(self, topic: str, before_offset: int) -> None:
        _refusals_named(lambda: self._admin.delete_records({TopicPartition(topic, 0): before_offset}))

    def cluster(self) -> tuple[str | None, list[str]]:
        found = self._admin.describe_cluster()
        return found["cluster_id"], [f"{broker['host']}:{broker['port']}" for broker in found["brokers"]]


class _TransactionalProducer:
    def __init__(self, address: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=address, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        _refusals_named(self._producer.init_transactions)

    def begin(self) -> None:
        _refusals_named(self._producer.begin_transaction)

    def produce(self, topic: str, messages: Sequence[Message], partition: int = 0) -> None:
        sent = [
            _refusals_named(
                lambda each=each: self._producer.send(
                    topic, value=each.value, key=each.key, partition=partition, timestamp_ms=each.timestamp_ms
                )
            )
            for each in messages
        ]
        for future in sent:
            _refusals_named(lambda future=future: future.get(TIMEOUT_S))

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        _refusals_named(
            lambda: self._producer.send_offsets_to_transaction(_positions(topic, offsets), ConsumerGroupMetadata(group))
        )

    def commit(self) -> None:
        _refusals_named(self._producer.commit_transaction)

    def abort(self) -> None:
        _refusals_named(self._producer.abort_transaction)

    def close(self) -> None:
        self._producer.close(timeout=TIMEOUT_S)


def _positions(topic: str, offsets: Mapping[int, int]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {TopicPartition(topic, number): OffsetAndMetadata(offset, "", -1) for number, offset in offsets.items()}


def _stored(record: Any) -> Stored:
    return Stored(record.offset, record.value, record.key, record.timestamp, as_pairs(record.headers))


def _refusals_named(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except KafkaError as error:
        if getattr(error, "errno", 0) <= 0:
            raise
        raise refusal(error.errno, str(error)) from error
