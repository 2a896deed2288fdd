"""Clusters of processes under random faults, while clients change topics, settings and voters, and produce and fetch.

    .venv/bin/python -m support.stress.cluster_faults --kills 200 --seed 7     in tests/

A round injects one to three faults, waits, and undoes them: paused processes continue, partitions heal, killed nodes
are started again. Nothing else is done to any node, so that a node which does not recover alone is a difference. While
a majority of the controllers is gone, the brokers must serve. In the end:

- what was acknowledged is there,
- every node's image is a replay of the same log, with the same voters,
- every node has stopped cleanly, and none has logged a traceback.
"""

from __future__ import annotations

import argparse
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from support.clusters.cluster_clients import (
    SETTINGS_TOPIC,
    ClusterClient,
    ConfigClient,
    RecordClient,
    TopicClient,
    VoterClient,
    topic_of,
)
from support.clusters.cluster_network import CLIENTS
from support.clusters.cluster_node import ClusterNode
from support.clusters.metadata_replay import disagreements, replay
from support.clusters.process_cluster import COMBINED_ROLES, ISOLATED_ROLES, ProcessCluster
from support.stress.killed_processes import Figures, KillTest, Progress, parser, print_progress, run_program
from tailrace.client.admin import Admin
from tailrace.client.cluster import Cluster
from tailrace.client.quorum_admin import QuorumAdmin, QuorumDescription
from tailrace.model.errors import TailraceError
from tailrace.testing.child_process import BrokerStartError

SETTINGS: Final = {
    "metadata.log.max.record.bytes.between.snapshots": "20000",
    "metadata.max.retention.bytes": "200000",
    "internal.metadata.log.segment.bytes": "30000",
    "internal.metadata.delete.delay.millis": "100",
}
PATIENCE_SECONDS: Final = 60.0
STOP_SECONDS: Final = 15.0
SHARE_OF_LONG_FAULTS: Final = 0.1
SHARE_OF_AWAITED_PROGRESS: Final = 0.5
SHARE_OF_KILLED_STARTS: Final = 0.2
SETTLING_SECONDS: Final = 2.0
SHOWN_LOG_BYTES: Final = 4000

T = TypeVar("T")


@dataclass
class ClusterFigures(Figures):
    """`kills` counts faults of all kinds."""

    network: str = ""
    rounds: int = 0
    lost_quorums: int = 0
    acknowledged_topics: int = 0
    acknowledged_settings: int = 0
    acknowledged_voters: int = 0
    records: int = 0
    unknown: int = 0
    epochs: int = 0
    longest_recovery_seconds: float = 0.0
    longest_stop_seconds: float = 0.0
    log_lines: int = 0


