"""One partition of a coordinator's topic, led here: its state machine, and the only way to change it.

Commands run one after the other. A command reads the state and decides; its records are appended as one batch and
replayed into the state at once, so that the next command sees them; whoever asked is answered when they are committed.
What a command or an answer submits meanwhile waits for its turn: no command ever sees a state between an append and
its replay.

    loading   the partition's log is replayed; commands are refused, and may be tried again
    active    commands run
    closed    another broker leads, or the log could not be read: commands are refused, who waits is told to look again

Who may call: the node's thread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from enum import Enum
from random import Random
from typing import Any, NamedTuple, Protocol

from tailrace.config.overrides import GroupOverrides
from tailrace.config.server import ServerConfig
from tailrace.coordinator.append_errors import as_coordinator_error
from tailrace.coordinator.group_settings import settings_of_group
from tailrace.coordinator.loading import LoadedMarker, LoadedRecord, Loading
from tailrace.coordinator.outcome import CoordinatorRecord, Outcome, ProducerBatchId
from tailrace.coordinator.records import LARGEST_BATCH_BYTES, Schema, encode_batch
from tailrace.coordinator.timers import RETRY_MS, Command, Timers
from tailrace.env import Clock, Env
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.model.errors import CoordinatorLoadInProgressError, NotCoordinatorError, TailraceError
from tailrace.record.control import ABORT, COMMIT, end_txn_marker
from tailrace.replication.partition import ALL_IN_SYNC, Partition
from tailrace.storage.origin import Origin
from tailrace.storage.verification import NO_GUARD, VerificationGuard

_log = logging.getLogger(__name__)

Reply = Callable[[Any], None]
Failed = Callable[[TailraceError], None]
Committed = Callable[[TailraceError | None], None]


class StateMachine(Protocol):
    """What a shard keeps: everything that its records say, and who waits."""

    def replay(self, record: CoordinatorRecord, offset: int, producer: ProducerBatchId | None) -> None:
        """The only place where what records say is changed."""

    def replay_marker(self, producer_id: int, producer_epoch: int, is_commit: bool, offset: int) -> None:
        """A producer's transaction has ended on this partition."""

    def loaded(self) -> None:
        """Everything was replayed: begin to count time."""

    def unloaded(self, error: TailraceError) -> None:
        """Another broker takes over: answer everybody who waits with the error."""

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None: ...


class ShardHost(Protocol):
    """What the runtime gives to each of its shards."""

    env: Env
    image: MetadataImage
    schema: Schema

    @property
    def codec(self) -> int: ...

    @property
    def config(self) -> ServerConfig: ...

    def when_committed(self, partition: Partition, last_offset: int, done: Committed) -> None:
        """Call `done` when the record at `last_offset` is committed, or cannot be, or has taken too long."""


class ShardState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


class _Turn(NamedTuple):
    name: str
    command: Command
    reply: Reply | None
    failed: Failed | None
    producer: ProducerBatchId | None
    guard: VerificationGuard


