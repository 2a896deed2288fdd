"""A broker's replicas over a log manager on a simulated machine, fed with metadata records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from replicas import broker

from support.logs.builders import batch
from support.logs.managers import ManagedWorld
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.metrics.metrics import Metrics
from tailrace.model.ids import UNASSIGNED_DIRECTORY, DirectoryId, TopicPartition
from tailrace.protocol.message import Record
from tailrace.protocol.records.topics import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from tailrace.replication.replica_manager import ReplicaManager

CHECKPOINT_MS = 5000


class Settings(NamedTuple):
    replica_lag_time_max_ms: int = 30_000
    replica_high_watermark_checkpoint_interval_ms: int = CHECKPOINT_MS


def topic_id(number: int) -> bytes:
    return bytes([number]) * 16


def topic(
    name: str,
    number: int = 1,
    partitions: int = 1,
    *,
    replicas: Sequence[int] = (1,),
    leader: int = 1,
    directory: bytes = UNASSIGNED_DIRECTORY,
    epoch: int = 0,
) -> list[Record]:
    made = [
        PartitionRecord(
            partition_id=index,
            topic_id=topic_id(number),
            replicas=list(replicas),
            isr=list(replicas),
            leader=leader,
            leader_epoch=epoch,
            partition_epoch=0,
            directories=[directory] * len(replicas),
        )
        for index in range(partitions)
    ]
    return [TopicRecord(name=name, topic_id=topic_id(number)), *made]


def change(number: int = 1, index: int = 0, **fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(topic_id=topic_id(number), partition_id=index, **fields)


def removal(number: int = 1) -> RemoveTopicRecord:
    return RemoveTopicRecord(topic_id=topic_id(number))


class ReplicaWorld(ManagedWorld):
    """Broker 1. `applied` records are known again after a restart, as they are of the metadata log."""

    def __init__(self, directories: tuple[str, ...] = ("/a", "/b"), **changes: Any) -> None:
        super().__init__(directories, **changes)
        self.applied: list[Record] = []
        self.metrics = Metrics()
        self.start()
        self.begin()

    def begin(self) -> None:
        self.image = MetadataImage()
        self.image.brokers.update({each: broker(each) for each in (1, 2, 3)})
        self.metrics = Metrics()
        self.replicas = ReplicaManager(self.world.env, self.manager, 1, Settings(), self.metrics)
        self.replicas.start()

    def begin_again(self, power: bool = False) -> None:
        """A new process on the same disks, which reads the metadata from its beginning."""
        self.restart(power)
        self.begin()
        records, self.applied = self.applied, []
        self.apply(*records)

    def apply(self, *records: Record, run: bool = True) -> None:
        """In one delta."""
        self.applied += records
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.replicas.apply(delta, self.image)
        if run:
            self.run()

    def end(self) -> None:
        ended: list[bool] = []
        self.replicas.shutdown(lambda: ended.append(True))
        self.run()
        assert ended
        self.shutdown()

    def put(self, name: str, count: int = 1, index: int = 0) -> None:
        """Appends of one record each."""
        for _ in range(count):
            (result,) = self.replicas.partition(name, index).append((batch(1),), -1)
            assert result.error is None

    def stored(self, directory: str) -> dict[str, int]:
        """What the high watermark checkpoint of the directory holds."""
        path = f"{directory}/replication-offset-checkpoint"
        if not self.disk.exists(path):
            return {}
        lines = self.read(path).decode().splitlines()
        assert lines[0] == "0"
        assert int(lines[1]) == len(lines) - 2
        return {f"{name}-{index}": int(offset) for name, index, offset in map(str.split, lines[2:])}

    def directory(self, name: str, index: int = 0) -> str:
        found = self.manager.directory_of(TopicPartition(name, index))
        assert found is not None
        return found.path

    def directory_id(self, path: str) -> DirectoryId:
        found = self.manager.directories.at(path).id
        assert found is not None
        return found
