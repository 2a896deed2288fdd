"""The servers that clients are tried on: ours, or a real Kafka."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import tailrace

LARGEST_MESSAGE_BYTES = 4 << 20
SETTINGS = {
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",  # the fixed timestamps of the tests lie years back
    "message.max.bytes": str(LARGEST_MESSAGE_BYTES),
    "log.initial.task.delay.ms": "100",
}


@dataclass(frozen=True)
class Server:
    address: str
    is_ours: bool


@contextmanager
def our_server() -> Iterator[Server]:
    with tailrace.Broker(SETTINGS) as broker:
        yield Server(broker.bootstrap_servers, is_ours=True)


@contextmanager
def kafka_server(folder: Path) -> Iterator[Server]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of kafka-python's use of importlib
        from broker_client import free_port

        from golden.broker import Broker
    with Broker(folder, free_port(), SETTINGS) as broker:
        yield Server(broker.address, is_ours=False)
