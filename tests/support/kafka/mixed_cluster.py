"""A cluster of processes on loopback whose nodes run Apache Kafka 4.3.1 or Tailrace.

`peers/kafka node` starts the nodes of Kafka; its description says what a `quorum` text may be. Tailrace gets the same
settings and is formatted by its own command. A folder may change its vendor between two starts.

Election timeouts are longer than the defaults on both sides, because the nodes share few cores. What Kafka logs is
kept: `complaints` are the lines that a healthy cluster never produces.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, TypeVar

from support.kafka.tools import KAFKA_SCRIPT

SETTINGS: Final = {
    "controller.quorum.election.timeout.ms": "2000",
    "controller.quorum.fetch.timeout.ms": "4000",
    "controller.quorum.request.timeout.ms": "6000",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "auto.create.topics.enable": "false",
}
JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.showDateTime=true"
COMPLAINT: Final = re.compile(
    r"\] ERROR \S*(raft|controller|Controller|image|loader|Loader|fault|Fault|metadata)\S* - "  # of Kafka
    r"|^\S+Z (ERROR|CRITICAL) |^Traceback "
)
DIRECTORY_IDS: Final = {1: "JEXY6aqzQY-32P5TStzaFg", 2: "MvDxzVmcRsaTz33bUuRU6A", 3: "07R5amHmR32VDA6jHkGbTA"}
"""Of initial controllers, by node id."""
T = TypeVar("T")


def wait_for(found: Callable[[], T | None], what: str, seconds: float = 60) -> T:
    """The first result that is neither None nor False."""
    deadline = time.monotonic() + seconds
    while True:
        result = found()
        if result is not None and result is not False:
            return result
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(0.2)


class ClusterNode(ABC):
    """One node: its folder holds data, properties file and log. Broker clients use `port`, controllers `port + 1`."""

    def __init__(
        self, folder: Path, port: int, node_id: int, roles: str, cluster_id: str, quorum: str, settings: dict[str, str]
    ) -> None:
        self.folder = folder
        self.port = port
        self.node_id = node_id
        self.roles = roles
        self.cluster_id = cluster_id
        self.quorum = quorum
        self.settings = settings
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def broker_address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def controller_address(self) -> str:
        return f"127.0.0.1:{self.port + 1}"

    @property
    def log_text(self) -> str:
        path = self.folder / "server.log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def metadata_log(self) -> Path:
        return self.folder / "log" / "__cluster_metadata-0"

    @property
    @abstractmethod
    def properties(self) -> Path:
        """The settings of the node, for tools that read them."""

    @property
    def directory_id(self) -> str:
        text = (self.folder / "log" / "meta.properties").read_text()
        return text.partition("directory.id=")[2].split()[0]

    def wait_for_line(self, text: str, seconds: float = 60) -> None:
        wait_for(lambda: text in self.log_text, f"node {self.node_id} logs {text!r}", seconds)

    READY: ClassVar[str]
    """What it logs when clients can connect to its broker."""

    def wait_until_serving(self, earlier: int = 0) -> None:
        """`earlier`: how often it was before."""
        wait_for(lambda: self.log_text.count(self.READY) > earlier, f"node {self.node_id} serves clients", 120)

    @abstractmethod
    def start(self) -> None:
        """Returns without waiting."""

    @property
    def is_running(self) -> bool:
        return self.pid is not None

    @property
    @abstractmethod
    def pid(self) -> int | None:
        """None if it does not run."""

    @abstractmethod
    def wait(self) -> None:
        """Return when the process has ended."""

    def signal(self, number: signal.Signals) -> None:
        assert self.pid is not None, f"node {self.node_id} does not run"
        os.kill(self.pid, number)

    def stop(self) -> None:
        self.signal(signal.SIGTERM)
        self.wait()

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    @property
    def complaints(self) -> list[str]:
        """Of either vendor: the log continues when the node changes hands. Two of Kafka say nothing of Tailrace.

        Kafka logs them when a heartbeat of a broker reaches a controller that has resigned, and when a step of a
        controller takes long on a machine with too little processor time.
        """
        lines = self.log_text.splitlines()
        return [
            line
            for line, following in zip(lines, [*lines[1:], ""], strict=True)
            if COMPLAINT.search(line)
            and "NotControllerException" not in following
            and "EventPerformanceMonitor" not in line
        ]


class KafkaNode(ClusterNode):
    READY = "Kafka Server started"

    def start(self) -> None:
        settings = [f"{key}={value}" for key, value in self.settings.items()]
        identity = (str(self.folder), str(self.port), str(self.node_id), self.roles, self.cluster_id, self.quorum)
        options = {"KAFKA_HEAP": "256M", "KAFKA_LOG": "1", "JAVA_TOOL_OPTIONS": JAVA_OPTIONS}
        subprocess.run([str(KAFKA_SCRIPT), "node", *identity, *settings], check=True, env={**os.environ, **options})

    @property
    def properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def pid(self) -> int | None:
        with suppress(OSError, ValueError):
            pid = int((self.folder / "pid").read_text())
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            return pid if state != "Z" else None
        return None

    def wait(self) -> None:
        wait_for(lambda: self.pid is None, f"Kafka node {self.node_id} ends", 90)
        (self.folder / "pid").unlink(missing_ok=True)


class TailraceNode(ClusterNode):
    READY = "ready: "
    _process: subprocess.Popen[bytes] | None = None

    @property
    def properties(self) -> Path:
        return self.folder / "tailrace.properties"

    def start(self) -> None:
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in self._properties().items()))
        if not (self.folder / "log" / "meta.properties").exists():
            options = self._format_options()
            self._run("storage", "format", "-t", self.cluster_id, "-c", str(self.properties), *options)
        with (self.folder / "server.log").open("ab") as log:
            command = [sys.executable, "-m", "tailrace", "serve", "--config", str(self.properties)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def _run(self, *arguments: str) -> None:
        subprocess.run([sys.executable, "-m", "tailrace", *arguments], check=True, capture_output=True)

    def _properties(self) -> dict[str, str]:
        listeners = []
        if "broker" in self.roles:
            listeners.append(f"PLAINTEXT://{self.broker_address}")
        if "controller" in self.roles:
            listeners.append(f"CONTROLLER://{self.controller_address}")
        if "@" in self.quorum and not self._has_directory_ids:
            voters = {"controller.quorum.voters": self.quorum}
        else:
            servers = [re.sub(r"^\d+@([^:]+:\d+):.*$", r"\1", one) for one in self.quorum.split(",")]
            voters = {"controller.quorum.bootstrap.servers": ",".join(servers)}
        return {
            "process.roles": self.roles,
            "node.id": str(self.node_id),
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(listeners),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            **voters,
            "log.dirs": str(self.folder / "log"),
            "group.initial.rebalance.delay.ms": "0",
            **self.settings,
        }

    @property
    def _has_directory_ids(self) -> bool:
        return re.fullmatch(r"\d+@[^:,]+:\d+:.*", self.quorum) is not None

    def _format_options(self) -> list[str]:
        if "controller" not in self.roles:
            return []
        if self._has_directory_ids:
            return ["--initial-controllers", self.quorum]
        return [] if "@" in self.quorum else ["--no-initial-controllers"]

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def wait(self) -> None:
        assert self._process is not None
        self._process.wait(60)


class MixedCluster:
    """Nodes by id. Ports are `first_port` + 10 × id."""

    def __init__(self, folder: Path, first_port: int, cluster_id: str = "uViM5VGiQUWqVVgvr1gYxQ") -> None:
        self.folder = folder
        self.cluster_id = cluster_id
        self.nodes: dict[int, ClusterNode] = {}
        self._first_port = first_port

    def port(self, node_id: int) -> int:
        return self._first_port + 10 * node_id

    def voters(self, *ids: int) -> str:
        """The value of `controller.quorum.voters`."""
        return ",".join(f"{one}@127.0.0.1:{self.port(one) + 1}" for one in ids)

    def initial_controllers(self, *ids: int) -> str:
        """Voters that are in the log, with their directory ids."""
        return ",".join(f"{self.voters(one)}:{DIRECTORY_IDS[one]}" for one in ids)

    def bootstrap_controllers(self, *ids: int) -> str:
        """What a node without initial controllers needs to know."""
        return ",".join(f"127.0.0.1:{self.port(one) + 1}" for one in ids)

    @property
    def controllers(self) -> str:
        """The controller addresses of the nodes that run."""
        nodes = [node for node in self.nodes.values() if node.is_running and "controller" in node.roles]
        return ",".join(node.controller_address for node in nodes)

    def add(self, vendor: type[ClusterNode], node_id: int, roles: str, quorum: str, **settings: str) -> ClusterNode:
        """A node that does not run yet; settings with `_` for each dot. One with the same id is replaced."""
        given = {**SETTINGS, **{key.replace("_", "."): value for key, value in settings.items()}}
        folder = self.folder / f"node-{node_id}"
        node = vendor(folder, self.port(node_id), node_id, roles, self.cluster_id, quorum, given)
        self.nodes[node_id] = node
        return node

    def assert_healthy(self) -> None:
        """Every node still runs, and none has logged an error about the quorum or the metadata."""
        for node_id, node in self.nodes.items():
            assert node.is_running, f"node {node_id} has ended:\n{node.log_text[-4000:]}"
        self.assert_no_complaints()

    def assert_no_complaints(self) -> None:
        found = {node_id: node.complaints for node_id, node in self.nodes.items() if node.complaints}
        assert not found, found

    def close(self) -> None:
        for node in self.nodes.values():
            if node.is_running:
                node.kill()


@contextmanager
def mixed_cluster(folder: Path, first_port: int) -> Iterator[MixedCluster]:
    cluster = MixedCluster(folder, first_port)
    try:
        yield cluster
    finally:
        cluster.close()


class Clusters(NamedTuple):
    """Two that are built alike and compared: one of Kafka, or under a controller of Kafka, and one of Tailrace."""

    kafka: MixedCluster
    ours: MixedCluster

    def do(self, action: Callable[[MixedCluster], T]) -> tuple[T, T]:
        """On both at the same time."""
        with ThreadPoolExecutor(2) as both:
            theirs, own = both.map(action, self)
        return theirs, own
