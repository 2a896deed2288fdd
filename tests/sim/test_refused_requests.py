"""Requests that end badly for whoever sent them, and for nobody else. Hostile requests have found each of these."""

from __future__ import annotations

import gc
import weakref

import pytest

from support.brokers.simulated import SimBroker, produce_request
from support.logs.builders import batch
from tailrace.broker.produce_request import Share
from tailrace.protocol.frame import encode_request
from tailrace.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

TIMED_OUT = 7


def test_an_election_without_time_is_told_of_its_partitions_in_version_0() -> None:
    """Version 0 has no error of the whole answer."""
    broker = SimBroker().start()
    client = broker.client()
    client.create_topic("orders")
    asked = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="orders", partitions=[0])], timeout_ms=0)
    for version in (0, 1, 2):
        answer = client.ask(asked, version)
        assert answer.error_code == (TIMED_OUT if version else 0)
        assert answer.replica_election_results[0].partition_result[0].error_code == TIMED_OUT


def test_an_answer_that_its_version_cannot_say_closes_the_connection() -> None:
    """A name of bytes that are no text comes back three times as long as it came."""
    broker = SimBroker().start()
    client, other = broker.client(), broker.client()
    topics = [MetadataRequestTopic(name="x" * 30_000)]
    frame = b"".join(encode_request(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 8, 1, "sim"))
    client.write(frame.replace(b"x" * 30_000, b"\xff" * 30_000))
    broker.run()
    assert client.is_closed
    assert other.create_topic("orders").error_code == 0


@pytest.mark.parametrize("topic", ["orders", "nowhere"])
def test_a_refused_request_leaves_nothing_for_the_garbage_collector(
    topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that keeps the frames it came through keeps the records too, which may be many megabytes."""
    broker = SimBroker().start()
    client = broker.client()
    client.create_topic("orders")
    made: list[weakref.ref[Share]] = []

    class WatchedShare(Share):
        __slots__ = ("__weakref__",)

        def __init__(self, topic_place: int, index: int, records: memoryview | None) -> None:
            super().__init__(topic_place, index, records)
            made.append(weakref.ref(self))

    monkeypatch.setattr("tailrace.broker.produce_run.Share", WatchedShare)
    damaged = batch(1, 100)
    damaged[-1] ^= 0xFF
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):  # the second comes the short way of requests that are like the first
            assert client.ask(produce_request(topic, bytes(damaged)), 9).responses[0].partition_responses[0].error_code
        client.create_topic("more-orders")
        assert made
        assert [share() for share in made if share() is not None] == []
    finally:
        gc.enable()
