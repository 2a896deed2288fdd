"""Tailrace is the third voter of a metadata quorum, beside two controllers of Apache Kafka.

A Kafka voter refuses pre-votes until its own fetch timeout has passed, so it usually wins after a kill. Tailrace wins
when it has more of the log: the other Kafka voter is paused during the last change.
"""

from __future__ import annotations

import signal

import pytest

from support.kafka.cluster_clients import assert_no_lag, quorum_replicas
from support.kafka.mixed_cluster import ClusterNode, KafkaNode, MixedCluster, TailraceNode, wait_for
from support.kafka.quorum_clients import change_setting, leader, wait_for_setting
from support.kafka.tools import TOOLS, run_tool

pytestmark = [pytest.mark.compat, pytest.mark.long]

CONTROLLERS = "--bootstrap-controller"


def is_kafka(node: ClusterNode) -> bool:
    return isinstance(node, KafkaNode)


def kafka_wins(cluster: MixedCluster, value: int) -> None:
    """After a kill of the leader, whichever it is."""
    victim = leader(cluster)
    victim.kill()
    leader(cluster, is_kafka)
    change_setting(cluster, value)
    victim.start()
    wait_for_setting(cluster, value)


def tailrace_wins(cluster: MixedCluster, value: int) -> None:
    """After a kill of a Kafka leader."""
    victim = leader(cluster, is_kafka)
    paused = next(node for node in cluster.nodes.values() if is_kafka(node) and node is not victim)
    paused.signal(signal.SIGSTOP)
    change_setting(cluster, value)
    change_setting(cluster, value + 1)  # the first one may wait in the socket of the paused process
    victim.kill()
    paused.signal(signal.SIGCONT)
    assert leader(cluster).node_id == 3
    victim.start()
    change_setting(cluster, value + 2)
    wait_for_setting(cluster, value + 2)


@pytest.mark.spec("RP-21")
@pytest.mark.by_hand
def test_either_side_wins_elections_of_static_voters(cluster: MixedCluster) -> None:
    voters = cluster.voters(1, 2, 3)
    for node_id, vendor in ((1, KafkaNode), (2, KafkaNode), (3, TailraceNode)):
        cluster.add(vendor, node_id, "controller", voters).start()
    change_setting(cluster, 1000)
    wait_for_setting(cluster, 1000)
    kafka_wins(cluster, 2000)
    tailrace_wins(cluster, 3000)
    assert len(assert_no_lag(cluster.controllers, CONTROLLERS)) == 3
    kafka_wins(cluster, 4000)  # after a kill of Tailrace
    cluster.nodes[1].stop()
    change_setting(cluster, 5000)
    cluster.nodes[1].start()
    wait_for_setting(cluster, 5000)
    replicas = assert_no_lag(cluster.controllers, CONTROLLERS)
    assert sorted(each.status for each in replicas.values()) == ["Follower", "Follower", "Leader"]
    cluster.assert_healthy()


def status_of(cluster: MixedCluster) -> dict[int, str]:
    replicas = quorum_replicas(leader(cluster).controller_address, CONTROLLERS)
    return {node_id: "Observer" if each.status == "Observer" else "Voter" for node_id, each in replicas.items()}


def add_controller(cluster: MixedCluster, node: ClusterNode) -> None:
    address = leader(cluster).controller_address
    run_tool(
        TOOLS + "MetadataQuorumCommand",
        "--command-config",
        str(node.properties),
        CONTROLLERS,
        address,
        "add-controller",
    )


def remove_controller(cluster: MixedCluster, node: ClusterNode) -> None:
    address, named = leader(cluster).controller_address, ["--controller-id", str(node.node_id)]
    named += ["--controller-directory-id", node.directory_id]
    run_tool(TOOLS + "MetadataQuorumCommand", CONTROLLERS, address, "remove-controller", *named)


@pytest.mark.spec("RP-21")
def test_voters_are_added_and_removed_on_either_side(cluster: MixedCluster) -> None:
    """With voters in the log. Tailrace joins a quorum of Kafka, leads it, changes it, is removed and returns."""
    first = cluster.initial_controllers(1, 2)
    for node_id in (1, 2):
        cluster.add(KafkaNode, node_id, "controller", first).start()
    ours = cluster.add(TailraceNode, 3, "controller", cluster.bootstrap_controllers(1, 2, 3))
    ours.start()
    change_setting(cluster, 1000)
    wait_for_setting(cluster, 1000)
    assert status_of(cluster) == {1: "Voter", 2: "Voter", 3: "Observer"}
    add_controller(cluster, ours)
    assert status_of(cluster) == {1: "Voter", 2: "Voter", 3: "Voter"}

    tailrace_wins(cluster, 2000)
    remove_controller(cluster, cluster.nodes[2])
    wait_for(lambda: status_of(cluster) == {1: "Voter", 2: "Observer", 3: "Voter"}, "node 2 is an observer")
    add_controller(cluster, cluster.nodes[2])
    assert status_of(cluster) == {1: "Voter", 2: "Voter", 3: "Voter"}

    remove_controller(cluster, ours)
    leader(cluster, is_kafka)
    change_setting(cluster, 4000)
    wait_for(lambda: status_of(cluster) == {1: "Voter", 2: "Voter", 3: "Observer"}, "node 3 is an observer")
    add_controller(cluster, ours)
    change_setting(cluster, 5000)
    wait_for_setting(cluster, 5000)
    replicas = assert_no_lag(cluster.controllers, CONTROLLERS)
    assert sorted(each.status for each in replicas.values()) == ["Follower", "Follower", "Leader"]
    cluster.assert_healthy()
