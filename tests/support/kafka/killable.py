"""A real Kafka in the place of our broker: shows that a storm asks for what Kafka does."""

from __future__ import annotations

import os
import random
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "peers" / "kafka"


def two_free_ports() -> int:
    """The first of two neighbours. Below those that clients are given, lest one has it while the broker is down."""
    while True:
        port = random.randrange(20_000, 30_000)
        with suppress(OSError), socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 1))
            return port


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
        subprocess.run([str(SCRIPT), *arguments], check=True, env={**os.environ, "KAFKA_HEAP": "512M"})

    def __enter__(self) -> KafkaVictim:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if (self._folder / "pid").exists():
            self.kill()