class Shard:
    def __init__(self, host: ShardHost, partition: Partition, make: Callable[[Shard], StateMachine]) -> None:
        self._host = host
        self._partition = partition
        self.index = partition.index
        self.epoch = partition.leader_epoch
        """The coordinator's epoch: a newer one fences what this one still sends."""
        self.state = ShardState.LOADING
        self.timers = Timers(host.env, self._run_timer)
        self._last_written = -1
        self._turns: deque[Callable[[], None]] = deque()
        self._is_running = False
        self._loading: Loading | None = None
        self._missed: list[MetadataDelta] = []
        """Topics that were deleted while the log was being loaded. What came or changed is seen in the image."""
        self.machine = make(self)

    # What a state machine may ask

    @property
    def clock(self) -> Clock:
        return self._host.env.clock

    @property
    def random(self) -> Random:
        return self._host.env.random

    @property
    def config(self) -> ServerConfig:
        """As it is now."""
        return self._host.config

    @property
    def image(self) -> MetadataImage:
        """The cluster's metadata as this broker knows it."""
        return self._host.image

    def group_settings(self, group_id: str) -> GroupOverrides:
        """A group's own settings over the broker's."""
        return settings_of_group(self._host.config, self._host.image, group_id)

    @property
    def largest_batch_bytes(self) -> int:
        """More than this cannot be written at once; what compressed records take is known when they are compressed."""
        log = self._partition.log
        return LARGEST_BATCH_BYTES if log is None or self._host.codec else log.config.max_message_bytes

    def is_committed(self, offset: int) -> bool:
        return self._partition.is_committed(offset)

    def forget_before(self, offset: int, done: Callable[[int], None], failed: Failed) -> None:
        """Nothing below `offset` is needed any more to load the state: the log may begin there."""
        self._partition.delete_records(offset, done, failed)

    # Its life

    def load(self, done: Callable[[TailraceError | None], None]) -> None:
        log = self._partition.log
        assert log is not None

        def loaded() -> None:
            self._loading = None
            self._last_written = log.log_end_offset - 1
            self.state = ShardState.ACTIVE
            self.machine.loaded()
            missed, self._missed = self._missed, []
            for delta in missed:
                self.metadata_changed(delta, self.image)
            done(None)

        def failed(error: TailraceError) -> None:
            self.close()
            done(error)

        self._loading = Loading(self._host.env, log, self._host.schema, self._replay_loaded, loaded, failed)
        self._loading.go_on()

    def _replay_loaded(self, contents: list[LoadedRecord | LoadedMarker]) -> None:
        for each in contents:
            if isinstance(each, LoadedRecord):
                self.machine.replay(each.record, each.offset, each.producer)
            else:
                self.machine.replay_marker(each.producer.id, each.producer.epoch, each.is_commit, each.offset)

    def close(self) -> None:
        """It is led elsewhere."""
        if self.state is ShardState.CLOSED:
            return
        self.state = ShardState.CLOSED
        if self._loading is not None:
            self._loading.stop()
        self.timers.close()
        self.machine.unloaded(self._refusal())

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if self.state is ShardState.ACTIVE:
            self._take_turn(lambda: self.machine.metadata_changed(delta, image))
        elif self.state is ShardState.LOADING and delta.deleted_topics:
            self._missed.append(delta)

    def _refusal(self) -> TailraceError:
        if self.state is ShardState.LOADING:
            return CoordinatorLoadInProgressError(f"{self._partition.id} is being loaded")
        return NotCoordinatorError(f"this broker does not coordinate what is in {self._partition.id}")

    # Commands

    def submit(
        self,
        name: str,
        command: Command,
        reply: Reply | None = None,
        failed: Failed | None = None,
        *,
        producer: ProducerBatchId | None = None,
        guard: VerificationGuard = NO_GUARD,
    ) -> None:
        """Run `command` now, or after what is running. Errors that it raises are given to `failed`."""
        self._take_turn(lambda: self._run(_Turn(name, command, reply, failed, producer, guard)))

    def _take_turn(self, turn: Callable[[], None]) -> None:
        self._turns.append(turn)
        if not self._is_running:
            self._take_turns()

    def _take_turns(self) -> None:
        self._is_running = True
        try:
            while self._turns:
                self._turns.popleft()()
        finally:
            self._is_running = False
            if self._turns:  # a defect of ours has ended this turn: it costs one client its answer, and nobody else
                self._host.env.jobs.later("coordinator-turns", 0, self._take_turns)

    def _run(self, turn: _Turn) -> None:
        if self.state is not ShardState.ACTIVE:
            if turn.failed is not None:
                turn.failed(self._refusal())
            return
        try:
            outcome = turn.command()
        except TailraceError as error:
            if turn.failed is not None:
                turn.failed(error)
            else:
                _log.warning("%s on %s: %s", turn.name, self._partition.id, error)
            return
        if outcome is None:
            return
        if outcome.records:
            try:
                self._append(outcome.records, turn.producer, turn.guard)
            except TailraceError as error:
                self._settle(turn, outcome, error)
                return
        self._when_committed(self._last_written, lambda error: self._settle(turn, outcome, error))

    def _append(
        self, records: Sequence[CoordinatorRecord], producer: ProducerBatchId | None, guard: VerificationGuard
    ) -> None:
        now_ms = self._host.env.clock.now_ms()
        batch = encode_batch(records, now_ms, self._host.codec, producer, self.largest_batch_bytes)
        (result,) = self._partition.append([batch], ALL_IN_SYNC, Origin.COORDINATOR, guard)
        if result.error is not None:
            raise result.error
        offset = result.first_offset
        self._last_written = result.last_offset
        replay = self.machine.replay
        for record in records:
            replay(record, offset, producer)
            offset += 1

    def append_prepared(self, batch: bytearray, replay: Callable[[int], None]) -> int | None:
        """Append a batch that is encoded already; `replay` is given its first offset, and may submit nothing.

        For what is known to be allowed, and needs no more than that: the short way of a command. Returns the last
        offset; None when something else is running, or the shard is not active. Errors of the log are raised.
        """
        if self._is_running or self.state is not ShardState.ACTIVE:
            return None
        self._is_running = True
        try:
            (result,) = self._partition.append([batch], ALL_IN_SYNC, Origin.COORDINATOR)
            if result.error is not None:
                raise result.error
            self._last_written = result.last_offset
            replay(result.first_offset)
        finally:
            self._take_turns()
        return result.last_offset

    def _when_committed(self, last_offset: int, done: Committed) -> None:
        if last_offset < 0 or self._partition.is_committed(last_offset):
            done(None)
        else:
            self._host.when_committed(self._partition, last_offset, lambda error: self._take_turn(lambda: done(error)))

    def _settle(self, turn: _Turn, outcome: Outcome, cause: TailraceError | None) -> None:
        error = None if cause is None else as_coordinator_error(cause)
        if outcome.then is not None:
            outcome.then(error)
        if error is not None:
            if turn.failed is not None:
                turn.failed(error)
            else:
                _log.warning("%s on %s: %s", turn.name, self._partition.id, cause)
        elif turn.reply is not None and outcome.response is not None:
            turn.reply(outcome.response)

    def _run_timer(self, key: Hashable, command: Command) -> None:
        def again(error: TailraceError) -> None:
            _log.info("%s on %s is tried again: %s", key, self._partition.id, error)
            if not self.timers.is_scheduled(key):
                self.timers.schedule(key, RETRY_MS, command)

        self.submit(str(key), command, None, again)

    # Transactions

    def end_transaction(
        self,
        producer: ProducerBatchId,
        is_commit: bool,
        coordinator_epoch: int,
        transaction_version: int,
        done: Committed,
    ) -> None:
        """Append the marker that ends the producer's transaction on this partition."""

        def turn() -> None:
            if self.state is not ShardState.ACTIVE:
                done(self._refusal())
                return
            marker = end_txn_marker(
                COMMIT if is_commit else ABORT,
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                coordinator_epoch=coordinator_epoch,
                timestamp=self._host.env.clock.now_ms(),
            )
            try:
                (result,) = self._partition.append(
                    [marker], ALL_IN_SYNC, Origin.COORDINATOR, NO_GUARD, transaction_version
                )
                if result.error is not None:
                    raise result.error
            except TailraceError as error:
                done(error)
                return
            self._last_written = result.last_offset
            self.machine.replay_marker(producer.id, producer.epoch, is_commit, result.last_offset)
            self._when_committed(result.last_offset, done)

        self._take_turn(turn)
