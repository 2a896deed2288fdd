"""A node that is a controller and no broker: it decides about a cluster whose brokers are other nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.brokers.simulated import CONTROLLER, SETTINGS, SimBroker, SimClient
from tailrace.broker.node import Node
from tailrace.config.server import ServerConfig
from tailrace.metadata.versions import SUPPORTED_FEATURES
from tailrace.model.errors import TailraceError
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tailrace.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.messages.describe_cluster import DescribeClusterRequest
from tailrace.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tailrace.raft.quorum import Quorum

INVALID_REPLICATION_FACTOR = 38


class SimController(SimBroker):
    LISTENERS = (CONTROLLER,)

    def config(self) -> ServerConfig:
        return replace(super().config(), process_roles=("controller",))

    def client(self, listener: Any = CONTROLLER) -> SimClient:
        return super().client(listener)


@pytest.fixture
def controller() -> SimController:
    controller = SimController()
    controller.start()
    return controller


def add_broker(controller: SimController, broker_id: int) -> int:
    """Registered and unfenced. Its epoch."""
    client = controller.client()
    features = [
        Feature(name=name, min_supported_version=first, max_supported_version=last)
        for name, (first, last) in SUPPORTED_FEATURES.items()
    ]
    request = BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=controller.node.cluster_id,
        incarnation_id=bytes([broker_id]) * 16,
        listeners=[Listener(name="PLAINTEXT", host="b", port=9092)],
        features=features,
        log_dirs=[bytes([200, broker_id]) * 8],
    )
    registered = controller.client().ask(request, 4)
    assert registered.error_code == 0
    epoch: int = registered.broker_epoch
    beat = BrokerHeartbeatRequest(
        broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=controller.node.image.offset
    )
    assert not client.ask(beat, 2).is_fenced
    return epoch


def create(client: SimClient, name: str, replicas: int = 1) -> int:
    topic = CreatableTopic(name=name, num_partitions=3, replication_factor=replicas)
    (result,) = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7).topics
    code: int = result.error_code
    return code


@pytest.mark.spec("RP-01")
def test_a_controller_decides_about_other_brokers(controller: SimController) -> None:
    client = controller.client()
    assert create(client, "t") == INVALID_REPLICATION_FACTOR
    for broker_id in (11, 12):
        add_broker(controller, broker_id)
    assert create(client, "t", 2) == 0
    partitions = controller.node.image.topics["t"].partitions
    assert {each.leader for each in partitions.values()} <= {11, 12}
    controller.pass_time(20_000)  # both are silent
    assert {each.leader for each in controller.node.image.topics["t"].partitions.values()} == {-1}


def test_it_has_its_state_after_a_restart(controller: SimController) -> None:
    add_broker(controller, 11)
    assert create(controller.client(), "t") == 0
    controller.stop()
    controller.start()
    assert "t" in controller.node.image.topics
    assert create(controller.client(), "u") == 0
    controller.lose_power()
    controller.start()
    assert {"t", "u"} <= controller.node.image.topics.keys()


def test_it_serves_the_controller_listener(controller: SimController) -> None:
    client = controller.client()
    versions = client.ask(ApiVersionsRequest(client_software_name="c", client_software_version="1"), 4)
    assert {row.api_key for row in versions.api_keys} >= {56, 58, 62, 63, 67, 70, 73}
    described = client.ask(DescribeClusterRequest(endpoint_type=2), 2)
    assert [each.broker_id for each in described.brokers] == [1]
    assert controller.node.why_not_ready() is None
    assert controller.node.partition_count == 0


@pytest.mark.parametrize("level", [0, 1])
def test_api_versions_have_the_version_of_the_quorum(
    controller: SimController, level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Quorum, "kraft_version", level)
    request = ApiVersionsRequest(client_software_name="c", client_software_version="1")
    levels = {each.name: each.max_version_level for each in controller.client().ask(request, 4).finalized_features}
    assert levels.get("kraft.version", 0) == level


def test_its_settings_change_at_run_time(controller: SimController) -> None:
    client = controller.client()
    config = AlterableConfig(name="log.cleaner.threads", config_operation=0, value="2")
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=4, resource_name="1", configs=[config])]
    )
    assert [each.error_code for each in client.ask(request, 1).responses] == [0]
    assert controller.node.config.broker.cleaner.log_cleaner_threads == 2
    asked = [DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=["log.cleaner.threads"])]
    (found,) = client.ask(DescribeConfigsRequest(resources=asked), 4).results
    assert [(each.name, each.value) for each in found.configs] == [("log.cleaner.threads", "2")]


def test_its_directory_belongs_to_one_process(controller: SimController) -> None:
    config = replace(ServerConfig.single_node(SETTINGS), process_roles=("controller",))
    with pytest.raises(TailraceError):
        Node(controller.node.env, config, 1000, lambda error: None).start((CONTROLLER,), lambda: None)


def test_its_metrics_are_those_of_a_controller(controller: SimController) -> None:
    found = {each.name for source in controller.node.metrics.sources() for each in source() if each is not None}
    assert "ActiveControllerCount" in found
    assert "NumGroups" not in found
