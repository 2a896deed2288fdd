"""Garbage, silent and foreign nodes, ids in use and damaged snapshots: the rest of the cluster is unaffected.

A broker with the id of another one is in `test_nodes_of_a_cluster`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from support.universe.endpoints import End, Idle
from support.universe.node_cluster import (
    BROKERS,
    CONTROLLER_PORT,
    CONTROLLERS,
    Cluster,
    formatted,
    name_of,
    settings_of,
)
from tailrace.config.server import ServerConfig
from tailrace.metadata.versions import NEW_CLUSTER_FEATURES
from tailrace.model.errors import CorruptMetadataError
from tailrace.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from tailrace.raft.format import format_directories
from tailrace.sim.machine import Machine
from tailrace.sim.node_program import NodeProgram
from tailrace.sim.process import Process

GARBAGE = (
    b"GET / HTTP/1.1\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.2\r\n",
    b"\x16\3\1\2\0\1\0\1\xfc\3\3",  # TLS
    b"\0\0\0\x14" + bytes(20),
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
)
OTHER_CLUSTER = "another-cluster-000001"
ELSEWHERE = "elsewhere"


class Observed:
    """The nodes of a cluster, whose processes and epoch are to stay what they are."""

    def __init__(self, cluster: Cluster, *but: int) -> None:
        self._cluster = cluster
        self._ids = [each for each in (*CONTROLLERS, *BROKERS) if each not in but]
        self._before = self._state()

    def _state(self) -> tuple[list[Process | None], int | None, int]:
        active = self._cluster.active()
        assert active is not None
        processes = [self._cluster.machine(each).process for each in self._ids]
        return processes, active, self._cluster.node(active).quorum.epoch

    def check(self) -> None:
        assert self._state() == self._before
        assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[BROKERS[0]])
        topic = CreatableTopic(name="orders", num_partitions=-1, replication_factor=-1, assignments=[assignment])
        response = self._cluster.ask(BROKERS[0], CreateTopicsRequest(topics=[topic], timeout_ms=20_000), 7)
        assert response.topics[0].error_code == 0

        def is_everywhere() -> bool:
            return all("orders" in self._cluster.node(each).image.topics for each in self._ids)

        self._cluster.until(is_everywhere, "all nodes know the topic")


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(1)
    cluster.until(cluster.are_brokers_ready, "brokers are registered and unfenced")
    return cluster


def standby(cluster: Cluster) -> int:
    return next(each for each in CONTROLLERS if each != cluster.active())


def connected(machine: Machine, node_id: int) -> End:
    assert machine.process is not None
    end = End(machine)
    network = machine.process.env.network
    end.stream = network.connect(name_of(node_id), CONTROLLER_PORT, end, 10_000)  # type: ignore[assignment]
    return end


@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_on_a_controller_port(cluster: Cluster, garbage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    machine = cluster.universe.add_machine("stranger", Idle)
    machine.start()
    ends = [connected(machine, each) for each in CONTROLLERS]
    others = Observed(cluster)
    caplog.clear()
    for end in ends:
        end.stream.send([garbage])
    cluster.universe.run_for(1000)
    assert [end.events for end in ends] == [["connected", "CLOSED"]] * 3
    assert len(caplog.messages) == 3
    assert all("peer=stranger" in line and "next step: " in line for line in caplog.messages)
    others.check()


class Silent(Idle):
    """Accepts connections on the port of a controller, and never responds."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self.listener = process.listen(CONTROLLER_PORT, lambda _: End(process.machine))
        self.listener.open()


def test_a_controller_that_accepts_and_never_responds(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    silent = standby(cluster)
    machine = cluster.machine(silent)
    machine.restart_delay_ms = None
    machine.kill()
    machine.boot = Silent
    cluster.universe.run_for(1_000)
    others = Observed(cluster, silent)
    caplog.clear()
    machine.start()
    cluster.universe.run_for(60_000)
    lines = [line for line in caplog.messages if name_of(silent) in line]
    assert 1 <= len(lines) <= 10
    assert all("next step: " in line for line in lines)
    others.check()


def of_another_cluster(node_id: int, process: Process) -> NodeProgram:
    """A controller that has the voters of this cluster in its settings, and was formatted for another one."""
    features = NEW_CLUSTER_FEATURES
    format_directories(process.env, ["/data"], "/data", node_id, cluster_id=OTHER_CLUSTER, features=features)
    return elsewhere(node_id, process)


def twin(node_id: int, process: Process) -> NodeProgram:
    """Another controller with the same id and its own disk."""
    formatted(process.env, node_id)
    return elsewhere(node_id, process)


def elsewhere(node_id: int, process: Process) -> NodeProgram:
    settings = {"listeners": f"CONTROLLER://{ELSEWHERE}:{CONTROLLER_PORT}"}
    return NodeProgram(process, ServerConfig.of(settings_of(node_id) | settings))


def test_a_controller_of_another_cluster_is_refused(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    machine = cluster.universe.add_machine(ELSEWHERE, partial(of_another_cluster, standby(cluster)))
    others = Observed(cluster)
    caplog.clear()
    machine.start()
    cluster.universe.run_for(25_000)
    refused = [line for line in caplog.messages if "request of another node is refused" in line]
    refusing = [line for line in caplog.messages if "node refuses requests of the quorum" in line]
    assert 1 <= len(refused) <= 24
    assert all(OTHER_CLUSTER in line for line in refused)
    assert 1 <= len(refusing) <= 12
    assert all("error=INCONSISTENT_CLUSTER_ID: it belongs to another cluster, check " in line for line in refusing)
    others.check()


def test_two_controllers_with_one_id(cluster: Cluster) -> None:
    """With static voters nothing tells them apart. The one that no voter connects to changes nothing."""
    machine = cluster.universe.add_machine(ELSEWHERE, partial(twin, standby(cluster)))
    others = Observed(cluster)
    machine.start()
    cluster.universe.run_for(25_000)
    others.check()


def cut(machine: Machine, path: str) -> None:
    machine.disk.cut(path, len(machine.disk.inspect(path)) // 2)


def flip_a_bit(machine: Machine, path: str) -> None:
    machine.disk.flip_bit(path, 4 * len(machine.disk.inspect(path)))


@pytest.mark.parametrize("damage", [cut, flip_a_bit])
@pytest.mark.parametrize("is_broker", [False, True])
def test_a_damaged_snapshot_ends_its_node_alone(
    cluster: Cluster, damage: Callable[[Machine, str], None], is_broker: bool, caplog: pytest.LogCaptureFixture
) -> None:
    victim = BROKERS[1] if is_broker else standby(cluster)
    machine, node = cluster.machine(victim), cluster.node(victim)
    assert machine.process is not None
    machine.process.perform(lambda: node.quorum.snapshot(node.image.records(), lambda: None))
    cluster.universe.run_for(2_000)
    machine.restart_delay_ms = None
    machine.kill()
    snapshots = [path for path in machine.disk.paths() if "/__cluster_metadata-0/" in path and ".checkpoint" in path]
    damage(machine, max(snapshots))
    others = Observed(cluster, victim)
    caplog.clear()
    machine.start()
    cluster.universe.run_for(10_000)
    assert machine.process is None
    (*_, reason) = [event.text for event in cluster.universe.log.events if event.kind == "end"]
    assert max(snapshots) in reason
    if not is_broker:
        (line,) = [line for line in caplog.messages if "the metadata log has failed" in line]
        assert f"next step: {CorruptMetadataError.hint}" in line
    others.check()
