"""What the tests of mixed clusters do as clients: librdkafka for records and topics, Kafka's tool for the quorum."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

from support.kafka.mixed_cluster import wait_for
from support.kafka.tools import TOOLS, run_tool

PATIENCE_S = 60


def admin_client(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers, "log_level": 0})


def results(futures: Mapping[Any, Future[Any]]) -> list[Any]:
    return [future.result(PATIENCE_S) for future in futures.values()]


def create_topic(admin: AdminClient, name: str, replicas: Sequence[Sequence[int]], **config: str) -> None:
    """`replicas` are the brokers of each partition; settings with `_` for each dot."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    topic = NewTopic(name, len(replicas), replica_assignment=[list(each) for each in replicas], config=settings)
    results(admin.create_topics([topic]))
    wait_for(lambda: leaders(admin, name).keys() == set(range(len(replicas))), f"leaders of {name}")


def leaders(admin: AdminClient, topic: str) -> dict[int, int]:
    """By partition, where there is one."""
    return {index: each.leader for index, each in _partitions(admin, topic).items() if each.leader >= 0}


def isr(admin: AdminClient, topic: str) -> list[set[int]]:
    """Of each partition. Empty while the broker that is asked does not respond: it may be paused."""
    return [set(each.isrs) for each in _partitions(admin, topic).values()]


def _partitions(admin: AdminClient, topic: str) -> dict[int, PartitionMetadata]:
    try:
        return admin.list_topics(topic, timeout=3).topics[topic].partitions
    except KafkaException:
        return {}


def produce(servers: str, topic: str, values: Iterable[str]) -> None:
    """Idempotent; every value is acknowledged by all replicas in sync, or this fails."""
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            refused.append(error)

    config = {"bootstrap.servers": servers, "enable.idempotence": True, "message.timeout.ms": 60_000, "log_level": 0}
    producer = Producer(config)
    for value in values:
        producer.produce(topic, value, value, on_delivery=delivered)
    assert producer.flush(PATIENCE_S) == 0
    assert not refused, refused[:3]


def consume(servers: str, topic: str, count: int, group: str) -> list[str]:
    """The first records that a new group reads, sorted; their offsets are committed."""
    config = {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer(config)
    consumer.subscribe([topic])
    found: list[str] = []
    deadline = time.monotonic() + PATIENCE_S
    try:
        while len(found) < count and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                value = message.value()
                assert value is not None
                found.append(value.decode())
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return sorted(found)


class Replica(NamedTuple):
    """A line of `kafka-metadata-quorum describe --replication`."""

    directory_id: str
    end_offset: int
    lag: int
    status: str


def quorum_replicas(servers: str, option: str = "--bootstrap-server") -> dict[int, Replica]:
    output, _ = run_tool(TOOLS + "MetadataQuorumCommand", option, servers, "describe", "--replication")
    rows = [line.split() for line in output.splitlines() if line[:1].isdigit()]
    return {int(row[0]): Replica(row[1], int(row[2]), int(row[3]), row[-1]) for row in rows}


def assert_no_lag(servers: str, option: str = "--bootstrap-server") -> dict[int, Replica]:
    """No replica is behind by more than the record of an idle moment or two, and all of them catch up."""
    latest: dict[int, Replica] = {}

    def caught_up() -> bool:
        latest.clear()
        latest.update(quorum_replicas(servers, option))
        assert all(replica.lag <= 2 for replica in latest.values()), latest
        return all(replica.lag == 0 for replica in latest.values())

    wait_for(caught_up, "every replica of the metadata log has no lag")
    return latest
