"""A node with real logs and replicas on a simulated machine; the controller is a stub."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from support.brokers.stub import CLUSTER_ID, StubNode, broker
from support.logs.builders import batch
from support.logs.managers import broker_config
from tailrace.broker.purgatory import Purgatory
from tailrace.config.server import ServerConfig
from tailrace.metadata.delta import MetadataDelta
from tailrace.protocol.message import Record
from tailrace.replication.partition import Partition
from tailrace.replication.replica_manager import ReplicaManager
from tailrace.storage.manager.log_directories import NodeIdentity
from tailrace.storage.manager.log_manager import LogManager
from tailrace.storage.warm import WarmSet


class LogNode(StubNode):
    """Broker 1, registered with the ids of its directories; `learn` brings its replicas to what the records say."""

    def __init__(self, directories: tuple[str, ...] = ("/a", "/b"), **settings: Any) -> None:
        super().__init__(**settings)
        self.purgatory = Purgatory(self.env.clock)
        identity = NodeIdentity(CLUSTER_ID, self.node_id)
        self.logs = LogManager(self.env, broker_config(directories), identity, WarmSet(50))
        self.logs.start(lambda: None)
        self.run()
        self.replicas = ReplicaManager(self.env, self.logs, self.node_id, ServerConfig())
        self.replicas.on_directory_differs.add(self._directory_differs)
        self.replicas.start()
        self.learn(broker(1, directories=self.directory_ids))

    def _directory_differs(self, partition: Partition, directory: Any) -> None:
        self.replica_directories.report(partition.topic_id, partition.index, directory.id)

    @property
    def directory_ids(self) -> list[bytes]:
        return [each.id for each in self.logs.directories if each.id is not None]

    def learn(self, *records: Record) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        if hasattr(self, "replicas"):
            self.replicas.apply(delta, self.image)
            self.run()

    def run(self) -> None:
        """All jobs, and what is due now."""
        jobs = self.world.jobs
        while jobs.pending or any(left <= 0 for _, left in jobs.waiting):
            jobs.run_all()
            jobs.tick()

    def pass_time(self, ms: int) -> None:
        self.world.jobs.tick(self.world.clock.now_ms() + ms)
        self.purgatory.expire_due(self.world.clock.monotonic_ms())
        self.run()

    def produce(self, topic: str, index: int = 0, *, timestamps: Sequence[int] = (1000,), **fields: Any) -> None:
        """One batch of one record for each timestamp."""
        partition = self.replicas.partition(topic, index)
        for timestamp in timestamps:
            (result,) = partition.append((batch(1, 100, timestamp=timestamp, **fields),), 1)
            assert result.error is None, result.error
