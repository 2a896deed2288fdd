"""`tailrace.Broker` with the real server: what its tests with a stand-in cannot show."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tailrace
from tailrace.client.admin import Admin
from tailrace.client.cluster import Cluster
from tailrace.testing.broker import BrokerStartError

PARENT = """
import sys, time, tailrace
broker = tailrace.Broker()
broker.start()
print(broker.pid, broker.data_dir, flush=True)
time.sleep(60)
"""


def partitions_of(broker: tailrace.Broker) -> dict[str, int]:
    with Cluster(broker.bootstrap_servers) as cluster:
        return {topic.name: len(topic.partitions) for topic in Admin(cluster).topics()}


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_topics_are_there_after_a_restart(end: str) -> None:
    with tailrace.Broker({"num.partitions": 2}) as broker:
        assert broker.create_topic("orders", partitions=3, retention_ms=60_000) == "orders"
        getattr(broker, end)()
        broker.start()
        assert partitions_of(broker) == {"orders": 3}


def test_a_directory_is_taken_over_by_another_broker(tmp_path: Path) -> None:
    with tailrace.Broker(data_dir=tmp_path / "data") as broker:
        broker.create_topic("orders")
    with tailrace.Broker(data_dir=tmp_path / "data") as broker:
        assert partitions_of(broker) == {"orders": 1}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"num.partitions": "several"}, "num.partitions"),
        ({"listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT"}, "SSL"),
    ],
    ids=["wrong value", "security"],
)
def test_a_wrong_setting_is_named(settings: dict[str, str], said: str) -> None:
    with pytest.raises(BrokerStartError, match=said), tailrace.Broker(settings):
        pass


def test_the_server_dies_with_a_parent_that_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid, data_dir = parent.stdout.readline().split()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 20
    while os.path.exists(f"/proc/{pid}"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert not os.path.exists(data_dir)
