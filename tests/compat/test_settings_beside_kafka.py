"""A real Kafka describes its settings, and so do we from the same properties file: what differs is listed here."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.clients.raw_client import RawClient

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of kafka-python's use of importlib
    from golden.broker import Broker
    from support.kafka.client import free_port

from tailrace.config.describe import (
    Description,
    Layers,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from tailrace.config.log import LogConfig
from tailrace.config.properties import parse_properties
from tailrace.config.server import ServerConfig, server_keys
from tailrace.config.table import Effect
from tailrace.config.validation import BROKER, CLIENT_METRICS, GROUP, TOPIC
from tailrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tailrace.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

pytestmark = [pytest.mark.compat, pytest.mark.long]

STATIC = {"log.retention.hours": "5", "message.max.bytes": "2000000", "log.cleanup.policy": "compact, delete"}
FOR_ALL = {"log.retention.ms": "77", "log.cleaner.threads": "2", "leader.replication.throttled.rate": "9"}
FOR_ONE = {"message.max.bytes": "3000000", "max.connections": "99"}
OF_TOPIC = {"retention.ms": " 5", "cleanup.policy": "compact, delete", "preallocate": "TRUE"}

# These cannot be changed at run time here; everything else about them is the same.
FIXED_HERE = {"listeners", "listener.security.protocol.map", "config.providers"}
OURS = {"controller.quorum.fast.election.enable", "metrics.listener", "queued.max.request.bytes"}

Told = tuple[Any, ...]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kafka")


@pytest.fixture(scope="module")
def kafka(kafka_jars: None, folder: Path) -> Iterator[RawClient]:
    with Broker(folder, free_port(), STATIC) as broker, RawClient(broker.address) as client:
        topic = CreatableTopic(
            name="orders",
            num_partitions=1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in OF_TOPIC.items()],
        )
        made: Any = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=20_000), 7)
        assert made.topics[0].error_code == 0, made
        alter(client, "", FOR_ALL)
        alter(client, "1", FOR_ONE)
        for _ in range(100):  # the broker takes them a moment after the controller has
            if theirs(client, BROKER, "1")["message.max.bytes"][0] == FOR_ONE["message.max.bytes"]:
                break
            time.sleep(0.1)
        yield client


def alter(client: RawClient, name: str, settings: dict[str, str]) -> None:
    changes = [AlterableConfig(name=key, config_operation=0, value=value) for key, value in settings.items()]
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=name, configs=changes)
    answer: Any = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == 0, answer


@pytest.fixture(scope="module")
def config(kafka: RawClient, folder: Path) -> ServerConfig:
    config = ServerConfig.of(parse_properties((folder / "server.properties").read_bytes()))
    assert config.unknown == ()
    return config


@pytest.fixture(scope="module")
def layers(config: ServerConfig) -> Layers:
    # Kafka writes the first of them when it is formatted.
    return Layers(FOR_ONE, {"min.insync.replicas": "1", **FOR_ALL}, config.settings)


def theirs(client: RawClient, kind: int, name: str) -> dict[str, Told]:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    answer: Any = client.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4)
    assert answer.results[0].error_code == 0, answer
    return {
        each.name: (
            each.value,
            each.config_source,
            each.config_type,
            each.is_sensitive,
            [(other.name, other.value, other.source) for other in each.synonyms],
            each.read_only,
        )
        for each in answer.results[0].configs
    }


def ours(described: Iterable[Description]) -> dict[str, Told]:
    return {
        each.name: (
            each.value,
            each.source,
            each.kind,
            each.is_sensitive,
            [(other.name, other.value, other.source) for other in each.synonyms],
            each.is_read_only,
        )
        for each in described
    }


def differing(left: dict[str, Told], right: dict[str, Told]) -> dict[str, tuple[Told | None, Told | None]]:
    names = left.keys() | right.keys()
    return {name: (left.get(name), right.get(name)) for name in names if left.get(name) != right.get(name)}


def test_a_brokers_settings(kafka: RawClient, layers: Layers) -> None:
    left, right = theirs(kafka, BROKER, "1"), ours(describe_broker(layers))
    different = differing(left, right)
    for name in OURS:
        del different[name]
    for name, (told, tell) in different.items():
        assert told is not None, name
        assert tell is not None, name
        assert told[:-1] == tell[:-1], name
        assert name in FIXED_HERE or server_keys()[name].effect is Effect.REFUSED, name
    assert differing(theirs(kafka, BROKER, ""), ours(describe_cluster_default(layers))) == {}


def test_a_topics_settings(kafka: RawClient, layers: Layers) -> None:
    defaults = ServerConfig.of(layers.effective()).broker.topic_defaults
    described = describe_topic(layers, LogConfig.of(OF_TOPIC, defaults), OF_TOPIC)
    assert differing(theirs(kafka, TOPIC, "orders"), ours(described)) == {}


def test_settings_of_groups_and_subscriptions(kafka: RawClient, layers: Layers) -> None:
    assert differing(theirs(kafka, GROUP, "g"), ours(describe_group(layers, {}))) == {}
    assert differing(theirs(kafka, CLIENT_METRICS, "s"), ours(describe_client_metrics({}))) == {}
