"""Timeouts of requests that wait for replicas: they are for other brokers, not for the leader's own disk."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from silent_brokers import register_silent_broker

from support.brokers.simulated import SimBroker, SimClient, produce_request
from support.logs.builders import batch
from tailrace.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tailrace.replication.isr_state import Committed
from tailrace.storage.appender import Appender

TIMED_OUT = 7
TIMEOUT_MS = 1000  # of `produce_request`


@pytest.fixture
def client() -> SimClient:
    """Of a broker that leads `pair`, whose follower never fetches, and `flushed`, whose appends wait for the disk."""
    broker = SimBroker().start()
    register_silent_broker(broker)
    client = broker.client()
    for name, brokers in (("pair", [1, 2]), ("flushed", [1]), ("flushed-pair", [1, 2])):
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=brokers)],
            configs=[CreatableTopicConfig(name="flush.messages", value="1")] if "flushed" in name else [],
        )
        (created,) = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7).topics
        assert created.error_code == 0, created
    return client


def expire(client: SimClient, ms: int = TIMEOUT_MS) -> None:
    """Let time pass while the disk does nothing."""
    broker = client._broker
    broker.universe.run_for(ms)
    broker.node.purgatory.expire_due(broker.clock.monotonic_ms())


def results(response: Any) -> dict[str, tuple[int, int]]:
    """Error code and base offset by topic."""
    return {
        topic.name: (part.error_code, part.base_offset)
        for topic in response.responses
        for part in topic.partition_responses
    }


def to(*topics: str, acks: int = -1, timeout_ms: int = TIMEOUT_MS) -> Any:
    request = produce_request(topics[0], batch(1, 100), acks=acks)
    request.timeout_ms = timeout_ms
    for name in topics[1:]:
        request.topic_data += produce_request(name, batch(1, 100)).topic_data
    return request


@pytest.mark.spec("RP-08")
def test_a_produce_that_replicas_do_not_acknowledge_in_time_says_so(client: SimClient) -> None:
    asked = client.post(to("pair"), 9)
    client._broker.run()
    expire(client, TIMEOUT_MS - 1)
    assert asked not in client.read()
    expire(client, 1)
    assert results(client.read().pop(asked)) == {"pair": (TIMED_OUT, 0)}
    log = client._broker.node.replicas.partition("pair", 0).log
    assert log is not None
    assert log.log_end_offset == 1, "it was written all the same"


@pytest.mark.spec("RP-08")
def test_a_produce_that_times_out_returns_the_time_of_the_append(client: SimClient) -> None:
    """Kafka changes only the error of a batch that is written but not acknowledged."""
    broker = client._broker
    log = broker.node.replicas.partition("pair", 0).log
    assert log is not None
    log.use_config(replace(log.config, message_timestamp_type="LogAppendTime"))
    appended_ms = broker.clock.now_ms()
    asked = client.post(to("pair"), 9)
    expire(client)
    (topic,) = client.read().pop(asked).responses
    (part,) = topic.partition_responses
    assert (part.error_code, part.base_offset, part.log_append_time_ms) == (TIMED_OUT, 0, appended_ms)


@pytest.mark.spec("RP-08")
@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("timeout_ms", [0, -1, 1, TIMEOUT_MS])
def test_a_flush_of_the_leader_is_not_part_of_the_timeout(client: SimClient, timeout_ms: int, acks: int) -> None:
    asked = client.post(to("flushed", acks=acks, timeout_ms=timeout_ms), 9)
    expire(client)
    assert asked not in client.read(), "the sync has not begun"
    client._broker.run()
    assert results(client.read().pop(asked)) == {"flushed": (0, 0)}
    assert len(client._broker.node.purgatory) == 0


@pytest.mark.spec("RP-08")
def test_a_flush_does_not_hide_that_replicas_are_late(client: SimClient) -> None:
    asked = client.post(to("flushed-pair"), 9)
    expire(client)
    assert results(client.read().pop(asked)) == {"flushed-pair": (TIMED_OUT, 0)}


@pytest.mark.spec("RP-08")
def test_replicas_that_leave_the_isr_after_the_timeout_are_not_waited_for(client: SimClient) -> None:
    partition = client._broker.node.replicas.partition("flushed-pair", 0)
    assert partition.log is not None
    partition.log.use_config(replace(partition.log.config, min_insync_replicas=2))
    asked = client.post(to("flushed-pair"), 9)
    partition.update_follower(2, partition.log.local.end, 0, leader_end=1)
    expire(client)
    assert asked not in client.read(), "the sync has not begun"
    partition.change_isr(Committed(frozenset({1})))
    client._broker.run()
    assert results(client.read().pop(asked)) == {"flushed-pair": (TIMED_OUT, 0)}
    assert len(client._broker.node.purgatory) == 0


@pytest.mark.spec("RP-08")
@pytest.mark.parametrize("is_late", [False, True])
def test_a_flush_that_does_not_cover_the_append_ends_the_wait(
    client: SimClient, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    """The recovery point does not pass a transaction that is missing in its index, as on a full disk."""
    monkeypatch.setattr(Appender, "first_unfinished", 0)
    asked = client.post(to("flushed"), 9)
    if not is_late:
        client._broker.run()
    expire(client)
    client._broker.run()
    assert results(client.read().pop(asked)) == {"flushed": (TIMED_OUT, 0)}
    assert len(client._broker.node.purgatory) == 0


@pytest.mark.spec("RP-08")
def test_partitions_that_are_acknowledged_do_not_time_out_with_others(client: SimClient) -> None:
    asked = client.post(to("pair", "flushed"), 9)
    expire(client)
    assert asked not in client.read(), "the sync has not begun"
    client._broker.run()
    assert results(client.read().pop(asked)) == {"pair": (TIMED_OUT, 0), "flushed": (0, 0)}


def test_a_client_that_leaves_is_not_waited_for(client: SimClient) -> None:
    client.post(to("flushed"), 9)
    expire(client)
    client.leave()
    assert len(client._broker.node.purgatory) == 0
    client._broker.run()
