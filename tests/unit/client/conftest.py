"""A scripted broker, and a cluster that talks to it and never sleeps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.brokers.scripted import Pauses, ScriptedBroker
from tailrace.client.cluster import Cluster


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        yield broker


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
def cluster(broker: ScriptedBroker, pauses: Pauses) -> Iterator[Cluster]:
    with Cluster(broker.address, timeout_s=10, pause=pauses) as cluster:
        yield cluster
