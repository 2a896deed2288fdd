"""Clusters of real processes: what changes when a process is killed, paused or cut off, and what does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from support.clusters.process_cluster import COMBINED_ROLES, ISOLATED_ROLES, ProcessCluster
from tailrace.client.admin import Admin
from tailrace.client.cluster import Cluster
from tailrace.client.consumer import Consumer
from tailrace.client.producer import Producer
from tailrace.client.quorum_admin import QuorumAdmin, QuorumDescription
from tailrace.model.ids import TopicPartition

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]

T = TypeVar("T")


class Operator:
    """An administrator at the clients' host."""

    def __init__(self, cluster: ProcessCluster, thread: ThreadPoolExecutor) -> None:
        self._cluster = cluster
        self._thread = thread

    def perform(self, work: Callable[[], T]) -> T:
        """On a thread of the clients' host."""
        return self._thread.submit(work).result()

    def create_topic(self, name: str) -> None:
        assignment = {number: [node.node_id] for number, node in enumerate(self._cluster.brokers)}

        def create() -> None:
            with Cluster(self._cluster.bootstrap) as cluster:
                Admin(cluster).create_topic(name, assignment=assignment)

        self.perform(create)

    def topics(self) -> set[str]:
        def ask() -> set[str]:
            with Cluster(self._cluster.bootstrap) as cluster:
                return {topic.name for topic in Admin(cluster).topics()}

        return self.perform(ask)

    def quorum(self) -> QuorumDescription:
        def ask() -> QuorumDescription:
            with Cluster(self._cluster.bootstrap) as cluster:
                return QuorumAdmin(cluster).describe()

        return self.perform(ask)


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ProcessCluster]:
    """Three controllers and two brokers, or the roles of a parameter."""
    with ProcessCluster(tmp_path, getattr(request, "param", ISOLATED_ROLES)) as cluster:
        cluster.start()
        yield cluster


@pytest.fixture
def operator(cluster: ProcessCluster) -> Iterator[Operator]:
    with ThreadPoolExecutor(1, initializer=cluster.network.enter) as thread:
        yield Operator(cluster, thread)


@pytest.mark.spec("RP-21")
@pytest.mark.parametrize("cluster", [ISOLATED_ROLES, COMBINED_ROLES], ids=["isolated", "combined"], indirect=True)
def test_commands_are_decided_after_each_fault_of_the_active_controller(
    cluster: ProcessCluster, operator: Operator
) -> None:
    operator.create_topic("before")
    leader = cluster.node(operator.quorum().leader_id)
    leader.kill()
    operator.create_topic("after-kill")
    leader.start()
    leader = cluster.node(operator.quorum().leader_id)
    leader.pause()
    operator.create_topic("after-pause")
    leader.resume()
    leader = cluster.node(operator.quorum().leader_id)
    if not leader.is_broker:  # clients still reach such a broker, and wait for it
        cluster.split({leader.node_id})
    operator.create_topic("after-partition")
    cluster.heal()
    assert operator.topics() == {"before", "after-kill", "after-pause", "after-partition"}
    for node in cluster.nodes.values():
        assert node.stop() == 0
        assert "Traceback" not in node.log


@pytest.mark.spec("RP-41")
def test_clients_follow_a_broker_to_another_machine(cluster: ProcessCluster, operator: Operator) -> None:
    operator.create_topic("orders")
    broker = cluster.brokers[0]
    partition = TopicPartition("orders", 0)

    def work() -> list[bytes]:
        with Cluster(cluster.bootstrap) as found, Producer(found) as producer, Consumer(found) as consumer:
            consumer.assign([partition])
            producer.send("orders", b"before", partition=0)
            producer.flush()
            records = [record for run in consumer.poll(10) for record in run.records()]
            assert broker.stop() == 0
            cluster.move(broker.node_id, "another-machine")
            broker.start()
            producer.send("orders", b"after", partition=0)
            producer.flush()
            while len(records) < 2:
                records += [record for run in consumer.poll(10) for record in run.records()]
            assert str(found.brokers[broker.node_id].address) == broker.settings["advertised.listeners"][12:]
            return [bytes(record.value or b"") for record in records]

    assert operator.perform(work) == [b"before", b"after"]
