"""What a broker counts and shows: against a whole one in the simulator, and against the names a real Kafka has."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.brokers.simulated import SimBroker
from support.logs.builders import batch
from tailrace.broker.metrics import BROKER_METERS, LISTENER_METERS, TOPIC_METERS, BrokerMetrics
from tailrace.metrics.count import Count
from tailrace.metrics.distribution import Distribution
from tailrace.metrics.metrics import Metrics

OF_KAFKA = Path(__file__).with_name("mbeans-4.3.1.txt")
ONLY_HERE = {
    ("server", "socket-server-metrics", "connection-refused-total"),
    ("server", "raft-metrics", "number-of-voters-caught-up"),
    ("coordinator.group", "Consumer", "CommittedOffset"),
    ("coordinator.group", "Consumer", "Lag"),
    ("coordinator.group", "Consumer", "NotShown"),
}


def values(metrics: BrokerMetrics | Metrics) -> dict[tuple[str, ...], float]:
    """By name and the values of the tags, histograms by how many values they have."""
    if isinstance(metrics, BrokerMetrics):
        counters, metrics = metrics, Metrics()
        metrics.add(counters.read)
    found: dict[tuple[str, ...], float] = {}
    for sample in metrics.read():
        key = (sample.name, *(value for _, value in sample.tags))
        assert (sample.type, *key) not in found, "the same sample twice"
        found[key] = found[sample.type, *key] = sum(sample.counts) if isinstance(sample, Distribution) else sample.value
    return found


def test_topics_and_all_of_them_together() -> None:
    metrics = BrokerMetrics()
    orders, other = metrics.topic("orders"), metrics.topic("other")
    assert metrics.topic("orders") is orders
    metrics.produced(orders, 1000, 10)
    metrics.produced(other, 1, 1)
    metrics.produce_failed(orders)
    metrics.fetched(orders, 500)
    metrics.fetch_failed(other)
    seen = values(metrics)
    assert seen["MessagesInPerSec", "orders"] == 10
    assert seen["BytesInPerSec", "orders"] == 1000
    assert seen["TotalProduceRequestsPerSec", "orders"] == 2
    assert seen["FailedProduceRequestsPerSec", "orders"] == 1
    assert seen["BytesOutPerSec", "orders"] == 500
    assert seen["FailedFetchRequestsPerSec", "other"] == 1
    assert ("FailedFetchRequestsPerSec", "orders") not in seen
    assert (seen["MessagesInPerSec",], seen["BytesInPerSec",], seen["TotalFetchRequestsPerSec",]) == (11, 1001, 2)


def test_the_total_keeps_what_deleted_topics_had() -> None:
    metrics = BrokerMetrics()
    metrics.produced(metrics.topic("orders"), 1000, 10)
    metrics.forget_topic("orders")
    metrics.forget_topic("orders")
    seen = values(metrics)
    assert seen["BytesInPerSec",] == 1000
    assert ("BytesInPerSec", "orders") not in seen
    metrics.produced(metrics.topic("orders"), 1, 1)
    assert values(metrics)["BytesInPerSec",] == 1001


def test_requests_by_kind_and_version() -> None:
    metrics = BrokerMetrics()
    produce = metrics.api(0)
    assert metrics.api(0) is produce
    produce.requests[9] += 2
    produce.requests[13] += 1
    produce.total_time_us.record(1500)
    produce.failed(3)
    produce.failed(0)
    seen = values(metrics)
    assert seen["RequestsPerSec", "Produce", "9"] == 2
    assert seen["RequestsPerSec", "Produce", "13"] == 1
    assert seen["TotalTimeMs", "Produce"] == 1
    assert seen["ErrorsPerSec", "Produce", "NONE"] == 2
    assert seen["ErrorsPerSec", "Produce", "UNKNOWN_TOPIC_OR_PARTITION"] == 1
    assert not [key for key in seen if "Metadata" in key], "what nobody asked is not there"


def test_fetches_of_consumers_and_followers_and_together() -> None:
    metrics = BrokerMetrics()
    metrics.api(1).requests[17] += 1
    metrics.fetch(is_follower=True).requests[17] += 2
    metrics.fetch(is_follower=True).failed(6)
    metrics.fetch(is_follower=False).total_time_us.record(9)
    seen = values(metrics)
    assert [seen["RequestsPerSec", name, "17"] for name in ("FetchConsumer", "FetchFollower", "Fetch")] == [1, 2, 3]
    assert seen["ErrorsPerSec", "Fetch", "NOT_LEADER_OR_FOLLOWER"] == 1
    assert seen["TotalTimeMs", "Fetch"] == 1


@pytest.fixture(scope="module")
def busy() -> SimBroker:
    run = SimBroker().start()
    client = run.client()
    client.create_topic("orders", 2)
    assert client.produce("orders", batch(3)).error_code == 0
    assert client.fetch("orders", 0).error_code == 0
    run.node.counters.listener("PLAINTEXT").connections += 1
    return run


def test_a_broker_at_work_shows_it(busy: SimBroker) -> None:
    seen = values(busy.node.metrics)
    assert seen["BrokerState",] == 3
    assert seen["MessagesInPerSec", "orders"] == 3
    assert seen["TotalProduceRequestsPerSec", "orders"] == 1
    assert seen["BytesInPerSec", "orders"] == seen["BytesOutPerSec", "orders"] == seen["Size", "orders", "0"] > 0
    assert seen["RequestsPerSec", "Produce", "9"] == 1
    assert seen["RequestsPerSec", "FetchConsumer", "12"] == 1
    assert seen["RequestsPerSec", "CreateTopics", "7"] == 1
    assert seen["TotalTimeMs", "Produce"] == seen["TotalTimeMs", "Fetch"] == 1
    assert (seen["LogEndOffset", "orders", "0"], seen["LogEndOffset", "orders", "1"]) == (3, 0)
    assert (seen["LeaderCount",], seen["GlobalPartitionCount",], seen["ActiveControllerCount",]) == (2, 2, 1)


def test_names_and_tags_are_those_of_a_real_kafka(busy: SimBroker) -> None:
    lines = [line.split() for line in OF_KAFKA.read_text().splitlines() if not line.startswith("#")]
    known = {(*line[:3], frozenset(line[3].split(",")) if len(line) > 3 else frozenset()) for line in lines}
    for sample in busy.node.metrics.read():
        if (sample.group, sample.type, sample.name) not in ONLY_HERE:
            assert (sample.group, sample.type, sample.name, frozenset(tag for tag, _ in sample.tags)) in known
            assert sample.name.endswith(("PerSec", "-total", "FailureRate")) == isinstance(sample, Count), sample


def test_every_meter_is_shown(busy: SimBroker) -> None:
    names = {sample.name for sample in busy.node.metrics.read()}
    assert {*TOPIC_METERS.values(), *BROKER_METERS.values(), *LISTENER_METERS.values()} <= names
