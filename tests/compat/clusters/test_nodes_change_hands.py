"""The nodes of a cluster change hands between Tailrace and Apache Kafka: each starts what the other has written.

Kafka's tools read what is left: the metadata shell a snapshot, DumpLogSegments every log and snapshot.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.kafka.cluster_clients import admin_client, assert_no_lag, consume, create_topic, produce
from support.kafka.mixed_cluster import ClusterNode, KafkaNode, MixedCluster, TailraceNode, wait_for
from support.kafka.quorum_clients import change_setting, wait_for_setting
from support.kafka.tools import DUMP_TOOL, KAFKA_SCRIPT, run_tool

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.by_hand]

IDS = (1, 2, 3)
VALUES = sorted(f"value-{number}" for number in range(90))
LISTED = {"topic-0", "topic-1", "1", "2", "3"}
SETTINGS = {"metadata_log_max_snapshot_interval_ms": "5000", "broker_session_timeout_ms": "5000"}


@pytest.mark.spec("RP-21")
@pytest.mark.parametrize("has_static_voters", [True, False], ids=["static", "in-the-log"])
def test_nodes_change_hands(cluster: MixedCluster, has_static_voters: bool) -> None:
    quorum = cluster.voters(*IDS) if has_static_voters else cluster.initial_controllers(*IDS)
    vendors: list[type[ClusterNode]] = [KafkaNode, TailraceNode, KafkaNode]
    for turn in range(3):
        for node_id, vendor in zip(IDS, vendors, strict=True):
            cluster.add(vendor, node_id, "broker,controller", quorum, **SETTINGS).start()
        for node in cluster.nodes.values():
            node.wait_until_serving(turn // 2)
        serve(cluster, turn)
        cluster.nodes[1].stop()
        cluster.nodes[2].kill()
        cluster.nodes[3].kill()
        cluster.assert_no_complaints()
        vendors = [TailraceNode if vendor is KafkaNode else KafkaNode for vendor in vendors]
    for node in cluster.nodes.values():
        read_with_tools(node.metadata_log)


def serve(cluster: MixedCluster, turn: int) -> None:
    """The nodes agree on new metadata, and serve the records of this turn and of those before."""
    change_setting(cluster, 1000 + turn)
    wait_for_setting(cluster, 1000 + turn)
    servers = ",".join(node.broker_address for node in cluster.nodes.values())
    create_topic(admin_client(servers), f"topic-{turn}", [[node_id] for node_id in IDS])
    produce(servers, f"topic-{turn}", VALUES)
    for earlier in range(turn + 1):
        assert consume(servers, f"topic-{earlier}", len(VALUES), f"group-{turn}-{earlier}") == VALUES
    assert len(assert_no_lag(cluster.controllers, "--bootstrap-controller")) == len(IDS)


def read_with_tools(folder: Path) -> None:
    files = sorted([*folder.glob("*.log"), *folder.glob("*.checkpoint")])
    names = ",".join(map(str, files))
    output, errors = run_tool(DUMP_TOOL, "--cluster-metadata-decoder", "--files", names)
    assert output.count("Dumping ") == len(files)
    assert '"type":"TOPIC_RECORD"' in output
    assert "SnapshotFooter" in output
    assert "rror" not in output + errors
    snapshot = max(folder.glob("*.checkpoint"))
    wait_for(lambda: listed_by_shell(snapshot) >= LISTED, "the metadata shell lists topics and brokers")


def listed_by_shell(snapshot: Path) -> set[str]:
    """The shell does not always wait until it has loaded the whole snapshot."""
    command = ["shell", "--snapshot", str(snapshot), "ls", "/image/topics/byName", "/image/cluster/brokers"]
    return set(subprocess.run([str(KAFKA_SCRIPT), *command], check=True, capture_output=True, text=True).stdout.split())
