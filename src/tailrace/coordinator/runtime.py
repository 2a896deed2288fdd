"""All shards of one coordinator on this broker: which there are, and which of them a key belongs to.

A shard comes when this broker begins to lead a partition of the coordinator's topic and goes when it ends; another
broker's shard is then made of the same log. Any key belongs to one partition by its hash, as clients of any
implementation expect.

Who may call: the node's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar, cast

from tailrace.config.server import ServerConfig
from tailrace.coordinator.outcome import Outcome, ProducerBatchId
from tailrace.coordinator.records import Schema
from tailrace.coordinator.shard import Committed, Failed, Reply, Shard, ShardState, StateMachine
from tailrace.env import Env
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.model.errors import NotCoordinatorError, TailraceError
from tailrace.replication.partition import Partition
from tailrace.storage.verification import NO_GUARD, VerificationGuard

_log = logging.getLogger(__name__)

S = TypeVar("S", bound=StateMachine)

REMEMBERED_LENGTH: Final = 256

WhenCommitted = Callable[[Partition, int, Committed], None]


def java_hash(text: str) -> int:
    """The absolute value of Java's `String.hashCode`."""
    return _remembered_hash(text) if len(text) <= REMEMBERED_LENGTH else _hash(text)


def _hash(text: str) -> int:
    value = 0
    if text.isascii():
        for byte in text.encode():
            value = (31 * value + byte) & 0xFFFF_FFFF
    else:
        units = text.encode("utf-16-be", "surrogatepass")
        for at in range(0, len(units), 2):
            value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFF_FFFF
    signed = value - (1 << 32) if value >> 31 else value
    return abs(signed) & 0x7FFF_FFFF  # the least number, which has no positive, counts as 0


_remembered_hash: Final = lru_cache(maxsize=4096)(_hash)
"""The same groups ask again and again."""


class CoordinatorRuntime(Generic[S]):
    def __init__(
        self,
        topic: str,
        schema: Schema,
        make: Callable[[Shard], S],
        env: Env,
        image: MetadataImage,
        config: Callable[[], ServerConfig],
        partition_count: Callable[[ServerConfig], int],
        when_committed: WhenCommitted,
        codec: Callable[[ServerConfig], int] = lambda _: 0,
    ) -> None:
        """`partition_count` is what the topic will have, as long as it does not exist."""
        self.topic = topic
        self.schema = schema
        self.env = env
        self.image = image
        self.when_committed = when_committed
        self._make = make
        self._config = config
        self._partition_count = partition_count
        self._codec = codec
        self._shards: dict[int, Shard] = {}

    @property
    def config(self) -> ServerConfig:
        return self._config()

    @property
    def codec(self) -> int:
        return self._codec(self._config())

    # Which shard

    def partition_for(self, key: str) -> int:
        topic = self.image.topics.get(self.topic)
        count = self._partition_count(self._config()) if topic is None else len(topic.partitions)
        return java_hash(key) % count

    def machines(self) -> Iterator[S]:
        """Of the shards that are active here."""
        for shard in self._shards.values():
            if shard.state is ShardState.ACTIVE:
                yield cast(S, shard.machine)

    @property
    def is_loading(self) -> bool:
        """Whether a shard here does not know its state yet."""
        return any(shard.state is ShardState.LOADING for shard in self._shards.values())

    def shard(self, index: int) -> Shard | None:
        return self._shards.get(index)

    def _not_here(self, what: str) -> TailraceError:
        return NotCoordinatorError(f"this broker does not coordinate {what}")

    # Commands

    def submit(
        self,
        name: str,
        key: str,
        command: Callable[[S], Outcome],
        reply: Reply,
        failed: Failed,
        *,
        producer: ProducerBatchId | None = None,
        guard: VerificationGuard = NO_GUARD,
    ) -> None:
        """Run `command` on the shard of `key`; see `Outcome` for when `reply` is called."""
        shard = self._shards.get(self.partition_for(key))
        if shard is None:
            failed(self._not_here(key))
            return
        machine = cast(S, shard.machine)
        shard.submit(name, lambda: command(machine), reply, failed, producer=producer, guard=guard)

    def read(self, key: str, question: Callable[[S], Any], reply: Reply, failed: Failed) -> None:
        """Answer from the state as it is, when all that it shows is committed."""
        self.submit("read", key, lambda machine: Outcome(response=question(machine)), reply, failed)

    def marker(
        self,
        index: int,
        producer: ProducerBatchId,
        is_commit: bool,
        coordinator_epoch: int,
        transaction_version: int,
        done: Committed,
    ) -> None:
        """End a producer's transaction on a partition of this coordinator's topic."""
        shard = self._shards.get(index)
        if shard is None:
            done(self._not_here(f"{self.topic}-{index}"))
        else:
            shard.end_transaction(producer, is_commit, coordinator_epoch, transaction_version, done)

    # Leadership

    def role_changed(self, partition: Partition) -> None:
        """This broker begins to lead a partition of the topic, goes on with it in a newer epoch, or has stopped."""
        held = self._shards.get(partition.index)
        if partition.is_leader:
            if held is not None and held.epoch == partition.leader_epoch and held.state is not ShardState.CLOSED:
                return
            self._close(partition.index)
            shard = self._shards[partition.index] = Shard(self, partition, self._make)
            shard.load(lambda error: self._loaded(shard, error))
        elif held is not None:
            self._close(partition.index)

    def _loaded(self, shard: Shard, error: TailraceError | None) -> None:
        if error is not None:
            _log.error("%s-%d cannot be loaded, its coordinator is not here: %s", self.topic, shard.index, error)
            if self._shards.get(shard.index) is shard:
                del self._shards[shard.index]

    def _close(self, index: int) -> None:
        shard = self._shards.pop(index, None)
        if shard is not None:
            shard.close()

    def metadata_changed(self, delta: MetadataDelta) -> None:
        for shard in list(self._shards.values()):
            shard.metadata_changed(delta, self.image)
