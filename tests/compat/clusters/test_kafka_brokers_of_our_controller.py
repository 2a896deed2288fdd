"""Tailrace is the active controller of brokers and standby controllers of Apache Kafka.

Every record that it writes is replayed by three processes of Kafka, and one that they cannot apply ends them.
"""

from __future__ import annotations

import signal

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions

from support.kafka.cluster_clients import (
    admin_client,
    assert_no_lag,
    consume,
    create_topic,
    isr,
    leaders,
    produce,
    results,
)
from support.kafka.mixed_cluster import ClusterNode, KafkaNode, MixedCluster, TailraceNode, wait_for
from support.kafka.quorum_clients import leader
from support.kafka.tools import TOOLS, run_tool

pytestmark = [pytest.mark.compat, pytest.mark.long]

VALUES = sorted(f"value-{number}" for number in range(300))
SETTINGS = {
    "offsets_topic_replication_factor": "3",
    "broker_session_timeout_ms": "5000",
    "replica_lag_time_max_ms": "5000",
    "leader_imbalance_check_interval_seconds": "5",
}


def wait_for_isr(broker: ClusterNode, topic: str, members: set[int]) -> None:
    """As this broker knows it: a new client asks no other one, which may be paused."""

    def is_reached() -> bool:
        found = isr(admin_client(broker.broker_address), topic)
        return bool(found) and all(each == members for each in found)

    wait_for(is_reached, f"{topic} has the ISR {members}")


@pytest.mark.spec("RP-18", "RP-36")
def test_our_controller_leads_a_cluster_of_kafka(cluster: MixedCluster) -> None:
    voters = cluster.voters(1, 2, 3)
    ours = cluster.add(
        TailraceNode, 1, "controller", voters, **SETTINGS | {"controller_quorum_election_timeout_ms": "300"}
    )
    ours.start()
    for node_id, roles in ((2, "broker,controller"), (3, "broker,controller"), (4, "broker")):
        cluster.add(KafkaNode, node_id, roles, voters, **SETTINGS).start()
    brokers = [cluster.nodes[node_id] for node_id in (2, 3, 4)]
    for broker in brokers:
        broker.wait_until_serving()
    assert leader(cluster) is ours
    servers = ",".join(broker.broker_address for broker in brokers)
    admin = admin_client(servers)

    create_topic(admin, "t", [[2, 3, 4], [3, 4, 2], [4, 2, 3]], min_insync_replicas="2")
    produce(servers, "t", VALUES[:100])
    assert consume(servers, "t", 100, "first") == VALUES[:100]  # with __consumer_offsets of three replicas
    results(admin.create_partitions([NewPartitions("t", 4, replica_assignment=[[4, 3, 2]])]))
    results(admin.incremental_alter_configs([_settings("t", "retention.ms", "86400000")]))
    features = (TOOLS + "FeatureCommand", "--bootstrap-server", servers)
    assert "downgraded to 0" in run_tool(*features, "downgrade", "--feature", "share.version=0")[0]
    assert "upgraded to 1" in run_tool(*features, "upgrade", "--feature", "share.version=1")[0]

    brokers[2].kill()
    wait_for_isr(brokers[0], "t", {2, 3})
    produce(servers, "t", VALUES[100:200])
    brokers[2].start()
    brokers[1].signal(signal.SIGSTOP)
    wait_for_isr(brokers[0], "t", {2, 4})
    brokers[1].signal(signal.SIGCONT)
    wait_for_isr(brokers[0], "t", {2, 3, 4})
    wait_for(lambda: leaders(admin, "t") == {0: 2, 1: 3, 2: 4, 3: 4}, "preferred leaders are elected")
    brokers[0].stop()
    produce(servers, "t", VALUES[200:])
    brokers[0].start()
    wait_for_isr(brokers[0], "t", {2, 3, 4})
    assert consume(servers, "t", len(VALUES), "second") == VALUES

    create_topic(admin, "gone", [[3, 4]])
    results(admin.delete_topics(["gone"]))
    logs = [broker.folder / "log" for broker in brokers]
    wait_for(lambda: not any(list(log.glob("gone-?")) for log in logs), "the brokers rename the deleted logs")
    assert leader(cluster) is ours
    statuses = {node_id: each.status for node_id, each in assert_no_lag(servers).items()}
    assert statuses == {1: "Leader", 2: "Follower", 3: "Follower", 4: "Observer"}
    cluster.assert_healthy()


def _settings(topic: str, name: str, value: str) -> ConfigResource:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    return ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
