"""What tests ask of a real Kafka broker, beyond `golden.broker`."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping

from kafka import KafkaConsumer, TopicPartition

from golden.broker import Broker
from support.logs.log_writer import Sent


def free_port() -> int:
    """The first of two that are free: one for clients, one for the controller. Each worker has ports of its own."""
    first = 19192 + 100 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for port in range(first, first + 100, 2):
        with socket.socket() as one, socket.socket() as other:
            try:
                one.bind(("127.0.0.1", port))
                other.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no two free ports from {first} on")


def consume(broker: Broker, topic: str, end: int, isolation: str) -> dict[int, Sent]:
    """Every record below `end`, by offset, as kafka-python gets them."""
    return consume_all(broker, {topic: end}, isolation)[topic]


def consume_all(broker: Broker, ends: Mapping[str, int], isolation: str) -> dict[str, dict[int, Sent]]:
    """The same of several topics."""
    partitions = {TopicPartition(topic, 0): end for topic, end in ends.items()}
    consumer = KafkaConsumer(
        bootstrap_servers=broker.address, isolation_level=isolation, enable_auto_commit=False, check_crcs=True
    )
    consumer.assign(list(partitions))
    for partition in partitions:
        consumer.seek(partition, 0)
    found: dict[str, dict[int, Sent]] = {topic: {} for topic in ends}
    deadline = time.monotonic() + 30
    while behind := [each for each, end in partitions.items() if consumer.position(each) < end]:
        assert time.monotonic() < deadline, {each: (consumer.position(each), partitions[each]) for each in behind}
        for partition, records in consumer.poll(timeout_ms=500).items():
            found[partition.topic] |= {
                record.offset: Sent(record.timestamp, record.key, record.value, tuple(record.headers))
                for record in records
            }
    consumer.close()
    return found
