"""Fixtures of the tests with clusters of real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.kafka.killable import free_ports
from support.kafka.mixed_cluster import MixedCluster, mixed_cluster
from support.kafka.tools import why_silent, why_unavailable


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MixedCluster]:
    """It has no nodes yet. Skips where Kafka cannot run or cannot log; the reason is printed with the results."""
    reason = why_unavailable() or why_silent()
    if reason:
        pytest.skip(reason)
    with mixed_cluster(tmp_path, free_ports(60)) as nodes:
        yield nodes
