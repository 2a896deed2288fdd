"""aiokafka: asyncio, its record code in Cython. The driver's loop runs only while the driver is asked something."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, ProducerFenced, for_code
from client_driver import (
    LARGEST_RECORD_BYTES,
    PRODUCER_FENCED,
    TIMEOUT_S,
    FencedError,
    Message,
    Stored,
    TransactionalWriter,
    as_pairs,
    refusal,
)

T = TypeVar("T")
NO_OFFSET = -1


class AioKafkaDriver:
    name = "aiokafka"

    def __init__(self, address: str) -> None:
        self._address = address
        self._runner = asyncio.Runner()
        self._admin: AIOKafkaAdminClient = self._run(self._started(AIOKafkaAdminClient))

    def close(self) -> None:
        self._run(self._admin.close())
        self._runner.close()

    async def _started(self, kind: Any, **settings: Any) -> Any:
        """Made within the loop, which is where it will live."""
        made = kind(bootstrap_servers=self._address, **settings)
        await made.start()
        return made

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(TIMEOUT_S):
                return await work

        try:
            return self._runner.run(bounded())
        except ProducerFenced as error:
            raise FencedError(PRODUCER_FENCED, str(error)) from error  # aiokafka's own, for several codes
        except KafkaError as error:
            if error.errno <= 0:
                raise
            raise refusal(error.errno, str(error)) from error

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
        async def work() -> list[int]:
            producer = await self._started(
                AIOKafkaProducer,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=idempotent,
                acks="all" if acks < 0 else acks,
                linger_ms=5,
                max_request_size=LARGEST_RECORD_BYTES,
            )
            try:
                sent = [
                    await producer.send(
                        topic,
                        message.value,
                        message.key,
                        partition=partition,
                        timestamp_ms=message.timestamp_ms,
                        headers=list(message.headers),
                    )
                    for message in messages
                ]
                answers = [await future for future in sent]
                return [answer.offset if acks else NO_OFFSET for answer in answers]
            finally:
                await producer.stop()

        return self._run(work())

    def _consumer(self, **settings: Any) -> AIOKafkaConsumer:
        """Not started: its `async with` does that."""
        return AIOKafkaConsumer(
            bootstrap_servers=self._address,
            enable_auto_commit=False,
            auto_offset_reset="none",
            check_crcs=True,
            fetch_max_wait_ms=50,
            max_partition_fetch_bytes=LARGEST_RECORD_BYTES,
            **settings,
        )

    def read(self, topic: str, count: int, *, offset: int = 0) -> list[Stored]:
        async def work() -> list[Stored]:
            partition = TopicPartition(topic, 0)
            async with self._consumer() as consumer:
                consumer.assign([partition])
                consumer.seek(partition, offset)
                return [_stored(await consumer.getone(partition)) for _ in range(count)]

        return self._run(work())

    def read_partitions(self, topic: str, partitions: int, count: int) -> dict[int, list[Stored]]:
        async def work() -> dict[int, list[Stored]]:
            found: dict[int, list[Stored]] = {number: [] for number in range(partitions)}
            async with self._consumer() as consumer:
                assigned = [TopicPartition(topic, number) for number in found]
                consumer.assign(assigned)
                await consumer.seek_to_beginning(*assigned)
                for _ in range(count):
                    record = await consumer.getone(*assigned)
                    found[record.partition].append(_stored(record))
            return found

        return self._run(work())

    def read_at_each(self, topic: str, offsets: Sequence[int]) -> list[Stored]:
        async def work() -> list[Stored]:
            partition = TopicPartition(topic, 0)
            async with self._consumer() as consumer:
                consumer.assign([partition])
                found = []
                for offset in offsets:
                    consumer.seek(partition, offset)
                    found.append(_stored(await consumer.getone(partition)))
                return found

        return self._run(work())

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        async def work() -> int | None:
            partition = TopicPartition(topic, 0)
            async with self._consumer() as consumer:
                found = (await consumer.offsets_for_times({partition: timestamp_ms}))[partition]
                return None if found is None else int(found.offset)

        return self._run(work())

    def bounds(self, topic: str) -> tuple[int, int]:
        async def work() -> tuple[int, int]:
            partition = TopicPartition(topic, 0)
            async with self._consumer() as consumer:
                first = await consumer.beginning_offsets([partition])
                end = await consumer.end_offsets([partition])
                return first[partition], end[partition]

        return self._run(work())

    def read_until(self, topic: str, last: bytes, *, committed: bool = True, partition: int = 0) -> list[bytes]:
        async def work() -> list[bytes]:
            isolation = "read_committed" if committed else "read_uncommitted"
            async with self._consumer(isolation_level=isolation) as consumer:
                assigned = TopicPartition(topic, partition)
                consumer.assign([assigned])
                consumer.seek(assigned, 0)
                values: list[bytes] = []
                while not values or values[-1] != last:
                    values.append((await consumer.getone(assigned)).value)
                return values

        return self._run(work())

    # Groups and transactions

    def committed(self, group: str, topic: str) -> dict[int, int]:
        found = self._run(self._admin.list_consumer_group_offsets(group))
        return {each.partition: at.offset for each, at in found.items() if each.topic == topic and at.offset >= 0}

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        async def work() -> None:
            async with self._consumer(group_id=group) as consumer:
                consumer.assign(list(_positions(topic, offsets)))
                await consumer.commit(_positions(topic, offsets))

        self._run(work())

    def groups(self) -> set[str]:
        return {group for group, _ in self._run(self._admin.list_consumer_groups())}

    def group_state(self, group: str) -> tuple[str, int]:
        (answer,) = self._run(self._admin.describe_consumer_groups([group]))
        ((code, _, state, _, _, members, *_),) = answer.groups
        _check([code])
        return state.upper(), len(members)

    def transactional(self, transactional_id: str, timeout_ms: int = 60_000) -> TransactionalWriter:
        return _TransactionalProducer(self, transactional_id, timeout_ms)

    # Administration

    def create_topic(self, topic: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None:
        new = NewTopic(topic, partitions, 1, topic_configs=dict(settings or {}))
        answer = self._run(self._admin.create_topics([new]))
        _check([each[1] for each in answer.topic_errors])

    def delete_topic(self, topic: str) -> None:
        _check([each[1] for each in self._run(self._admin.delete_topics([topic])).topic_error_codes])

    def add_partitions(self, topic: str, total: int) -> None:
        answer = self._run(self._admin.create_partitions({topic: NewPartitions(total)}))
        _check([each[1] for each in answer.topic_errors])

    def topics(self) -> dict[str, int]:
        found = self._run(self._admin.describe_topics())
        return {topic["topic"]: len(topic["partitions"]) for topic in found}

    def settings(self, topic: str) -> dict[str, str]:
        return self._described(ConfigResourceType.TOPIC, topic)

    def broker_settings(self) -> dict[str, str]:
        (broker,) = self._run(self._admin.describe_cluster())["brokers"]
        return self._described(ConfigResourceType.BROKER, str(broker["node_id"]))

    def _described(self, kind: ConfigResourceType, name: str) -> dict[str, str]:
        (answer,) = self._run(self._admin.describe_configs([ConfigResource(kind, name)]))
        ((code, _, _, _, entries),) = answer.resources
        _check([code])
        return {entry[0]: entry[1] for entry in entries}

    def set(self, topic: str, settings: Mapping[str, str]) -> None:
        """By AlterConfigs, which replaces everything that was set before."""
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(settings))
        (answer,) = self._run(self._admin.alter_configs([resource]))
        _check([each[0] for each in answer.resources])

    def delete_records(self, topic: str, before_offset: int) -> None:
        self._run(self._admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(before_offset)}))

    def cluster(self) -> tuple[str | None, list[str]]:
        found = self._run(self._admin.describe_cluster())
        return found["cluster_id"], [f"{broker['host']}:{broker['port']}" for broker in found["brokers"]]


class _TransactionalProducer:
    def __init__(self, driver: AioKafkaDriver, transactional_id: str, timeout_ms: int) -> None:
        self._run = driver._run
        self._producer: AIOKafkaProducer = self._run(
            driver._started(AIOKafkaProducer, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        )

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def produce(self, topic: str, messages: Sequence[Message], partition: int = 0) -> None:
        async def work() -> None:
            for future in [
                await self._producer.send(
                    topic, each.value, each.key, partition=partition, timestamp_ms=each.timestamp_ms
                )
                for each in messages
            ]:
                await future

        self._run(work())

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        self._run(self._producer.send_offsets_to_transaction(_positions(topic, offsets), group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        self._run(self._producer.stop())


def _positions(topic: str, offsets: Mapping[int, int]) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, partition): offset for partition, offset in offsets.items()}


def _stored(record: Any) -> Stored:
    return Stored(record.offset, record.value, record.key, record.timestamp, as_pairs(record.headers))


def _check(codes: Sequence[int]) -> None:
    for code in codes:
        if code:
            raise refusal(code, for_code(code).__name__)
