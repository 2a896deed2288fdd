"""What the exactly-once sink asks of a cluster before it trusts it: time, its topic of decisions, answers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

import tailrace
from support.spark.exactly_once_sink import Sink
from tailrace.client.admin import Admin
from tailrace.client.cluster import Cluster
from tailrace.client.errors import ConnectionLostError
from tailrace.client.outgoing import Identity
from tailrace.client.transaction_end import AnswerLostError
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.spark.errors import PipelineError
from tailrace.spark.sink.exactly_once.decision import (
    Epoch,
)
from tailrace.spark.sink.exactly_once.driver import (
    Plan,
)
from tailrace.spark.sink.exactly_once.effects import End, Look, Take
from tailrace.spark.sink.exactly_once.ledger import SETTINGS, TOPIC
from tailrace.spark.sink.exactly_once.names import driver_id
from tailrace.spark.sink.exactly_once.task import MOST_IDS, acquire


@pytest.fixture(scope="module")
def running() -> Iterator[str]:
    with tailrace.Broker({"transaction.max.timeout.ms": "120000"}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def sink(running: str) -> Sink:
    return Sink(running)


class TestTimes:
    @pytest.fixture
    def short(self) -> Iterator[str]:
        with tailrace.Broker({"transaction.max.timeout.ms": "30000"}) as broker:
            yield broker.bootstrap_servers

    def test_a_longest_timeout_that_is_too_short(self, short: str) -> None:
        with pytest.raises(PipelineError, match=r"30000 ms \(transaction\.max\.timeout\.ms\)"):
            Sink(short).open()

    def test_what_is_decided_can_be_ended(self, sink: Sink) -> None:
        """The decision's own time, the coordinator's scan, and the ends, one after the other."""
        with sink.open() as cluster:
            assert cluster.decision_ms == 15_000
            assert cluster.margin_ms(1000) >= 10_000 + 1000 * 20
            planned = sink.plan()
            grant = sink.write(planned, 0, b"x")
            seen = cluster.carry_out(Look((driver_id(sink.id), grant.id)))
            assert (seen[driver_id(sink.id)].timeout_ms, seen[grant.id].timeout_ms) == (15_000, 120_000)


class TestLedger:
    """The topic is there already, and not as the sink makes it."""

    @pytest.fixture
    def address(self) -> Iterator[str]:
        with tailrace.Broker() as broker:
            yield broker.bootstrap_servers

    def make(self, address: str, partitions: int = 8, **settings: str) -> None:
        configs = {**SETTINGS, **{name.replace("_", "."): value for name, value in settings.items()}}
        with Cluster(address) as cluster:
            Admin(cluster).create_topic(TOPIC, partitions=partitions, replication_factor=1, configs=configs)

    @pytest.mark.parametrize("policy", ["delete", "compact,delete"])
    def test_decisions_would_be_deleted(self, address: str, policy: str) -> None:
        self.make(address, cleanup_policy=policy)
        with pytest.raises(PipelineError, match=f"{TOPIC} .* cleanup.policy={policy}: it must be compact alone"):
            Sink(address).plan()

    def test_decisions_would_be_too_large(self, address: str) -> None:
        self.make(address, max_message_bytes="1048588")
        with pytest.raises(PipelineError, match=f"{TOPIC} .* max.message.bytes=1048588"):
            Sink(address).plan()

    def test_too_few_partitions(self, address: str) -> None:
        self.make(address, partitions=4)
        with pytest.raises(PipelineError, match=f"{TOPIC} .* has 4 partitions"):
            Sink(address).plan()

    def test_it_gets_partitions(self, address: str) -> None:
        sink = Sink(address)
        planned = sink.plan()
        grants = [sink.write(planned, partition, b"%d" % partition) for partition in range(2)]
        sink.commit_until(planned, 0, grants, End(grants[1].id, grants[1].identity, is_commit=True))
        with Cluster(address) as cluster:
            Admin(cluster).add_partitions(TOPIC, 64)
        assert sink.plan().is_done(Epoch("q", 0))
        assert sink.read() == [b"0", b"1"]


class TestLostAnswers:
    """A fresh id is asked for once: the request whose answer was lost may still come."""

    def test_another_id_is_made_up(self, sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
        planned = sink.plan()
        asked: list[str] = []
        real = Cluster.call

        def call(cluster: Cluster, request: Any, **how: Any) -> Any:
            answer = real(cluster, request, **how)
            if isinstance(request, InitProducerIdRequest) and not str(request.transactional_id).endswith("-claim"):
                asked.append(str(request.transactional_id))
                if len(asked) == 1:
                    raise ConnectionLostError("closed")
            return answer

        with monkeypatch.context() as patch:
            patch.setattr(Cluster, "call", call)
            grant = sink.write(planned, 0, b"x")
        assert len(set(asked)) == len(asked) == 2
        assert grant.id == asked[1]

    def test_not_for_ever(self) -> None:
        steps = acquire(Plan("s", Identity(1, 0), None, ()), 0, lambda: os.urandom(8))
        taken = next(steps)
        for _ in range(MOST_IDS - 1):
            assert steps.send(Identity(2, 0)) == Take(taken.id.removesuffix("-claim"), is_once=True)
            taken = steps.throw(AnswerLostError("lost"))
        steps.send(Identity(2, 0))
        with pytest.raises(AnswerLostError):
            steps.throw(AnswerLostError("lost"))
