"""Pieces of partitions, and what the driver asks, from a real Kafka, also one that is killed and started again."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

from support.kafka.tools import run_tool
from support.spark.piece_cases import OriginCases, PieceCases, fill, new_topic, piece
from support.spark.pieces import batches_of, id_of, options_for, rows_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of kafka-python's use of importlib
    from golden.broker import Broker
    from support.kafka.client import free_port
from tailrace.client.cluster import Cluster
from tailrace.client.producer import Producer
from tailrace.model.ids import TopicPartition
from tailrace.spark.source.brokers import BrokerOrigin, links

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.usefixtures("kafka_jars")]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka"), free_port()) as broker:
        yield broker
    links.POOL.close()


@pytest.fixture(scope="module")
def bootstrap(kafka: Broker) -> str:
    return kafka.address


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    with Cluster(bootstrap) as cluster:
        yield cluster


class TestPieces(PieceCases):
    pass


class TestOrigin(OriginCases):
    pass


def test_kafkas_own_tool_sees_no_lag(bootstrap: str, cluster: Cluster) -> None:
    topic = new_topic(cluster, "watched")
    with Producer(cluster) as producer:
        fill(producer, topic, range(120))
    origin = BrokerOrigin(options_for(bootstrap))
    origin.commit("watchers", {TopicPartition(topic, 0): 120})
    origin.close()
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    said, _ = run_tool(tool, "--bootstrap-server", bootstrap, "--describe", "--group", "watchers")
    (row,) = (line.split() for line in said.splitlines() if topic in line)
    assert row[:6] == ["watchers", topic, "0", "120", "120", "0"]


def test_a_kafka_that_was_killed_is_waited_for(kafka: Broker, bootstrap: str, cluster: Cluster) -> None:
    topic = new_topic(cluster, "orders")
    with Producer(cluster) as producer:
        fill(producer, topic, range(2000))
    options = options_for(bootstrap, fetch_bytes=2000)
    found = batches_of(options, piece(topic, 0, 2000, id_of(cluster, topic)), rows_per_batch=10)
    offsets = next(found).to_pydict()["offset"]
    kafka.kill()
    kafka.start()
    for batch in found:
        offsets += batch.to_pydict()["offset"]
    assert offsets == list(range(2000))
    assert len(rows_of(options, piece(topic, 0, 2000))) == 2000
