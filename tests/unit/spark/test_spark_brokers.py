"""Pieces of partitions, and what the driver asks, from a broker of our own, also one that is killed and comes back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tailrace
from support.spark.piece_cases import OriginCases, PieceCases, fill, piece
from support.spark.pieces import batches_of, id_of, options_for, rows_of
from tailrace.client.cluster import Cluster
from tailrace.client.producer import Producer
from tailrace.model.ids import TopicPartition
from tailrace.spark.errors import PipelineError
from tailrace.spark.options.subscription import Topics
from tailrace.spark.source.brokers import BrokerOrigin, links


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with tailrace.Broker({"log.cleaner.backoff.ms": 10}) as broker:
        yield broker.bootstrap_servers
    links.POOL.close()


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    with Cluster(bootstrap) as cluster:
        yield cluster


class TestPieces(PieceCases):
    pass


class TestOrigin(OriginCases):
    pass


# Restarts


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_broker_that_restarts_is_waited_for(is_clean: bool) -> None:
    with tailrace.Broker() as broker, Cluster(broker.bootstrap_servers) as cluster:
        topic = broker.create_topic("orders", retention_ms=-1)
        with Producer(cluster) as producer:
            fill(producer, topic, range(2000))
        options = options_for(broker.bootstrap_servers, fetch_bytes=2000)
        found = batches_of(options, piece(topic, 0, 2000, id_of(cluster, topic)), rows_per_batch=10)
        offsets = next(found).to_pydict()["offset"]
        if is_clean:
            broker.stop()
        else:
            broker.kill()
        broker.launch()
        offsets += next(found).to_pydict()["offset"]
        broker.wait_until_ready()
        for batch in found:
            offsets += batch.to_pydict()["offset"]
        assert offsets == list(range(2000))
        broker.kill()
        broker.launch()  # a new task, whose link was idle meanwhile
        assert len(rows_of(options, piece(topic, 0, 2000))) == 2000
        links.POOL.close()
        broker.kill()
        broker.launch()  # a task in a worker that never talked to the broker before
        assert len(rows_of(options, piece(topic, 0, 2000))) == 2000
    links.POOL.close()


def test_a_broker_that_does_not_come_back() -> None:
    with tailrace.Broker() as broker, Cluster(broker.bootstrap_servers) as cluster:
        topic = broker.create_topic("orders", retention_ms=-1)
        with Producer(cluster) as producer:
            fill(producer, topic, range(2000))
        options = options_for(broker.bootstrap_servers, fetch_bytes=2000, poll_timeout_ms=500)
        found = batches_of(options, piece(topic, 0, 2000), rows_per_batch=10)
        next(found)
        broker.kill()
        with pytest.raises(PipelineError, match=rf"{topic}-0 cannot be read from offset \d+ on, .*:{broker.port}"):
            list(found)
    links.POOL.close()


def test_a_driver_asks_again_while_its_broker_restarts() -> None:
    with tailrace.Broker() as broker:
        topic = broker.create_topic("orders")
        origin = BrokerOrigin(options_for(broker.bootstrap_servers))
        assert len(origin.partitions(Topics((topic,)))) == 1
        broker.kill()
        broker.launch()
        assert len(origin.partitions(Topics((topic,)))) == 1
        broker.kill()
        broker.launch()
        assert len(origin.bounds([TopicPartition(topic, 0)])) == 1
        origin.close()
    links.POOL.close()


def test_a_driver_says_which_brokers_do_not_answer() -> None:
    pauses: list[float] = []
    options = options_for("127.0.0.1:1", fetch_retries=2, fetch_retry_interval_ms=30)
    origin = BrokerOrigin(options, pause=pauses.append)
    with pytest.raises(PipelineError, match=r"asking about t at 127\.0\.0\.1:1: no broker at 127\.0\.0\.1:1"):
        origin.partitions(Topics(("t",)))
    assert pauses == [0.03, 0.03]
    origin.close()
