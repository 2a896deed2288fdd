"""A partition on a simulated machine, led by broker 1, with followers that a test moves by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from support.logs.builders import CONFIG, TOPIC_ID, SimLog, batch
from tailrace.config.log import LogConfig
from tailrace.metadata.broker_registration import BrokerRegistration
from tailrace.metadata.partition_registration import PartitionRegistration
from tailrace.model.errors import StorageError, TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.model.offsets import LogOffsetMetadata
from tailrace.replication.known_brokers import KnownBrokers
from tailrace.replication.partition import Partition
from tailrace.replication.read_result import ReadResult
from tailrace.storage.append import AppendResult
from tailrace.storage.unified_log import UnifiedLog

PLACE = TopicPartition("orders", 2)
MAX_LAG_MS = 30_000


def broker(number: int, epoch: int = 10, **fields: Any) -> BrokerRegistration:
    return BrokerRegistration(number, epoch, bytes(16), **{"is_fenced": False, **fields})


def registered(
    replicas: Sequence[int] = (1,), isr: Sequence[int] | None = None, leader: int = 1, epoch: int = 0, version: int = 0
) -> PartitionRegistration:
    """`version` is the partition epoch."""
    return PartitionRegistration(
        tuple(replicas),
        tuple(replicas if isr is None else isr),
        leader,
        epoch,
        version,
        directories=(bytes(range(16)),) * len(replicas),
    )


class Led:
    """Broker 1's replica; the leader unless a test says otherwise."""

    def __init__(
        self,
        replicas: Sequence[int] = (1, 2, 3),
        isr: Sequence[int] | None = None,
        config: LogConfig = CONFIG,
        **registration: Any,
    ) -> None:
        self.sim = SimLog(config)
        self.clock = self.sim.world.clock
        self.brokers: dict[int, BrokerRegistration] = {each: broker(each) for each in replicas}
        self.unsaved: list[Partition] = []
        self.moves = 0
        self.partition = self.new()
        self.partition.use_log(self.log)
        self.partition.make_leader(registered(replicas, isr, **registration))

    def new(self) -> Partition:
        partition = Partition(
            PLACE, TOPIC_ID, 1, self.clock, KnownBrokers(self.brokers), self, MAX_LAG_MS, self.unsaved
        )
        partition.on_moved.add(self._moved)
        return partition

    def _moved(self, partition: Partition) -> None:
        assert partition is self.partition
        self.moves += 1

    @property
    def log(self) -> UnifiedLog:
        return self.sim.log

    def increment_log_start(
        self, partition: TopicPartition, offset: int, done: Callable[[], None], failed: Callable[[StorageError], None]
    ) -> None:
        """In the place of the log manager; durable when jobs have run."""
        assert partition == PLACE
        self.log.increment_log_start(offset)
        self.sim.world.jobs.run("checkpoint log starts", lambda: None, lambda _: done())

    def run_jobs(self) -> None:
        self.sim.world.jobs.run_all()

    def append(self, count: int = 1, acks: int = -1, **fields: Any) -> AppendResult:
        """One batch of `count` records."""
        (result,) = self.partition.append((batch(count, **fields),), acks)
        return result

    def fetched(self, replica: int, offset: int, start: int = 0, **options: Any) -> ReadResult:
        """The follower's log goes from `start` to `offset`."""
        return self.partition.read_as_follower(replica, offset, 1 << 20, log_start_offset=start, **options)

    def reported(self, replica: int, offset: int, start: int = 0, broker_epoch: int = 10) -> None:
        """The same without the read."""
        end = self.log.log_end_offset
        place = LogOffsetMetadata(offset)
        self.partition.update_follower(replica, place, start, leader_end=end, broker_epoch=broker_epoch)

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    def set_config(self, **changes: Any) -> None:
        self.log.use_config(replace(self.log.config, **changes))


def outcome_of(delete: Callable[..., None], offset: int) -> list[int | TailraceError]:
    """What a deletion of records has answered so far."""
    answers: list[int | TailraceError] = []
    delete(offset, answers.append, answers.append)
    return answers
