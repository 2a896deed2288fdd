"""A follower's fetch counts once, when it arrives: while it waits in the purgatory the follower falls behind."""

from __future__ import annotations

import pytest
from silent_brokers import register_silent_broker

from support.brokers.simulated import SimBroker, SimClient, fetch_request
from support.logs.builders import batch
from tailrace.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from tailrace.replication.partition import Partition
from tailrace.replication.replica_state import ReplicaState

FOLLOWER = 2
MAX_LAG_MS = 30_000
FETCH_VERSION = 12


class Pair:
    """Broker 1 leads `pair`; the test fetches as broker 2."""

    def __init__(self) -> None:
        self.broker = SimBroker(broker_session_timeout_ms="600000").start()
        register_silent_broker(self.broker)
        self.client: SimClient = self.broker.client()
        self.follower: SimClient = self.broker.client()
        topic = CreatableTopic(
            name="pair",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1, FOLLOWER])],
        )
        (created,) = self.client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7).topics
        assert created.error_code == 0, created

    @property
    def partition(self) -> Partition:
        return self.broker.node.replicas.partition("pair", 0)

    @property
    def state(self) -> ReplicaState:
        return self.partition.followers[FOLLOWER]

    @property
    def now_ms(self) -> int:
        return self.broker.clock.monotonic_ms()

    @property
    def is_caught_up(self) -> bool:
        assert self.partition.log is not None
        return self.state.is_caught_up(self.partition.log.log_end_offset, self.now_ms, MAX_LAG_MS)

    def produce(self) -> None:
        assert self.client.produce("pair", batch(1, 100), acks=1).error_code == 0

    def post(self, offset: int, min_bytes: int, max_wait_ms: int = 60_000) -> int:
        fetch = fetch_request("pair", offset, max_wait_ms=max_wait_ms, min_bytes=min_bytes)
        fetch.replica_id = FOLLOWER
        return self.follower.post(fetch, FETCH_VERSION)

    def pass_time(self, ms: int) -> None:
        self.broker.universe.run_for(ms)
        self.broker.node.purgatory.expire_due(self.now_ms)


@pytest.mark.spec("RP-03", "RP-32")
def test_a_fetch_that_waits_is_not_a_new_fetch() -> None:
    pair = Pair()
    pair.post(0, min_bytes=1 << 20)
    fetched_ms, first = pair.now_ms, pair.state
    assert (first.end.offset, first.last_fetch_ms, first.last_caught_up_ms) == (0, fetched_ms, fetched_ms)
    for _ in range(3):
        pair.pass_time(10_000)
        pair.produce()
        assert not pair.follower.read(), "the fetch waits"
        assert pair.state == first
    assert pair.is_caught_up
    pair.pass_time(1)
    assert not pair.is_caught_up


@pytest.mark.spec("RP-03", "RP-10")
def test_the_response_to_a_fetch_that_waited_is_not_a_new_fetch() -> None:
    pair = Pair()
    correlation_id = pair.post(0, min_bytes=2 * len(batch(1, 100)))
    first = pair.state
    for _ in range(2):
        pair.pass_time(10_000)
        pair.produce()
    answer = pair.follower.read().pop(correlation_id)
    assert len(answer.responses[0].partitions[0].records) == 2 * len(batch(1, 100))
    assert pair.state == first
    pair.produce()
    pair.post(2, min_bytes=1 << 20)
    assert pair.state.end.offset == 2
    assert pair.state.last_caught_up_ms == first.last_fetch_ms, "the end of the log at the fetch before is reached"
    pair.pass_time(10_001)
    assert not pair.is_caught_up


@pytest.mark.spec("RP-10")
def test_a_fetch_that_expires_is_not_a_new_fetch() -> None:
    pair = Pair()
    correlation_id = pair.post(0, min_bytes=1 << 20, max_wait_ms=500)
    first = pair.state
    pair.produce()
    pair.pass_time(500)
    answer = pair.follower.read().pop(correlation_id)
    assert answer.responses[0].partitions[0].records
    assert pair.state == first


@pytest.mark.spec("RP-08", "RP-37")
def test_a_fetch_that_waits_commits_nothing() -> None:
    pair = Pair()
    pair.post(0, min_bytes=1 << 20)
    pair.produce()
    assert pair.partition.log is not None
    assert pair.partition.log.high_watermark == 0
    pair.post(1, min_bytes=1 << 20)
    assert pair.partition.log.high_watermark == 0, "a connection's requests are handled in order"
    pair.pass_time(60_000)
    pair.broker.run()
    assert pair.partition.log.high_watermark == 1
