"""The steps of the exactly-once sink carried out on a broker, with rows of one topic."""

from __future__ import annotations

import os
import uuid

from tailrace.client.cluster import Cluster
from tailrace.client.consumer import Consumer
from tailrace.client.offsets import READ_COMMITTED
from tailrace.client.transaction_end import TransactionEnds
from tailrace.client.transactional_producer import TransactionalProducer
from tailrace.spark.sink.exactly_once.decision import (
    Epoch,
    Grant,
)
from tailrace.spark.sink.exactly_once.driver import (
    Plan,
    commit,
    plan,
)
from tailrace.spark.sink.exactly_once.effects import End
from tailrace.spark.sink.exactly_once.task import acquire
from tailrace.spark.sink.exactly_once.transactions import SinkCluster


class Sink:
    """A sink and a topic of its own."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.id = f"sink-{uuid.uuid4().hex[:8]}"
        self.topic = f"out-{self.id}"

    def open(self) -> SinkCluster:
        return SinkCluster(Cluster(self.address), self.id)

    def plan(self, accepted: int | None = None) -> Plan:
        with self.open() as sink:
            return sink.run(plan(self.id, accepted))

    def write(self, planned: Plan, partition: int, *values: bytes) -> Grant:
        with self.open() as sink:
            grant = sink.run(acquire(planned, partition, lambda: os.urandom(8)))
            producer = TransactionalProducer(sink.cluster, grant.id, transaction_timeout_ms=sink.timeout_ms)
            producer.adopt(grant.identity)
            producer.begin()
            for value in values:
                producer.send(self.topic, value)
            assert producer.hand_over() == grant.identity
            return grant

    def commit(self, planned: Plan, batch: int, *grants: Grant, query: str = "q", margin_ms: int = 1000) -> None:
        with self.open() as sink:
            sink.run(commit(planned, Epoch(query, batch), grants, margin_ms))

    def commit_until(self, planned: Plan, batch: int, grants: list[Grant], last: End, query: str = "q") -> None:
        """Cut off before this."""
        steps = commit(planned, Epoch(query, batch), grants, 1000)
        with self.open() as sink:
            effect = next(steps)
            while effect != last:
                effect = steps.send(sink.carry_out(effect))
        steps.close()

    def ends(self, cluster: Cluster) -> TransactionEnds:
        return TransactionEnds(cluster)

    def read(self) -> list[bytes]:
        """What is committed, up to the very end: nothing may be open."""
        values: list[bytes] = []
        with Cluster(self.address) as cluster, Consumer(cluster, isolation=READ_COMMITTED) as consumer:
            consumer.assign_topic(self.topic)
            with Consumer(cluster) as eager:
                eager.assign_topic(self.topic)
                ends = eager.ends()
            deadline = cluster.deadline(20)
            while any(at < ends[each] for each, at in consumer.positions.items()):
                deadline.check("reading what is committed")
                values += [bytes(record.value or b"") for run in consumer.poll(0.2) for record in run.records()]
        return sorted(values)
