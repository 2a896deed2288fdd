"""Fixtures of the tests with clusters of real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.kafka.killable import free_ports
from support.kafka.mixed_cluster import Clusters, MixedCluster, mixed_cluster
from support.kafka.tools import why_silent

PORTS = 60
"""Of one cluster."""


@pytest.fixture
def folder(kafka_jars: None, tmp_path: Path) -> Path:
    """Of clusters. Skips where Kafka cannot log; the reason is printed with the results."""
    reason = why_silent()
    if reason:
        pytest.skip(reason)
    return tmp_path


@pytest.fixture
def cluster(folder: Path) -> Iterator[MixedCluster]:
    """It has no nodes yet."""
    with mixed_cluster(folder, free_ports(PORTS)) as nodes:
        yield nodes


@pytest.fixture
def clusters(folder: Path) -> Iterator[Clusters]:
    """Two that are compared with each other. They have no nodes yet."""
    first_port = free_ports(2 * PORTS)
    with (
        mixed_cluster(folder / "kafka", first_port) as kafka,
        mixed_cluster(folder / "ours", first_port + PORTS) as ours,
    ):
        yield Clusters(kafka, ours)
