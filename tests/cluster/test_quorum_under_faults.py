"""Quorums of drivers under random faults: what was acknowledged stays, and nothing is committed twice."""

from __future__ import annotations

import pytest

from suite.seeds import parametrized_seeds
from support.metadata.quorum_cluster import QuorumCluster
from support.metadata.quorum_faults import QuorumFaults


def run(seed: int, duration_ms: int) -> QuorumCluster:
    """An odd seed has dynamic voters; every fifth one a quorum of five, every third one an observer."""
    cluster = QuorumCluster(seed, 5 if seed % 5 == 4 else 3, int(seed % 3 == 2), is_dynamic=seed % 2 == 1)
    cluster.start()
    faults = QuorumFaults(cluster, seed)
    faults.run(duration_ms)
    cluster.heal()
    cluster.until(lambda: faults.wiped is None, "the wiped voter is replaced")
    cluster.finish()
    return cluster


@pytest.mark.spec("RP-21")
@parametrized_seeds(core=10, fresh=4)
def test_acknowledged_appends_survive_faults(seed: int) -> None:
    cluster = run(seed, 15_000)
    assert len(cluster.ledger.acked) > 5


@pytest.mark.long
@parametrized_seeds(core=20, fresh=20)
def test_acknowledged_appends_survive_many_faults(seed: int) -> None:
    run(seed, 120_000)
