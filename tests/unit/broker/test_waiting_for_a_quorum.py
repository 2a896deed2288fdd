"""A process that waits for the metadata quorum logs what for, at growing intervals, until it has one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tailrace.broker.main import WAITING_LINE_S, BrokerProcess
from tailrace.broker.metrics import BrokerState
from tailrace.config.server import ServerConfig

SETTINGS = {
    "process.roles": "broker",
    "node.id": "11",
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "controller-1:9093,controller-2:9093",
}


def test_lines_of_a_node_without_a_quorum(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    process = BrokerProcess(ServerConfig.of(SETTINGS | {"log.dirs": str(tmp_path)}), lambda _: None)
    node = process._node
    node.metadata.quorum = SimpleNamespace(voters=())  # type: ignore[assignment]
    node.counters.broker_state = BrokerState.STARTING
    for waited_s in range(WAITING_LINE_S, 2_000, WAITING_LINE_S):
        process._log_waiting(waited_s)
    lines = [each.message for each in caplog.records]
    seconds = [line.partition("seconds=")[2].partition(" ")[0] for line in lines]
    assert seconds == ["8", "16", "32", "64", "128", "256", "512", "1024", "1536"]
    assert "other_controllers=controller-1:9093, controller-2:9093: a majority of the voters must run" in lines[0]
    node.counters.broker_state = BrokerState.RECOVERY
    process._log_waiting(2048)
    assert len(caplog.records) == len(lines)
    process._network.close()
    process._reactor.close()
