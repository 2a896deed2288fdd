"""Rows about clusters of three combined nodes: launch, memory, partitions created, failover of the controller.

One cluster is up at a time. A round forms a new cluster of each kind and takes all figures from it, the kind that
begins changing from round to round. A command is acknowledged when CreateTopics succeeds on any node.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peer_clusters import NODE_KINDS, ClusterNode, PeerCluster
from peer_row import Row
from tailrace.client.connection import Connection
from tailrace.client.errors import ClientError
from tailrace.model.errors import TailraceError
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tailrace.protocol.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from peer_rows import Bench

TOPIC_PARTITIONS = 100
PARTITIONS = 10_000
IDLE_S = 5.0
MAX_WAIT_S = 180.0
RETRY_S = 0.005
LATEST = -1


def clusters(bench: Bench) -> list[Row]:
    partitions = bench.plan.share(PARTITIONS)
    rows = [
        Row("cluster-launch", "cluster: launch to first acknowledged command", "s", 0.3, more_is_better=False),
        Row("cluster-rss-idle", "cluster: VmRSS of three nodes, idle", "MB", 0.1, more_is_better=False),
        Row("cluster-create", "cluster: create topics of 100 partitions", "partitions/s", 1.5, more_is_better=True),
        Row("cluster-rss", f"cluster: VmRSS with {partitions:,} partitions", "MB", 0.25, more_is_better=False),
        Row("cluster-failover", "cluster: kill -9 of the controller to next command", "s", 0.5, more_is_better=False),
    ]

    names = [kind.name for kind in bench.kinds]
    for number in range(bench.plan.rounds):
        figures: dict[int, tuple[float, ...]] = {}
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            folder = bench.folder / f"cluster-{number}-{side}"
            os.sync()
            try:
                figures[side], details = measured(NODE_KINDS[names[side]], folder, partitions)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            bench.plan.say(f"clusters: round {number + 1} of {bench.plan.rounds}: {names[side]}: {details}")
            rows[0].details.append({"side": names[side], **details})
        for index, row in enumerate(rows):
            row.rounds.append((figures[0][index], figures[1][index]))
    return rows


def measured(kind: type[ClusterNode], folder: Path, partitions: int) -> tuple[tuple[float, ...], dict[str, Any]]:
    """One figure per row, from a new cluster."""
    load_average = os.getloadavg()[0]
    with PeerCluster(kind, folder) as cluster:
        begin = time.monotonic()
        cluster.launch()
        launch_s = first_acknowledged(cluster.nodes, cluster, "launched") - begin
        time.sleep(IDLE_S)
        idle_mb = cluster.resident_mb()
        cpu_s = cluster.cpu_s()
        create_s = create_partitions(cluster, partitions)
        cpu_s = cluster.cpu_s() - cpu_s
        time.sleep(IDLE_S)
        full_mb = cluster.resident_mb()
        controller = cluster.active_controller()
        survivors = [node for node in cluster.nodes if node is not controller]
        begin = time.monotonic()
        controller.kill()
        failover_s = first_acknowledged(survivors, cluster, "failed-over") - begin
    details = {
        "launch_s": round(launch_s, 3),
        "idle_mb": round(idle_mb),
        "create_s": round(create_s, 2),
        "create_cpu_s": round(cpu_s, 2),
        "full_mb": round(full_mb),
        "failover_s": round(failover_s, 3),
        "load_average": round(load_average, 1),
    }
    return (launch_s, idle_mb, partitions / create_s, full_mb, failover_s), details


def first_acknowledged(nodes: Sequence[ClusterNode], cluster: PeerCluster, name: str) -> float:
    """When the first of the nodes acknowledged a new topic; each is asked again and again, until one has done so."""
    found: list[float] = []
    deadline = time.monotonic() + MAX_WAIT_S
    numbers = count()

    def ask(node: ClusterNode) -> None:
        connection: Connection | None = None
        while not found and time.monotonic() < deadline:
            try:
                connection = connection or Connection.open(node.address, timeout_s=10)
                if _is_created(connection, f"{name}-{next(numbers)}", 1):
                    found.append(time.monotonic())
                    break
            except (ClientError, TailraceError, OSError):
                connection = None
            time.sleep(RETRY_S)
        if connection is not None:
            connection.close()

    threads = [threading.Thread(target=ask, args=(node,), daemon=True) for node in nodes]
    for thread in threads:
        thread.start()
    while not found and any(thread.is_alive() for thread in threads):
        time.sleep(0.001)
    if not found:
        for node in nodes:
            node.check()
        raise TimeoutError(f"{cluster.kind} acknowledged no command within {MAX_WAIT_S:g} s")
    for thread in threads:
        thread.join()
    return min(found)


def _is_created(connection: Connection, topic: str, partitions: int) -> bool:
    wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
    response = connection.call(CreateTopicsRequest(topics=[wanted], timeout_ms=20_000), 30)
    return not response.topics[0].error_code


def create_partitions(cluster: PeerCluster, partitions: int) -> float:
    """Seconds until ListOffsets succeeds on each. One request per topic, on one connection, one after the other."""
    connection = Connection.open(cluster.nodes[0].address)
    topics = [f"created-{number}" for number in range(partitions // TOPIC_PARTITIONS)]
    begin = time.monotonic()
    for topic in topics:
        if not _is_created(connection, topic, TOPIC_PARTITIONS):
            raise RuntimeError(f"{cluster.kind} did not create {topic}")
    leaders = _leaders(connection, topics)
    connection.close()
    with ThreadPoolExecutor(len(cluster.nodes)) as pool:
        list(pool.map(lambda node: _list_offsets(node, leaders.get(node.node_id, {})), cluster.nodes))
    return time.monotonic() - begin


def _leaders(connection: Connection, topics: list[str]) -> dict[int, dict[str, set[int]]]:
    """Partitions by topic, by the node that leads them. Waits until the node knows of all of them."""
    deadline = time.monotonic() + MAX_WAIT_S
    while time.monotonic() < deadline:
        response = connection.call(MetadataRequest(topics=None), 60)
        found: dict[int, dict[str, set[int]]] = {}
        for topic in response.topics:
            for partition in topic.partitions if topic.name in topics else ():
                by_topic = found.setdefault(partition.leader_id, {})
                by_topic.setdefault(topic.name, set()).add(partition.partition_index)
        known = sum(len(partitions) for by_topic in found.values() for partitions in by_topic.values())
        if known == len(topics) * TOPIC_PARTITIONS and -1 not in found:
            return found
        time.sleep(RETRY_S)
    raise TimeoutError("a node does not know of all partitions")


def _list_offsets(node: ClusterNode, wanted: dict[str, set[int]]) -> None:
    """Ask until all have succeeded; only the others again."""
    connection = Connection.open(node.address)
    deadline = time.monotonic() + MAX_WAIT_S
    while wanted:
        if time.monotonic() > deadline:
            raise TimeoutError(f"node {node.node_id} does not lead {len(wanted)} topics")
        request = ListOffsetsRequest(replica_id=-1)
        for topic, partitions in wanted.items():
            rows = [ListOffsetsPartition(partition_index=each, timestamp=LATEST) for each in sorted(partitions)]
            request.topics.append(ListOffsetsTopic(name=topic, partitions=rows))
        response = connection.call(request, 60)
        left = {
            topic.name: {each.partition_index for each in topic.partitions if each.error_code}
            for topic in response.topics
        }
        wanted = {topic: partitions for topic, partitions in left.items() if partitions}
        if wanted:
            time.sleep(RETRY_S)
    connection.close()
