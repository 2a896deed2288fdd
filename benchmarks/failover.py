"""How long a cluster is without a controller: from the end of the active controller to the next acknowledged command.

    python benchmarks/failover.py [--rounds 30] [--pauses 10] [--slow-rounds 10]

Three controllers and two brokers, all of Tailrace, each a process on this machine. A round ends the active controller
and at once asks a broker to create a topic, again and again until one is created. Then the controller is started again,
and the next round begins when all voters have caught up. Three rows: kill -9 with default settings; kill -9 without
fast elections; SIGSTOP, which closes no connection, with default settings.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from peer_clusters import TailraceNode
from peer_sides import free_ports, wait_until
from tailrace.client.connection import Connection
from tailrace.model.errors import TailraceError
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData

CONTROLLERS = (1, 2, 3)
BROKERS = (11, 12)
CLUSTER_ID = "failover-of-controller"
REQUEST_TIMEOUT_S = 20.0
MAX_WAIT_S = 60.0
RETRY_S = 0.002
FAST_ELECTION = "controller.quorum.fast.election.enable"


class Row(NamedTuple):
    name: str
    seconds: list[float]
    max_median: float | None
    max_longest: float

    def __str__(self) -> str:
        ordered = sorted(self.seconds)
        middle, longest = median(ordered), ordered[-1]
        marks = [] if self.max_median is None else [f"median ≤ {self.max_median:g} s"]
        marks.append(f"maximum ≤ {self.max_longest:g} s")
        holds = longest <= self.max_longest and (self.max_median is None or middle <= self.max_median)
        figures = f"{len(ordered)} | {middle:.2f} s | {ordered[0]:.2f} s | {longest:.2f} s"
        return f"| {self.name} | {figures} | {', '.join(marks)} | {'' if holds else 'not reached'} |"


class FailoverCluster:
    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        ports: list[int] = []
        while len(ports) < len(CONTROLLERS) + len(BROKERS):
            port = free_ports()
            ports += [port] if port not in ports else []
        self.nodes = {
            node_id: TailraceNode(folder / str(node_id), node_id, port)
            for node_id, port in zip((*CONTROLLERS, *BROKERS), ports, strict=True)
        }
        voters = ",".join(f"{each}@{self.nodes[each].address}" for each in CONTROLLERS)
        for node in self.nodes.values():
            node.folder.mkdir(parents=True)
            lines = {**properties(node), "controller.quorum.voters": voters, **settings}
            node.config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
            node.format(CLUSTER_ID)
        self._topics = count()
        self._connection: Connection | None = None

    def __enter__(self) -> FailoverCluster:
        for node in self.nodes.values():
            node.launch()
        self.await_command()
        self.await_voters()
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()
        for node in self.nodes.values():
            node.kill()
        wait_until(lambda: not any(node.is_alive() for node in self.nodes.values()), "the nodes to end", MAX_WAIT_S)

    def ask(self, request: Any) -> Any:
        """The first broker; None if it does not respond."""
        try:
            self._connection = self._connection or Connection.open(self.nodes[BROKERS[0]].address, timeout_s=5)
            return self._connection.call(request, REQUEST_TIMEOUT_S)
        except (TailraceError, OSError):
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            return None

    def await_command(self) -> None:
        """A new topic is acknowledged."""

        def is_created() -> bool:
            topic = CreatableTopic(name=f"topic-{next(self._topics)}", num_partitions=1, replication_factor=1)
            response = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=int(REQUEST_TIMEOUT_S * 1000)))
            return response is not None and response.topics[0].error_code == 0

        deadline = time.monotonic() + MAX_WAIT_S
        while not is_created():
            if time.monotonic() > deadline:
                raise TimeoutError(f"no command was acknowledged within {MAX_WAIT_S:g} s")
            time.sleep(RETRY_S)

    def quorum(self) -> Any:
        partitions = [RequestPartitionData(partition_index=0)]
        request = DescribeQuorumRequest(
            topics=[RequestTopicData(topic_name="__cluster_metadata", partitions=partitions)]
        )
        response = self.ask(request)
        return None if response is None or response.error_code else response.topics[0].partitions[0]

    def await_voters(self) -> int:
        """All voters have what is committed; returns the leader."""
        leader: list[int] = []

        def are_caught_up() -> bool:
            found = self.quorum()
            if found is None or found.error_code or len(found.current_voters) < len(CONTROLLERS):
                return False
            leader[:] = [found.leader_id]
            return all(each.log_end_offset >= found.high_watermark > 0 for each in found.current_voters)

        wait_until(are_caught_up, "all voters to catch up", MAX_WAIT_S)
        return leader[0]


def properties(node: TailraceNode) -> dict[str, str]:
    is_controller = node.node_id in CONTROLLERS
    return {
        "process.roles": "controller" if is_controller else "broker",
        "node.id": str(node.node_id),
        "listeners": f"{'CONTROLLER' if is_controller else 'PLAINTEXT'}://{node.address}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(node.folder / "log"),
    }


def killed(cluster: FailoverCluster, leader: TailraceNode) -> float:
    begin = time.monotonic()
    leader.kill()
    cluster.await_command()
    took = time.monotonic() - begin
    wait_until(lambda: not leader.is_alive(), "the controller to end", MAX_WAIT_S)
    leader.launch()
    return took


def paused(cluster: FailoverCluster, leader: TailraceNode) -> float:
    assert leader.pid is not None
    begin = time.monotonic()
    os.kill(leader.pid, signal.SIGSTOP)
    try:
        cluster.await_command()
        return time.monotonic() - begin
    finally:
        os.kill(leader.pid, signal.SIGCONT)


def measured(
    rounds: int, settings: dict[str, str], fault: Callable[[FailoverCluster, TailraceNode], float]
) -> list[float]:
    found = []
    with tempfile.TemporaryDirectory() as folder, FailoverCluster(Path(folder), settings) as cluster:
        for number in range(rounds):
            leader = cluster.nodes[cluster.await_voters()]
            time.sleep(random.uniform(0.2, 1.2))  # so that timers stand at random
            found.append(fault(cluster, leader))
            print(f"  {number + 1}: {found[-1]:.3f} s", file=sys.stderr)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="How long a cluster is without a controller.")
    parser.add_argument("--rounds", type=int, default=30, help="kills with default settings")
    parser.add_argument("--slow-rounds", type=int, default=10, help="kills without fast elections")
    parser.add_argument("--pauses", type=int, default=10)
    args = parser.parse_args()
    load_average = os.getloadavg()[0]
    rows = [
        Row("kill -9, default settings", measured(args.rounds, {}, killed), 0.6, 1.5),
        Row(f"kill -9, `{FAST_ELECTION}=false`", measured(args.slow_rounds, {FAST_ELECTION: "false"}, killed), None, 4),
        Row("SIGSTOP, default settings", measured(args.pauses, {}, paused), None, 4),
    ]
    print("| active controller ends by | rounds | median | minimum | maximum | mark | |\n|---|---|---|---|---|---|---|")
    print("\n".join(map(str, rows)))
    print(
        f"\n{os.cpu_count()} cores, load average {load_average:.1f} at the start, {os.getloadavg()[0]:.1f} at the end."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