class ClusterFaults(KillTest[ClusterFigures]):
    def __init__(self, cluster: ProcessCluster, seed: int, faults: int, progress: Progress | None = None) -> None:
        super().__init__(ClusterFigures(), seed, faults, progress)
        self.cluster = cluster
        self._down: set[int] = set()
        """Nodes that this test has killed."""
        self._operator = ThreadPoolExecutor(1, initializer=cluster.network.enter)
        self.topics = TopicClient("topics", cluster, seed)
        self.settings = ConfigClient("settings", cluster, seed)
        self.voters = VoterClient("voters", cluster, seed)
        self.records = [RecordClient(topic_of(node.node_id), cluster, seed, node.node_id) for node in cluster.brokers]
        self.clients: list[ClusterClient] = [self.topics, self.settings, self.voters, *self.records]
        self.figures.network = type(cluster.network).__name__
        self._kinds: dict[Callable[[], None], int] = {
            self._kill_controller: 3,
            self._kill_leader: 3,
            self._kill_broker: 2,
            self._pause_controller: 2,
            self._pause_leader: 3,
            self._pause_broker: 1,
            self._restart_cleanly: 1,
            self._isolate: 3,
            self._cut_one_way: 2,
            self._split: 2,
            self._lose_quorum: 2,
        }

    # The course of a run

    def prepare(self) -> None:
        self.cluster.start()
        with_settings = {SETTINGS_TOPIC: [self.cluster.brokers[0].node_id]}
        with_settings |= {topic_of(node.node_id): [node.node_id] for node in self.cluster.brokers}

        def create() -> None:
            with Cluster(self.cluster.bootstrap) as cluster:
                for name, replicas in with_settings.items():
                    Admin(cluster).create_topic(name, assignment={0: replicas})

        self._ask(create)
        for client in self.clients:
            client.start()
        self._await_progress(self.clients)

    def round(self) -> None:
        self.figures.rounds += 1
        kinds, weights = list(self._kinds), list(self._kinds.values())
        for _ in range(self.random.choice((1, 1, 1, 2, 2, 3))):
            self.random.choices(kinds, weights)[0]()
            self.figures.kills += 1
            self.pause(0.7)
        is_long = self.random.random() < SHARE_OF_LONG_FAULTS
        self.pause(13.0 if is_long else 4.0, 10.0 if is_long else 0.2)
        self._undo()
        self._find_differences()
        if self.random.random() < SHARE_OF_AWAITED_PROGRESS:
            self._await_progress(self.clients)
        else:
            self.pause(0.5)

    def _undo(self) -> None:
        self.cluster.heal()
        for node_id in sorted(self._down, key=lambda _: self.random.random()):
            node = self.cluster.node(node_id)
            node.launch()
            if self.random.random() < SHARE_OF_KILLED_STARTS:
                self.pause(0.6)
                node.kill()
                self.figures.kills += 1
                node.launch()
        self._down.clear()

    def complete(self) -> None:
        self._undo()
        for node in self.cluster.nodes.values():
            self._await_ready(node)
        self._await_progress(self.clients)
        self.voters.is_settling = True
        self.wait(lambda: self.voters.is_settled or self._has_failed(), PATIENCE_SECONDS, "not all voters are back")

    def close(self) -> None:
        for client in self.clients:
            client.end()
        for client in self.clients:
            if client.is_started:
                client.join()
                self.figures.differences += client.differences
        figures = self.figures
        figures.acknowledged_topics = self.topics.acknowledged
        figures.acknowledged_settings = self.settings.acknowledged
        figures.acknowledged_voters = self.voters.acknowledged
        figures.records = sum(client.acknowledged for client in self.records)
        figures.unknown = sum(client.unknown for client in self.clients)

    # Faults

    def _running(self, nodes: list[ClusterNode]) -> list[ClusterNode]:
        return [node for node in nodes if node.is_running and not node.is_paused]

    def _choose(self, nodes: list[ClusterNode]) -> ClusterNode | None:
        running = self._running(nodes)
        return self.random.choice(running) if running else None

    def _leader(self) -> ClusterNode | None:
        """As the brokers know it; None if they do not respond at once."""

        def ask() -> QuorumDescription:
            with Cluster(self.cluster.bootstrap, timeout_s=2.0) as cluster:
                return QuorumAdmin(cluster).describe()

        try:
            leader = self.cluster.nodes.get(self._ask(ask).leader_id)
        except TailraceError:
            return None
        return leader if leader is not None and self._running([leader]) else None

    def _kill(self, node: ClusterNode | None) -> None:
        if node is not None:
            node.kill()
            self._down.add(node.node_id)

    def _kill_controller(self) -> None:
        self._kill(self._choose(self.cluster.controllers))

    def _kill_leader(self) -> None:
        self._kill(self._leader() or self._choose(self.cluster.controllers))

    def _kill_broker(self) -> None:
        self._kill(self._choose(self.cluster.brokers))

    def _pause(self, node: ClusterNode | None) -> None:
        if node is not None:
            node.pause()

    def _pause_controller(self) -> None:
        self._pause(self._choose(self.cluster.controllers))

    def _pause_leader(self) -> None:
        self._pause(self._leader() or self._choose(self.cluster.controllers))

    def _pause_broker(self) -> None:
        self._pause(self._choose(self.cluster.brokers))

    def _restart_cleanly(self) -> None:
        node = self._choose(list(self.cluster.nodes.values()))
        if node is not None:
            began = time.monotonic()
            if node.stop() not in (0, -signal.SIGTERM):  # the latter: it was just starting
                self.note_difference(f"node {node.node_id} did not stop cleanly:\n{node.log[-SHOWN_LOG_BYTES:]}")
            self.figures.longest_stop_seconds = max(self.figures.longest_stop_seconds, time.monotonic() - began)
            self._down.add(node.node_id)

    def _isolate(self) -> None:
        cut = self.random.choice((self.cluster.isolate, self.cluster.mute, self.cluster.deafen))
        cut(self.random.choice(sorted(self.cluster.nodes)))

    def _cut_one_way(self) -> None:
        hosts = [CLIENTS, *(node.host for node in self.cluster.nodes.values())]
        self.cluster.network.cut(*self.random.sample(hosts, 2))

    def _split(self) -> None:
        node_ids = sorted(self.cluster.nodes)
        self.cluster.split(set(self.random.sample(node_ids, self.random.randrange(1, len(node_ids)))))

    def _lose_quorum(self) -> None:
        """Two controllers go; the brokers that have been serving go on. One that just starts cannot register."""
        self.cluster.heal()
        before = [client.acknowledged for client in self.records]
        self.pause(1.5, 1.0)
        serving = [client for client, count in zip(self.records, before, strict=True) if client.acknowledged > count]
        away = self.random.sample(self.cluster.controllers, 2)
        for node in away:
            if node.is_running and self.random.random() < 0.5:
                self._kill(node)
            elif node.is_running:
                node.pause()
        self.pause(2.0, 1.0)
        gone = {node.node_id for node in away}
        self._await_progress([client for client in serving if client.broker_id not in gone])
        self.figures.lost_quorums += 1

    # What must hold

    def _ask(self, call: Callable[[], T]) -> T:
        """On a thread of the clients' host."""
        return self._operator.submit(call).result()

    def _await_progress(self, clients: list[Any]) -> None:
        """Each of these clients gets an acknowledgment from now on."""
        before = [client.acknowledged for client in clients]
        began = time.monotonic()

        def is_done() -> bool:
            return self._has_failed() or all(
                client.acknowledged > count for client, count in zip(clients, before, strict=True)
            )

        if not self.wait(is_done, PATIENCE_SECONDS, "not every client was served"):
            waiting = [each.name for each, count in zip(clients, before, strict=True) if each.acknowledged <= count]
            self.note_difference(f"not served: {waiting}")
        self.figures.longest_recovery_seconds = max(self.figures.longest_recovery_seconds, time.monotonic() - began)
        self._find_differences()

    def _has_failed(self) -> bool:
        return any(client.differences for client in self.clients) or self._ended() is not None

    def _ended(self) -> ClusterNode | None:
        gone = (node for node in self.cluster.nodes.values() if not node.is_running and node.node_id not in self._down)
        return next(gone, None)

    def _find_differences(self) -> None:
        ended = self._ended()
        if ended is not None:
            self.note_difference(f"node {ended.node_id} has ended:\n{ended.log[-SHOWN_LOG_BYTES:]}")
        for client in self.clients:
            for each in client.differences:
                self.note_difference(each)

    def _await_ready(self, node: ClusterNode) -> None:
        try:
            node.wait_until_ready(PATIENCE_SECONDS)
        except BrokerStartError as error:
            self.note_difference(str(error))

    def check(self) -> None:
        try:
            if not self.figures.differences:
                self._check_records()
                self._check_metadata()
            self._check_logs()
        finally:
            self._operator.shutdown()

    def _check_records(self) -> None:
        for client in self.records:
            self.figures.differences += self._ask(lambda client=client: list(client.check_records()))

    def _check_metadata(self) -> None:
        quorum = self._ask(self._caught_up)
        self.figures.epochs = quorum.leader_epoch
        nodes = sorted(self.cluster.nodes.values(), key=lambda node: node.is_controller)  # brokers stop first
        for node in nodes:
            began = time.monotonic()
            if node.stop() not in (0, -signal.SIGTERM):  # the latter: it was just starting
                self.note_difference(f"node {node.node_id} did not stop cleanly:\n{node.log[-SHOWN_LOG_BYTES:]}")
            self.figures.longest_stop_seconds = max(self.figures.longest_stop_seconds, time.monotonic() - began)
        if self.figures.longest_stop_seconds > STOP_SECONDS:
            self.note_difference(f"a node took {self.figures.longest_stop_seconds:.1f} s to stop")
        replays = {node.node_id: replay(node.data_directory, quorum.high_watermark) for node in nodes}
        self.figures.differences += disagreements(replays)
        image = replays[nodes[0].node_id].image
        self.figures.differences += self.topics.check(image)
        self.figures.differences += self.settings.check(image)
        voters = {voter.node_id for voter in replays[nodes[0].node_id].voters}
        if voters != {voter.node_id for voter in self.cluster.voters}:
            self.note_difference(f"the voters are {sorted(voters)}")

    def _caught_up(self) -> QuorumDescription:
        """A description whose high watermark every node has reached."""
        with Cluster(self.cluster.bootstrap) as cluster:
            admin = QuorumAdmin(cluster)
            first = admin.describe()
            deadline = time.monotonic() + PATIENCE_SECONDS
            while time.monotonic() < deadline:
                time.sleep(SETTLING_SECONDS)
                now = admin.describe()
                ends = {each.node_id: each.log_end_offset for each in (*now.voters, *now.observers)}
                if all(ends.get(node_id, -1) >= first.high_watermark for node_id in self.cluster.nodes):
                    return first
        raise AssertionError(f"not every node has reached offset {first.high_watermark}: {ends}")

    def _check_logs(self) -> None:
        for node in self.cluster.nodes.values():
            log = node.log
            self.figures.log_lines += log.count("\n")
            at = log.find("Traceback")
            if at >= 0:
                self.note_difference(f"node {node.node_id} logged a traceback:\n{log[at : at + SHOWN_LOG_BYTES]}")


def run(
    directory: Path,
    seed: int,
    faults: int,
    progress: Progress | None = None,
    roles: Mapping[int, str] = ISOLATED_ROLES,
) -> ClusterFigures:
    with ProcessCluster(directory, roles, SETTINGS) as cluster:
        return ClusterFaults(cluster, seed, faults, progress).run()


def main() -> int:
    options = parser(__doc__, 200)
    options.add_argument("--keep", type=Path, help="a new directory that keeps data and logs")

    options.add_argument("--combined", action="store_true", help="three nodes that are controllers and brokers")

    def start(chosen: argparse.Namespace) -> ClusterFigures:
        roles = COMBINED_ROLES if chosen.combined else ISOLATED_ROLES
        if chosen.keep is not None:
            chosen.keep.mkdir(parents=True)
            return run(chosen.keep, chosen.seed, chosen.kills, print_progress, roles)
        with tempfile.TemporaryDirectory(prefix="tailrace-cluster-") as directory:
            return run(Path(directory), chosen.seed, chosen.kills, print_progress, roles)

    return run_program(options, start)


if __name__ == "__main__":
    raise SystemExit(main())
