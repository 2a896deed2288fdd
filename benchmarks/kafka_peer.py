"""The log cleaner of a real Kafka 4.3.1, run by `peers/kafka`, on logs that others have written.

The broker makes topics and is stopped; the logs are put in the place of its empty ones, and it is started again. As
long as a topic's `min.cleanable.dirty.ratio` is 1 it is left alone. `cleaned` lowers it, and reads how long the clean
took from the broker's own log: from where the first cleaner thread begins to where the last one tells its totals.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

SCRIPT = Path(__file__).with_name("peers") / "kafka"
SETTINGS = {
    "log.cleaner.backoff.ms": "20",  # by how much one thread may begin later than the other
    "log.retention.ms": "-1",
    "auto.create.topics.enable": "false",
}
MILLISECONDS_FIRST = "-Dorg.slf4j.simpleLogger.showDateTime=true"  # in each line of the log, since the start
LONGEST_CLEAN_S = 120


def why_unavailable() -> str | None:
    """The reason why no Kafka can run here, or None."""
    if shutil.which("java") is None:
        return "no java on the PATH"
    cached = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-4.3.1"
    jars = Path(os.environ.get("KAFKA_JARS") or cached)
    are_here = (jars / "done").exists() and (jars / "logging" / "done").exists()
    return (
        None if are_here or shutil.which("mvn") else "Kafka's jars are not here, and no mvn on the PATH to fetch them"
    )


class KafkaPeer:
    """Leaving the `with` block kills the broker."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self._folder = folder
        self._settings = [f"{name}={value}" for name, value in {**SETTINGS, **settings}.items()]
        self._port = free_port()

    def __enter__(self) -> KafkaPeer:
        self._script("start", str(self._port), *self._settings)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._script("kill")
        shutil.rmtree(self._folder)

    def _script(self, command: str, *arguments: str) -> None:
        variables = {"KAFKA_HEAP": "1G", "KAFKA_LOG": "1", "JAVA_TOOL_OPTIONS": MILLISECONDS_FIRST}
        subprocess.run(
            [str(SCRIPT), command, str(self._folder), *arguments],
            check=True,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **variables},
        )

    def _admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{self._port}")

    def adopt(self, topics: Sequence[str], logs: Sequence[Path], copy: Callable[[str, str], None]) -> None:
        """Each topic gets the same logs, one a partition."""
        configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1"}
        asked = {"num_partitions": len(logs), "replication_factor": 1, "configs": configs}
        admin = self._admin()
        admin.create_topics(dict.fromkeys(topics, asked))
        admin.close()
        targets = {self._folder / "log" / f"{topic}-{n}": log for topic in topics for n, log in enumerate(logs)}
        wait_until(lambda: all((target / "partition.metadata").exists() for target in targets), "the topics")
        self._script("stop")
        for target, log in targets.items():
            for path in target.iterdir():
                if path.name != "partition.metadata":
                    path.unlink()
            for path in log.iterdir():
                copy(str(path), str(target / path.name))
        os.sync()
        self._script("start", str(self._port), *self._settings)
        self._partitions = len(logs)

    def cleaned(self, topic: str) -> float:
        """Seconds for all logs of the topic."""
        os.sync()
        lowered = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
        admin = self._admin()
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, lowered)])
        admin.close()
        end = f"cleaned log {topic}-"
        wait_until(lambda: len(self._told(end)) == self._partitions, f"the clean of {topic}")
        return (max(self._told(end)) - min(self._told(f"Beginning cleaning of log {topic}-"))) / 1000

    def _told(self, words: str) -> list[int]:
        """When the broker said so, in milliseconds since its start."""
        told = (self._folder / "server.log").read_text()
        return [int(ms) for ms in re.findall(rf"^(\d+) .*(?:\n\t.*)?{words}", told, re.MULTILINE)]


def free_port() -> int:
    """The controller has the next one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LONGEST_CLEAN_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"gave up waiting for {what} after {LONGEST_CLEAN_S} s")
        time.sleep(0.1)
