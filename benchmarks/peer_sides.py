"""The two brokers that `peers_run.py` compares, each as a process with a directory and a port of its own.

Both get the same server.properties but for ports and directory. Whatever is started is ended by its process id.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from kafka import KafkaAdminClient

SCRIPT = Path(__file__).with_name("peers") / "kafka"
HEAP = "1G"
# On both sides, beside what peers/kafka says for one node. Everything else is as Kafka has it by default.
SETTINGS = {
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",
    "log.segment.delete.delay.ms": "1000",  # these two: so that what a round wrote is gone before the next
    "log.initial.task.delay.ms": "1000",
    "num.partitions": "4",
    # Kafka's default is 100 KB for both; both brokers move more bytes with these.
    "socket.receive.buffer.bytes": "-1",
    "socket.send.buffer.bytes": "204800",
    # Groups: no member waits for others to come, nor long for its turn to speak.
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
}
LONGEST_START_S = 90.0
LONGEST_STOP_S = 60.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Side(ABC):
    """One broker. Leaving the `with` block kills it; its directory stays for whoever made the folder."""

    name: str

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_ports()
        self.settings = {**SETTINGS, **(settings or {})}

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    @abstractmethod
    def pid(self) -> int | None: ...

    @abstractmethod
    def launch(self) -> None:
        """Return at once."""

    def start(self) -> None:
        """Return when it listens."""
        self.launch()
        wait_until(self._listens, f"{self.name} to listen on {self.port}", LONGEST_START_S)

    def _listens(self) -> bool:
        self.check()
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    @abstractmethod
    def check(self) -> None:
        """Raises RuntimeError with the end of its log when the process is gone."""

    def stop(self) -> None:
        """As it should be: with SIGTERM."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """With SIGKILL. Again is fine."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        pid = self.pid
        if pid is None:
            return
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        try:
            wait_until(lambda: not self._is_alive(pid), f"{self.name} to end", LONGEST_STOP_S)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise
        finally:
            self._forget()

    def _is_alive(self, pid: int) -> bool:
        with suppress(OSError):
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        return False

    @abstractmethod
    def _forget(self) -> None: ...

    def cpu_s(self) -> float:
        """What the process has used so far, all its threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def resident_mb(self) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError(f"{self.name} has no VmRSS")

    def create(self, topic: str, partitions: int) -> None:
        admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{self.port}", request_timeout_ms=120_000)
        try:
            admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1}})
        finally:
            admin.close()
        for partition in {0, 1, 2, 3, partitions - 1} & set(range(partitions)):
            wait_until(lambda p=partition: self._leads(topic, p), f"{self.name} to lead {topic}-{partition}", 120)

    def _leads(self, topic: str, partition: int) -> bool:
        """Whether it answers ListOffsets (version 1, the log's end) for the partition."""
        name = struct.pack(">h", len(topic)) + topic.encode()
        header = struct.pack(">hhih", 2, 1, 1, 8) + b"wireload"
        body = struct.pack(">ii", -1, 1) + name + struct.pack(">iiq", 1, partition, -1)
        error_at = 4 + 4 + 4 + len(name) + 4 + 4
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 5) as connection:
            connection.sendall(struct.pack(">i", len(header + body)) + header + body)
            return receive_frame(connection)[error_at : error_at + 2] == b"\0\0"
        return False

    def delete(self, topic: str) -> None:
        """Return when its files are gone, so that no later round pays for it."""
        admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{self.port}", request_timeout_ms=30_000)
        try:
            admin.delete_topics([topic])
        finally:
            admin.close()
        logs = self.folder / "log"
        wait_until(lambda: not any(logs.glob(f"{topic}-*")), f"{self.name} to delete {topic}", 60)


class KafkaSide(Side):
    name = "Kafka"

    @property
    def pid(self) -> int | None:
        with suppress(OSError, ValueError):
            return int((self.folder / "pid").read_text())
        return None

    def launch(self) -> None:
        settings = [f"{key}={value}" for key, value in self.settings.items()]
        command = [str(SCRIPT), "start", str(self.folder), str(self.port), *settings]
        variables = {**os.environ, "KAFKA_HEAP": HEAP}
        self._script = subprocess.Popen(
            command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )
        wait_until(lambda: self.pid is not None, "peers/kafka to start Java", LONGEST_START_S)

    def check(self) -> None:
        if self.pid is None or not self._is_alive(self.pid):
            raise RuntimeError(f"Kafka ended:\n{tail(self.folder / 'server.log')}")

    def _forget(self) -> None:
        (self.folder / "pid").unlink(missing_ok=True)
        with suppress(subprocess.TimeoutExpired):
            self._script.wait(10)


class TailraceSide(Side):
    name = "Tailrace"
    _process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def launch(self) -> None:
        config = self.folder / "server.properties"
        config.write_text(single_node_properties(self.port, self.folder / "log", self.settings))
        command = [sys.executable, "-m", "tailrace", "serve", "--config", str(config)]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def check(self) -> None:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError(f"Tailrace ended:\n{tail(self.folder / 'server.log')}")

    def _forget(self) -> None:
        if self._process is not None:
            self._process.wait(10)
            self._process = None


SIDES: dict[str, type[Side]] = {"tailrace": TailraceSide, "kafka": KafkaSide}


def single_node_properties(port: int, directory: Path, settings: Mapping[str, str]) -> str:
    """What peers/kafka writes for a Kafka, in the same words."""
    lines = [
        "process.roles=broker,controller",
        "node.id=1",
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}",
        f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names=CONTROLLER",
        f"controller.quorum.voters=1@127.0.0.1:{port + 1}",
        f"log.dirs={directory}",
        "group.initial.rebalance.delay.ms=0",
        "offsets.topic.replication.factor=1",
        "transaction.state.log.replication.factor=1",
        "share.coordinator.state.topic.replication.factor=1",
        "transaction.state.log.min.isr=1",
        "share.coordinator.state.topic.min.isr=1",
        *(f"{key}={value}" for key, value in settings.items()),
    ]
    return "\n".join(lines) + "\n"


def free_ports() -> int:
    """The first of two neighbours that are free: the broker's, and the controller's."""
    for _ in range(100):
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            with suppress(OSError, OverflowError):
                second.bind(("127.0.0.1", port + 1))
                return port
    raise RuntimeError("no two free ports side by side")


def receive_frame(connection: socket.socket) -> bytes:
    """With its length in front. Raises OSError when the connection ends."""
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        more = connection.recv(65536)
        if not more:
            raise ConnectionError("closed by the broker")
        data += more
    return data


def tail(path: Path) -> str:
    with suppress(OSError):
        return "\n".join(path.read_text(errors="replace").splitlines()[-15:])
    return "(no log)"


def wait_until(condition: Callable[[], bool], what: str, longest_s: float) -> None:
    deadline = time.monotonic() + longest_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"gave up waiting for {what} after {longest_s:g} s")
        time.sleep(0.02)
