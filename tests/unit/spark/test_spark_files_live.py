"""The directory of a broker of ours, read while it is at work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tailrace
from support.spark.live_directories import SETTINGS, LiveDirectoryCases
from tailrace.client.cluster import Cluster


@pytest.fixture(scope="module")
def live() -> Iterator[tailrace.Broker]:
    with tailrace.Broker(SETTINGS) as broker:
        yield broker


@pytest.fixture
def directory(live: tailrace.Broker) -> Path:
    return live.data_dir


@pytest.fixture
def cluster(live: tailrace.Broker) -> Iterator[Cluster]:
    with Cluster(live.bootstrap_servers) as cluster:
        yield cluster


class TestLiveDirectory(LiveDirectoryCases):
    pass
