"""Two brokers with a replica each of one partition of a coordinator's topic, on one simulated machine.

One leads and coordinates. The other has what `replicate` brought it; `move` makes it the leader, and so the
coordinator, in a newer epoch. Nothing is replaced but the outside: logs, partitions, runtime and purgatory are real.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from tailrace.broker.coordinators import waiting_in
from tailrace.broker.purgatory import Purgatory
from tailrace.config.log import LogConfig
from tailrace.config.server import ServerConfig
from tailrace.coordinator.outcome import Outcome
from tailrace.coordinator.records import Schema
from tailrace.coordinator.runtime import CoordinatorRuntime
from tailrace.coordinator.shard import Shard, StateMachine
from tailrace.metadata.broker_registration import BrokerRegistration
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.partition_registration import PartitionRegistration
from tailrace.model.errors import StorageError, TailraceError
from tailrace.model.ids import TopicId, TopicPartition
from tailrace.model.offsets import LogOffsetMetadata
from tailrace.protocol.records.topics import PartitionRecord, TopicRecord
from tailrace.replication.known_brokers import KnownBrokers
from tailrace.replication.partition import Partition
from tailrace.sim import World
from tailrace.storage.fetch import Isolation
from tailrace.storage.loader import LoadOptions, load
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.warm import WarmSet

S = TypeVar("S", bound=StateMachine)
BOTH = (1, 2)
BROKER_EPOCH = 10


class CoordinatorReplica(Generic[S]):
    """What one of the brokers has."""

    def __init__(
        self, pair: CoordinatorPair[S], number: int, topic: str, schema: Schema, make: Callable[[Shard], S]
    ) -> None:
        self.number = number
        self.make_log = lambda: load(
            pair.world.env, f"/data{number}/{topic}-0", pair.log_config, WarmSet(50), LoadOptions()
        )
        self.log: UnifiedLog = self.make_log()
        brokers = {each: BrokerRegistration(each, BROKER_EPOCH, bytes(16), is_fenced=False) for each in BOTH}
        self.partition = Partition(
            TopicPartition(topic, 0), pair.topic_id, number, pair.world.clock, KnownBrokers(brokers), self, 30_000, []
        )
        self.partition.use_log(self.log)
        self.purgatory = Purgatory(pair.world.clock)
        self.runtime: CoordinatorRuntime[S] = CoordinatorRuntime(
            topic,
            schema,
            make,
            pair.world.env,
            pair.image,
            lambda: pair.config,
            lambda _: 1,
            waiting_in(self.purgatory, lambda: pair.config.offsets_commit_timeout_ms),
        )

    def increment_log_start(
        self, partition: TopicPartition, offset: int, done: Callable[[], None], failed: Callable[[StorageError], None]
    ) -> None:
        self.log.increment_log_start(offset)
        done()

    def take_role(self, registration: PartitionRegistration) -> None:
        if registration.leader == self.number:
            self.partition.make_leader(registration)
        else:
            self.partition.make_follower(registration)
        self.runtime.role_changed(self.partition)

    @property
    def machine(self) -> S:
        """Of the active shard."""
        (machine,) = self.runtime.machines()
        return machine


class CoordinatorPair(Generic[S]):
    def __init__(
        self,
        topic: str,
        schema: Schema,
        make: Callable[[Shard], S],
        *,
        in_sync: Sequence[int] = BOTH,
        log_config: LogConfig | None = None,
        **settings: str,
    ) -> None:
        """Broker 1 leads. Settings of the brokers have underscores for dots."""
        self.world = World(directories=("/data1", "/data2"))
        self.log_config = LogConfig() if log_config is None else log_config
        texts = {"log.dirs": "/data1", "node.id": "1", **{name.replace("_", "."): v for name, v in settings.items()}}
        self.config = ServerConfig.single_node(texts)
        self.topic_id = TopicId(b"coordinatortopic")
        self.image = MetadataImage()
        delta = MetadataDelta(self.image)
        delta.replay(TopicRecord(name=topic, topic_id=self.topic_id))
        delta.replay(
            PartitionRecord(partition_id=0, topic_id=self.topic_id, replicas=list(BOTH), isr=list(in_sync), leader=1)
        )
        self._in_sync = tuple(in_sync)
        self._epoch = -1
        self.first = CoordinatorReplica(self, 1, topic, schema, make)
        self.second = CoordinatorReplica(self, 2, topic, schema, make)
        self.leader = self.first
        self.move(self.first)

    @property
    def follower(self) -> CoordinatorReplica[S]:
        return self.second if self.leader is self.first else self.first

    def move(self, to: CoordinatorReplica[S]) -> None:
        """`to` leads from now on, with what is in its log."""
        self._epoch += 1
        registration = PartitionRegistration(
            BOTH, self._in_sync, to.number, self._epoch, self._epoch, directories=(bytes(range(16)),) * 2
        )
        self.leader = to
        self.follower.take_role(registration)
        to.take_role(registration)
        self.run()

    def fail_over(self) -> None:
        self.move(self.follower)

    def replicate(self) -> None:
        """The follower takes everything, and the leader hears of it."""
        leader, follower = self.leader, self.follower
        end = leader.log.log_end_offset
        if follower.log.log_end_offset > end:
            follower.log.truncate_to(end)
        while follower.log.log_end_offset < end:
            data = leader.log.read(follower.log.log_end_offset, 1 << 20, Isolation.LOG_END).read()
            follower.log.append_as_follower(data)
        leader.partition.update_follower(
            follower.number, LogOffsetMetadata(end), 0, leader_end=end, broker_epoch=BROKER_EPOCH
        )
        follower.log.update_high_watermark(leader.log.high_watermark)
        self.run()

    def run(self) -> None:
        jobs = self.world.jobs
        while jobs.pending or any(left <= 0 for _, left in jobs.waiting):
            jobs.run_all()
            jobs.tick()

    def pass_time(self, ms: int) -> None:
        self.world.jobs.tick(self.world.clock.now_ms() + ms)
        for each in (self.first, self.second):
            each.purgatory.expire_due(self.world.clock.monotonic_ms())
        self.run()

    def ask(self, command: Callable[[S], Outcome], key: str = "any", **options: Any) -> list[Any]:
        """What the leader has answered so far: the response, or the error."""
        answers: list[Any] = []
        self.leader.runtime.submit("test", key, command, answers.append, answers.append, **options)
        self.run()
        return answers


def refusal(answers: list[Any]) -> type[TailraceError]:
    """The kind of the one error that was answered."""
    (answer,) = answers
    assert isinstance(answer, TailraceError), answer
    return type(answer)
