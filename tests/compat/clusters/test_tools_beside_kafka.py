"""Kafka's tools for features, quorums, brokers and settings print the same about Apache Kafka and about Tailrace.

Node 1 is a voter, node 2 a controller, which is a voter or can become one, and node 3 a broker.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.kafka.mixed_cluster import Clusters, KafkaNode, MixedCluster, TailraceNode, wait_for
from support.kafka.tool_comparison import Printed, printed, run_on_both

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.by_hand, pytest.mark.timeout(1800)]

OTHER_DIRECTORY, NO_DIRECTORY = "07R5amHmR32VDA6jHkGbTA", "AAAAAAAAAAAAAAAAAAAAAA"
FEATURES = (
    "features {servers} describe",
    "features {servers} downgrade --feature kraft.version=0",
    "features {servers} downgrade --feature kraft.version=0 --dry-run",
    "features {servers} downgrade --unsafe --feature kraft.version=0",
    "features {servers} downgrade --feature share.version=0 --feature kraft.version=0",
    "features {servers} disable --feature kraft.version",
    "features {servers} upgrade --feature kraft.version=0",
    "features {servers} upgrade --feature kraft.version=1",
    "features {servers} upgrade --feature kraft.version=1 --dry-run",
    "features {servers} upgrade --feature kraft.version=2",
    "features {servers} upgrade --feature nope=1",
    "features {servers} upgrade --release-version 4.3 --dry-run",
    "features {servers} downgrade --release-version 3.9 --dry-run",
    "features {servers} downgrade --unsafe --release-version 3.9 --dry-run",
    "features {servers} describe",
)
REMOVALS = (
    "quorum {servers} describe --status",
    "quorum {servers} describe --replication",
    "quorum {servers} remove-controller --controller-id 7 --controller-directory-id {directory1}",
    "quorum {servers} remove-controller --controller-id 7 --controller-directory-id {directory1} --dry-run",
    f"quorum {{servers}} remove-controller --controller-id 1 --controller-directory-id {OTHER_DIRECTORY}",
    f"quorum {{servers}} remove-controller --controller-id 1 --controller-directory-id {NO_DIRECTORY}",
    "quorum {servers} remove-controller --controller-id 1 --controller-directory-id nope",
    "quorum {servers} remove-controller --controller-id -1 --controller-directory-id {directory1}",
    "quorum {servers} remove-controller --controller-id 1 --controller-directory-id {directory1} --dry-run",
    "quorum {servers} remove-controller --controller-id 1 --controller-directory-id {directory1}",
    "quorum {servers} remove-controller --controller-id 1",
)
ADDITIONS = (
    "quorum {servers} add-controller",
    "quorum --command-config {properties1} {servers} add-controller",
    "quorum --command-config {properties1} {servers} add-controller --dry-run",
    "quorum --command-config {properties2} {servers} add-controller --dry-run",
    "quorum --command-config {properties3} {servers} add-controller",
    "quorum --command-config {properties2} --bootstrap-controller {controller1} add-controller",
    "quorum --command-config {properties2} --bootstrap-server {broker1} add-controller",
)
SECOND_CONTROLLER = (
    "quorum --bootstrap-controller {controller2} describe --status",
    "quorum --bootstrap-controller {controller2} describe --replication",
    "quorum --bootstrap-controller {controller2} remove-controller --controller-id 2"
    " --controller-directory-id {directory1}",
    "features --bootstrap-controller {controller2} describe",
    "features --bootstrap-controller {controller2} upgrade --feature kraft.version=1",
    "features --bootstrap-controller {controller2} downgrade --feature kraft.version=0",
    "cluster unregister --bootstrap-controller {controller2} --id 99",
    "quorum --bootstrap-controller {controller2} remove-controller --controller-id 2"
    " --controller-directory-id {directory2}",
    "quorum --bootstrap-controller {controller2} remove-controller --controller-id 2"
    " --controller-directory-id {directory2}",
    "quorum --bootstrap-server {controller1} describe --status",
    "quorum --bootstrap-controller {broker1} describe --status",
    "features --bootstrap-server {controller1} describe",
    "cluster unregister --bootstrap-controller {broker1} --id 99",
)
REGISTRATIONS = (
    "cluster cluster-id {servers}",
    "cluster list-endpoints {servers}",
    "cluster list-endpoints {servers} --include-fenced-brokers",
    "cluster unregister {servers}",
    "cluster unregister {servers} --id 99",
    "cluster unregister {servers} --id -1",
)
ENDPOINTS = "cluster list-endpoints --bootstrap-server {broker1} --include-fenced-brokers"
STATIC_VOTERS = (
    "features {servers} describe",
    "quorum {servers} describe --status",
    "quorum {servers} remove-controller --controller-id 2 --controller-directory-id {directory2}",
    "quorum --command-config {properties1} {servers} add-controller",
    "features {servers} upgrade --feature kraft.version=1 --dry-run",
    "features {servers} downgrade --feature kraft.version=0",
    "features {servers} upgrade --feature kraft.version=1",
    "features {servers} downgrade --feature kraft.version=0",
    "features {servers} describe",
    "quorum {servers} describe --status",
    "quorum --bootstrap-server {broker1} remove-controller --controller-id 2 --controller-directory-id {directory2}",
    "quorum --bootstrap-server {broker1} describe --status",
)
DEFAULTS = "--entity-type brokers --entity-default"
BROKER = "--entity-type brokers --entity-name"
TOPIC = "--entity-type topics --entity-name"
GROUP = "--entity-type groups --entity-name"
SETTINGS = (
    f"configs {{servers}} --describe {DEFAULTS}",
    f"configs {{servers}} --alter {DEFAULTS} --add-config log.retention.ms=86400000",
    f"configs {{servers}} --describe {DEFAULTS}",
    f"configs {{servers}} --alter {DEFAULTS} --delete-config log.retention.ms",
    f"configs {{servers}} --alter {DEFAULTS} --delete-config min.insync.replicas",
    f"configs {{servers}} --alter {BROKER} 1 --add-config log.cleaner.threads=2",
    # docs/compatibility.md, "Settings on the controller's listener"
    f"configs --bootstrap-server {{broker1}} --alter {BROKER} 1 --add-config broker.id=2",
    # with --bootstrap-server, the tool looks for this broker until it times out
    f"configs --bootstrap-controller {{controller1}} --alter {BROKER} 7 --add-config log.cleaner.threads=2",
    f"configs {{servers}} --describe {BROKER} 1",
    "configs {servers} --describe --entity-type brokers",
    f"configs {{servers}} --alter {TOPIC} nope --add-config retention.ms=1",
    f"configs {{servers}} --alter {TOPIC} nope --add-config nope=1",
    "configs {servers} --alter --entity-type topics --add-config retention.ms=1",
    f"configs {{servers}} --describe {TOPIC} nope",
    f"configs {{servers}} --describe {GROUP} nope",
    f"configs {{servers}} --alter {GROUP} g --add-config consumer.session.timeout.ms=50000",
    f"configs {{servers}} --describe {GROUP} g",
)
WAIT_SECONDS = 120
UNREGISTER = "cluster unregister --bootstrap-server {broker1} --id 3"


def start(clusters: Clusters) -> None:
    for cluster, vendor in zip(clusters, (KafkaNode, TailraceNode), strict=True):
        voters = cluster.initial_controllers(1)
        known = cluster.bootstrap_controllers(1)
        for node_id, roles, quorum in (
            (1, "broker,controller", voters),
            (2, "controller", known),
            (3, "broker", known),
        ):
            cluster.add(vendor, node_id, roles, quorum, broker_session_timeout_ms="4000").start()
    for cluster in clusters:
        cluster.nodes[1].wait_until_serving()
        cluster.nodes[3].wait_until_serving()
    wait_for_lines(clusters, "quorum --bootstrap-controller {controller1} describe --replication", are_observed)


def wait_for_lines(clusters: Clusters, command: str, are_there: Callable[[list[str]], bool]) -> None:
    def wait(cluster: MixedCluster) -> None:
        wait_for(lambda: are_there(printed(cluster, command).output), f"what is expected of {command}", WAIT_SECONDS)

    clusters.do(wait)


def are_observed(lines: list[str]) -> bool:
    return {f"{node_id} directory of {node_id} n n n n Observer" for node_id in (2, 3)} <= set(lines)


def is_listed(lines: list[str]) -> bool:
    return any("port of broker 3 null unfenced" in line for line in lines)


def is_fenced(lines: list[str]) -> bool:
    return any("port of broker 3 null fenced" in line for line in lines)


def assert_equal(found: list[tuple[Printed, Printed]]) -> None:
    different = [pair for pair in found if pair[0] != pair[1]]
    assert not different, "\n".join(f"{kafka.command}:\n  Kafka {kafka}\n  ours  {ours}" for kafka, ours in different)
    assert {each.exit_code for each, _ in found} == {0, 1}


@pytest.mark.spec("RP-21")
def test_tools_print_the_same(clusters: Clusters) -> None:
    start(clusters)
    found = run_on_both(clusters, (*FEATURES, *REMOVALS, *ADDITIONS, *SECOND_CONTROLLER, *REGISTRATIONS))
    clusters.do(lambda cluster: cluster.nodes[3].kill())
    wait_for_lines(clusters, ENDPOINTS, is_fenced)
    found += run_on_both(clusters, (ENDPOINTS, UNREGISTER, ENDPOINTS, UNREGISTER))
    clusters.do(lambda cluster: cluster.nodes[3].start())
    wait_for_lines(clusters, ENDPOINTS, is_listed)
    found += run_on_both(clusters, (ENDPOINTS, UNREGISTER))
    assert_equal(found)

    # docs/compatibility.md, "Registration of brokers"
    wait_for(lambda: is_listed(printed(clusters.ours, ENDPOINTS).output), "our broker registers again", WAIT_SECONDS)
    assert not is_listed(printed(clusters.kafka, ENDPOINTS).output)
    for cluster in clusters:
        cluster.assert_healthy()


@pytest.mark.spec("RP-21")
def test_tools_print_the_same_about_static_voters(clusters: Clusters) -> None:
    """Until kraft.version is upgraded, and then."""
    for cluster, vendor in zip(clusters, (KafkaNode, TailraceNode), strict=True):
        voters = cluster.voters(1, 2)
        cluster.add(vendor, 1, "broker,controller", voters).start()
        cluster.add(vendor, 2, "controller", voters).start()
    for cluster in clusters:
        cluster.nodes[1].wait_until_serving()
    assert_equal(run_on_both(clusters, STATIC_VOTERS))
    for cluster in clusters:
        cluster.assert_healthy()


def test_tools_print_the_same_about_settings(clusters: Clusters) -> None:
    for cluster, vendor in zip(clusters, (KafkaNode, TailraceNode), strict=True):
        cluster.add(vendor, 1, "broker,controller", cluster.initial_controllers(1)).start()
    for cluster in clusters:
        cluster.nodes[1].wait_until_serving()
    assert_equal(run_on_both(clusters, SETTINGS))
    for cluster in clusters:
        cluster.assert_healthy()
