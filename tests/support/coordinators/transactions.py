"""A transaction coordinator with a replica that may take over, and partitions that answer markers as a test wants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from support.coordinators.replica_pair import CoordinatorPair
from tailrace.coordinator.outcome import Outcome
from tailrace.coordinator.records import TRANSACTION_RECORDS
from tailrace.coordinator.shard import Shard
from tailrace.coordinator.transactions.decisions import Ending, Initialisation, ProducerKey
from tailrace.coordinator.transactions.markers import MarkerOrder, MarkerResults
from tailrace.coordinator.transactions.shard import TransactionShard
from tailrace.coordinator.transactions.state import TransactionState
from tailrace.coordinator.transactions.transaction import Transaction
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.versions import TRANSACTION_VERSION
from tailrace.model.errors import CoordinatorLoadInProgressError, NotEnoughReplicasError, TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.model.internal_topics import TRANSACTION_STATE
from tailrace.protocol.records.topics import PartitionRecord, RemoveTopicRecord, TopicRecord
from tailrace.replication.partition import Partition
from tailrace.storage.fetch import Isolation

ID = "payments"
TOPIC_ID = b"topic of records"
P0, P1 = TopicPartition("data", 0), TopicPartition("data", 1)
TIMEOUT_MS = 60_000


class TransactionPair(CoordinatorPair[TransactionShard]):
    """Alone in sync by default: what is written is committed. `version` is the cluster's transaction version."""

    def __init__(self, version: int = 2, in_sync: Iterable[int] = (1,), **settings: str) -> None:
        self.next_id = 1000
        self.gives_ids = True
        self.waiting: list[tuple[Callable[[int], None], Callable[[TailraceError], None]]] = []
        self.orders: list[MarkerOrder] = []
        self.codes: dict[TopicPartition, int] = {}
        """What partitions answer; 0 if nothing is said."""
        self.held: list[Callable[[], None]] | None = None
        """Answers to markers that are on their way, when a list."""
        super().__init__(TRANSACTION_STATE, TRANSACTION_RECORDS, self._make, in_sync=tuple(in_sync), **settings)
        if version:
            self.image.features[TRANSACTION_VERSION] = version
        self.create_topic()

    def fail_over(self) -> None:
        """Who was alone in sync has its successor alone in sync. What the successor does not have is lost."""
        if len(self._in_sync) == 1:
            self._in_sync = (self.follower.number,)
        common_end = self.follower.log.log_end_offset
        super().fail_over()
        if self.follower.log.log_end_offset > common_end:
            self.follower.log.truncate_to(common_end)

    def copy_to_follower(self) -> None:
        """Bytes only: neither of them knows what is committed."""
        leader, follower = self.leader.log, self.follower.log
        follower.append_as_follower(leader.read(follower.log_end_offset, 1 << 20, Isolation.LOG_END).read())

    def _make(self, shard: Shard) -> TransactionShard:
        return TransactionShard(shard, self._take_id, self._send)

    def _take_id(self, done: Callable[[int], None], failed: Callable[[TailraceError], None]) -> None:
        if not self.gives_ids:
            self.waiting.append((done, failed))
            return
        self.next_id += 1
        done(self.next_id)

    def give_id(self) -> None:
        """The controller answers the one who waits longest."""
        self.next_id += 1
        self.waiting.pop(0)[0](self.next_id)
        self.run()

    def refuse_id(self) -> None:
        self.waiting.pop(0)[1](CoordinatorLoadInProgressError("no ids"))
        self.run()

    def _send(self, orders: list[MarkerOrder], done: Callable[[MarkerResults], None]) -> None:
        self.orders += orders
        results = [{each: self.codes.get(each, 0) for each in order.partitions} for order in orders]
        if self.held is None:
            done(results)
        else:
            self.held.append(lambda: done(results))

    def release(self) -> None:
        """Answers arrive."""
        held, self.held = self.held, None
        for answer in held or ():
            answer()
        self.run()

    @contextmanager
    def refused_appends(self) -> Iterator[None]:
        """The coordinator's own log takes nothing."""
        error = NotEnoughReplicasError("too few replicas are in sync")
        with patch.object(Partition, "append", side_effect=error):
            yield

    # Metadata

    def create_topic(self) -> None:
        delta = MetadataDelta(self.image)
        delta.replay(TopicRecord(name="data", topic_id=TOPIC_ID))
        for index in range(3):
            record = PartitionRecord(partition_id=index, topic_id=TOPIC_ID, replicas=[1], isr=[1], leader=1)
            delta.replay(record)

    def delete_topic(self) -> None:
        MetadataDelta(self.image).replay(RemoveTopicRecord(topic_id=TOPIC_ID))

    # What a producer does

    def init(self, expected: ProducerKey | None = None, timeout_ms: int = TIMEOUT_MS, key: str = ID) -> list[Any]:
        answers: list[Any] = []
        wanted = Initialisation(key, timeout_ms, expected)

        def command(shard: TransactionShard) -> Outcome:
            return shard.init_producer_id(wanted, answers.append, answers.append)

        self.leader.runtime.submit("init", key, command, answers.append, answers.append)
        self.run()
        return answers

    def producer(self, **options: Any) -> ProducerKey:
        """Initialised."""
        (answer,) = self.init(**options)
        assert isinstance(answer, ProducerKey), answer
        return answer

    def add(self, producer: ProducerKey, *partitions: TopicPartition, key: str = ID, version: int = 2) -> list[Any]:
        return self.ask(lambda shard: shard.add_partitions(key, producer, partitions, version), key)

    def verify(self, producer: ProducerKey, *partitions: TopicPartition) -> list[Any]:
        return self.ask(lambda shard: shard.verify_or_add(ID, *producer, partitions, verify_only=True), ID)

    def end(self, producer: ProducerKey, is_commit: bool = True, version: int = 2, key: str = ID) -> list[Any]:
        answers: list[Any] = []
        ending = Ending(producer, is_commit, version)

        def command(shard: TransactionShard) -> Outcome:
            return shard.end(key, ending, answers.append, answers.append)

        self.leader.runtime.submit("end", key, command, answers.append, answers.append)
        self.run()
        return answers

    # What there is

    def transaction(self, key: str = ID) -> Transaction:
        return self.leader.machine.transactions[key]

    @property
    def state(self) -> TransactionState:
        return self.transaction().state

    def marked(self) -> list[tuple[int, int, bool, tuple[TopicPartition, ...]]]:
        """Orders of markers so far: whose, with which epoch, whether to commit, where."""
        return [(each.producer_id, each.epoch, each.is_commit, tuple(each.partitions)) for each in self.orders]
