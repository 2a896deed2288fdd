"""The servers that clients are tried on: ours, or a real Kafka."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import tailrace

LARGEST_MESSAGE_BYTES = 4 << 20
SETTINGS = {
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",  # the fixed timestamps of the tests lie years back
    "message.max.bytes": str(LARGEST_MESSAGE_BYTES),
    "log.initial.task.delay.ms": "100",
    # Several partitions of the coordinators, and members and transactions that are given up soon.
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    # librdkafka waits one interval for the response to a heartbeat, and after that never learns the assignment in it.
    "group.consumer.min.heartbeat.interval.ms": "2000",
    "group.consumer.heartbeat.interval.ms": "2000",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "500",
    "share.coordinator.state.topic.num.partitions": "5",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


class Process(Protocol):
    """The server's, whose directory and address stay the same."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def kill(self) -> None: ...


@dataclass(frozen=True)
class Server:
    address: str
    is_ours: bool
    process: Process | None = None  # of one that is not ours to start and stop

    def restart(self, how: str) -> None:
        """After a clean shutdown ("stop") or a SIGKILL ("kill")."""
        assert self.process is not None
        getattr(self.process, how)()
        self.process.start()


@contextmanager
def our_server() -> Iterator[Server]:
    with tailrace.Broker(SETTINGS) as broker:
        yield Server(broker.bootstrap_servers, is_ours=True, process=broker)


@contextmanager
def kafka_server(folder: Path) -> Iterator[Server]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of kafka-python's use of importlib
        from golden.broker import Broker
        from support.kafka.client import free_port
    with Broker(folder, free_port(), SETTINGS) as broker:
        yield Server(broker.address, is_ours=False, process=broker)
