"""Brokers that tests kill and start again: Tailrace, or a real Kafka, to show that a test asks for what Kafka does."""

from __future__ import annotations

import os
import random
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol

import tailrace
from support.kafka.tools import KAFKA_SCRIPT


class KillableBroker(Protocol):
    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def is_running(self) -> bool: ...

    def launch(self) -> None: ...

    def wait_until_ready(self) -> None: ...

    def kill(self) -> None: ...


def two_free_ports() -> int:
    """The first of two neighbours."""
    return free_ports(2)


def free_ports(count: int) -> int:
    """The first of a range. Below those that clients are given, lest one has it while its broker is down."""
    while True:
        first = random.randrange(20_000, 30_000)
        with suppress(OSError), ExitStack() as stack:
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first


class KafkaVictim:
    """It cannot be killed while it starts: `launch` only returns when the port is open."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self._folder = folder
        self._settings = [f"{key}={value}" for key, value in settings.items()]
        self._port = two_free_ports()

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def is_running(self) -> bool:
        return (self._folder / "pid").exists()

    def launch(self) -> None:
        self._script("start", str(self._folder), str(self._port), *self._settings)

    def wait_until_ready(self) -> None:
        """Nothing is left to wait for."""

    def kill(self) -> None:
        self._script("kill", str(self._folder))

    def _script(self, *arguments: str) -> None:
        subprocess.run([str(KAFKA_SCRIPT), *arguments], check=True, env={**os.environ, "KAFKA_HEAP": "512M"})

    def __enter__(self) -> KafkaVictim:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if (self._folder / "pid").exists():
            self.kill()


@contextmanager
def killable_broker(
    settings: dict[str, str], kafka: Path | None = None, data_dir: Path | None = None
) -> Iterator[KillableBroker]:
    """A broker that does not run yet; a real Kafka in the folder `kafka` if there is one. `data_dir` is kept."""
    if kafka is not None:
        with KafkaVictim(kafka, settings) as real:
            yield real
        return
    broker = tailrace.Broker(settings, data_dir=data_dir)
    try:
        yield broker
    finally:
        broker.close()
