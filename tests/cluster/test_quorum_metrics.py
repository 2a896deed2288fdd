"""Metrics of the metadata quorum on controllers and brokers of one cluster."""

from __future__ import annotations

from support.universe.node_cluster import BROKERS, CONTROLLERS, Cluster
from tailrace.metrics.gauge import Gauge


def raft_metrics(cluster: Cluster, node_id: int) -> dict[str, float]:
    found = [each for each in cluster.node(node_id).metrics.read() if isinstance(each, Gauge)]
    return {each.name: each.value for each in found if each.type == "raft-metrics"}


def test_every_node_has_metrics_of_the_quorum() -> None:
    cluster = Cluster(3)
    cluster.until(cluster.are_brokers_ready, "brokers are registered and unfenced")
    cluster.universe.run_for(3_000)
    leader = cluster.active()
    assert leader is not None
    found = {each: raft_metrics(cluster, each) for each in (*CONTROLLERS, *BROKERS)}
    for values in found.values():
        assert (values["current-leader"], values["number-of-voters"]) == (leader, 3)
        assert 0 < values["high-watermark"] <= values["log-end-offset"]
    assert {values["current-epoch"] for values in found.values()} == {cluster.node(leader).quorum.epoch}
    assert {each for each, values in found.items() if "number-of-observers" in values} == {leader}
    assert (found[leader]["number-of-observers"], found[leader]["number-of-voters-caught-up"]) == (2, 3)

    follower = next(each for each in CONTROLLERS if each != leader)
    cluster.machine(follower).restart_delay_ms = None
    cluster.machine(follower).kill()
    cluster.universe.run_for(6_000)
    values = raft_metrics(cluster, leader)
    assert (values["number-of-voters"], values["number-of-voters-caught-up"]) == (3, 2)
    cluster.machine(leader).restart_delay_ms = None
    cluster.machine(leader).kill()
    cluster.universe.run_for(6_000)
    (left,) = set(CONTROLLERS) - {leader, follower}
    before = raft_metrics(cluster, left)
    cluster.universe.run_for(6_000)
    assert raft_metrics(cluster, left)["high-watermark"] == before["high-watermark"]
    cluster.machine(follower).start()
    cluster.until(
        lambda: raft_metrics(cluster, left)["high-watermark"] > before["high-watermark"], "records are committed"
    )
