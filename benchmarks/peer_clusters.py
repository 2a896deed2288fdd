"""Clusters of three combined nodes, of Tailrace or of Kafka, for the rows about clusters.

Both kinds get the same server.properties except for ports and directories: Kafka's defaults, static voters. Nodes are
ended by their process ids.
"""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import uuid
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path

from peer_sides import SCRIPT, free_ports, tail, wait_until
from tailrace.client.address import Address
from tailrace.client.connection import Connection
from tailrace.protocol.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData

NODES = 3
HEAP = "512M"
MAX_STOP_S = 30.0


class ClusterNode(ABC):
    """One process. `port` is that of the broker, the controller has the next one."""

    kind: str

    def __init__(self, folder: Path, node_id: int, port: int) -> None:
        self.folder = folder
        self.node_id = node_id
        self.address = Address("127.0.0.1", port)

    @property
    def config(self) -> Path:
        return self.folder / "server.properties"

    @property
    @abstractmethod
    def pid(self) -> int | None: ...

    @abstractmethod
    def format(self, cluster_id: str) -> None: ...

    @abstractmethod
    def launch(self) -> None:
        """Return at once."""

    def kill(self) -> None:
        """Send SIGKILL and return at once."""
        if self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def is_alive(self) -> bool:
        with suppress(OSError):
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        return False

    def check(self) -> None:
        """Raises RuntimeError with the end of the log if the process is gone."""
        if not self.is_alive():
            raise RuntimeError(f"{self.kind} node {self.node_id} ended:\n{tail(self.folder / 'server.log')}")

    def resident_mb(self) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError(f"{self.kind} node {self.node_id} has no VmRSS")

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class KafkaNode(ClusterNode):
    kind = "Kafka"

    @property
    def pid(self) -> int | None:
        with suppress(OSError, ValueError):
            return int((self.folder / "pid").read_text())
        return None

    def format(self, cluster_id: str) -> None:
        subprocess.run([str(SCRIPT), "format", str(self.folder), cluster_id], check=True)

    def launch(self) -> None:
        variables = {**os.environ, "KAFKA_HEAP": HEAP}
        subprocess.run([str(SCRIPT), "launch", str(self.folder)], check=True, env=variables, stdout=subprocess.DEVNULL)


class TailraceNode(ClusterNode):
    kind = "Tailrace"
    _process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def format(self, cluster_id: str) -> None:
        command = [sys.executable, "-m", "tailrace", "storage", "format", "-c", str(self.config), "-t", cluster_id]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def launch(self) -> None:
        command = [sys.executable, "-m", "tailrace", "serve", "--config", str(self.config)]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None


NODE_KINDS: dict[str, type[ClusterNode]] = {"Tailrace": TailraceNode, "Kafka": KafkaNode}


class PeerCluster:
    """Three formatted nodes in a folder. Leaving the `with` block kills them."""

    def __init__(self, kind: type[ClusterNode], folder: Path) -> None:
        self.kind = kind.kind
        ports = distinct_ports()
        self.nodes = [kind(folder / str(node_id), node_id, port) for node_id, port in enumerate(ports, 1)]
        voters = ",".join(f"{node.node_id}@127.0.0.1:{node.address.port + 1}" for node in self.nodes)
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        cluster_id = cluster_id.replace("-", "0")  # a leading one would be an option
        for node in self.nodes:
            node.folder.mkdir(parents=True)
            node.config.write_text(properties(node, voters))
            node.format(cluster_id)

    def __enter__(self) -> PeerCluster:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.kill()
        wait_until(lambda: not any(node.is_alive() for node in self.nodes), f"{self.kind} to end", MAX_STOP_S)

    def launch(self) -> None:
        for node in self.nodes:
            node.launch()

    def resident_mb(self) -> float:
        """Of all processes."""
        return sum(node.resident_mb() for node in self.nodes)

    def cpu_s(self) -> float:
        return sum(node.cpu_s() for node in self.nodes)

    def active_controller(self) -> ClusterNode:
        wanted = RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)])
        connection = Connection.open(self.nodes[0].address)
        try:
            response = connection.call(DescribeQuorumRequest(topics=[wanted]), 10)
        finally:
            connection.close()
        leader_id = response.topics[0].partitions[0].leader_id
        return next(node for node in self.nodes if node.node_id == leader_id)


def distinct_ports() -> list[int]:
    found: dict[int, None] = {}
    while len(found) < NODES:
        port = free_ports()
        if port - 1 not in found and port + 1 not in found:
            found[port] = None
    return list(found)


def properties(node: ClusterNode, voters: str) -> str:
    port = node.address.port
    lines = [
        "process.roles=broker,controller",
        f"node.id={node.node_id}",
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}",
        f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names=CONTROLLER",
        f"controller.quorum.voters={voters}",
        f"log.dirs={node.folder / 'log'}",
        "auto.create.topics.enable=false",
    ]
    return "\n".join(lines) + "\n"
