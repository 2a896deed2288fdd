"""A partition as one share group reads it, on the broker that leads it.

    LOADING   the group's state is being read from the share coordinator: fetches wait
    ACTIVE    records are given out, acknowledged, and taken back when a lock ends
    FENCED    the broker does not lead any more, the group's offsets were set anew, or loading has failed: the object is
              of no use, whoever asks again gets another

What members acknowledge is written before it counts. A lock's end counts at once and is written as well as it can be:
a record whose lock has ended is delivered again, whatever becomes of the note.

Who may call: the node's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final

from tailrace.broker.share_persister import SharePersister
from tailrace.broker.share_records import Acknowledgement, Rules, ShareRecords, Transition
from tailrace.broker.share_start import find_start
from tailrace.config.overrides import GroupOverrides
from tailrace.config.server import ServerConfig
from tailrace.config.validation import GROUP
from tailrace.coordinator.group_settings import settings_of_group
from tailrace.coordinator.share_state.batches import NO_OFFSET, StateBatch
from tailrace.coordinator.share_state.key import SharePartitionKey
from tailrace.coordinator.share_state.state import ShareState, StateChange
from tailrace.model.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    FencedLeaderEpochError,
    FencedStateEpochError,
    GroupIdNotFoundError,
    NotCoordinatorError,
    NotLeaderOrFollowerError,
    TailraceError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from tailrace.model.listeners import Listeners
from tailrace.model.noop import noop
from tailrace.replication.partition import Partition

if TYPE_CHECKING:
    from tailrace.broker.node import Node

_log = logging.getLogger(__name__)

Done = Callable[[TailraceError | None], None]
_FENCES: Final = (NotLeaderOrFollowerError, GroupIdNotFoundError, UnknownTopicOrPartitionError)


class Phase(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FENCED = "fenced"


class SharePartition:
    """`fenced` is called once, when this broker no longer serves the partition to the group."""

    def __init__(
        self,
        node: Node,
        persister: SharePersister,
        key: SharePartitionKey,
        partition: Partition,
        fenced: Callable[[SharePartition], None],
    ) -> None:
        self._node = node
        self._persister = persister
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.phase = Phase.LOADING
        self.error: TailraceError | None = None
        """Why it is fenced, where it was never active."""
        self.records = ShareRecords(0)
        self.is_being_read = False
        """A fetch reads its log from a cold disk: one at a time."""
        self.on_moved: Listeners[SharePartition] = Listeners()
        """Records may have become available, or it has become active or fenced."""
        self._fenced = fenced
        self._state_epoch = 0
        self._armed_ms: int | None = None
        self._known_config: ServerConfig | None = None
        self._known_overrides: dict[str, str] = {}
        self._settings = GroupOverrides()
        """Of those two."""

    @property
    def settings(self) -> GroupOverrides:
        """The group's, as they are now."""
        config = self._node.config
        overrides = self._node.image.configs.get((GROUP, self.key.group_id), {})
        if config is not self._known_config or overrides != self._known_overrides:
            self._known_config, self._known_overrides = config, dict(overrides)
            self._settings = settings_of_group(config, self._node.image, self.key.group_id)
        return self._settings

    @property
    def rules(self) -> Rules:
        settings = self.settings
        return Rules(settings.share_partition_max_record_locks, settings.share_delivery_count_limit)

    @property
    def lock_ends_ms(self) -> int:
        """Of a lock that begins now."""
        return self._node.env.clock.monotonic_ms() + self.settings.share_record_lock_duration_ms

    @property
    def is_led(self) -> bool:
        """Whether this broker still leads the partition, in the same epoch."""
        return self.partition.is_leader and self.partition.leader_epoch == self.leader_epoch

    @property
    def is_ready(self) -> bool:
        """Whether records of it may be read and given out now."""
        return self.phase is Phase.ACTIVE and not self.is_being_read and self.records.can_acquire(self.rules)

    # Its life

    def load(self) -> None:
        self._persister.read(self.key, self.leader_epoch, self._loaded, self._not_loaded)

    def _loaded(self, state: ShareState) -> None:
        if self.phase is not Phase.LOADING:
            return
        if state.start_offset != NO_OFFSET:
            self._begin(state, state.start_offset)
            return
        reset = self.settings.share_auto_offset_reset
        find_start(self._node, self.partition, reset, lambda start: self._begin(state, start), self._not_loaded)

    def _begin(self, state: ShareState, start: int) -> None:
        if self.phase is not Phase.LOADING:
            return
        try:
            self.records = ShareRecords(start, state.batches)
        except TailraceError as error:
            self._not_loaded(error)
            return
        self._state_epoch = state.state_epoch
        self.phase = Phase.ACTIVE
        self.moved()

    def _not_loaded(self, error: TailraceError) -> None:
        _log.info("the state of %s cannot be read: %s", self.key, error)
        if self.phase is Phase.LOADING:
            self.error = as_fetch_error(error)
            self.fence()

    def fence(self) -> None:
        if self.phase is Phase.FENCED:
            return
        self.phase = Phase.FENCED
        self._fenced(self)
        self.moved()

    def moved(self) -> None:
        self.on_moved(self)

    # Acknowledging

    def acknowledge(self, member: str, acknowledgements: Sequence[Acknowledgement], done: Done) -> None:
        if self.phase is not Phase.ACTIVE:
            done(UnknownTopicOrPartitionError(f"{self.key} is not loaded"))
            return
        try:
            transition = self.records.acknowledge(member, acknowledgements, self.rules, self.lock_ends_ms)
        except TailraceError as error:
            done(error)
            return
        self._arm()
        self._settle(transition, done)

    def release(self, member: str, done: Done) -> None:
        """Everything that the member holds: it is gone."""
        if self.phase is Phase.ACTIVE:
            self._settle(self.records.release(member, self.rules), done)
        else:
            done(None)

    def _settle(self, transition: Transition, done: Done) -> None:
        if not transition.runs:
            done(None)
            return

        def written(_: object) -> None:
            self.records.complete(transition)
            done(None)
            self.moved()

        def refused(error: TailraceError) -> None:
            self.records.roll_back(transition, self.rules, self._node.env.clock.monotonic_ms())
            self._arm()
            told = as_fetch_error(error)
            done(told)
            if isinstance(told, _FENCES):
                self.fence()
            else:
                self.moved()

        self._write(transition.batches, written, refused)

    def _write(
        self,
        batches: tuple[StateBatch, ...],
        done: Callable[[object], None],
        failed: Callable[[TailraceError], None],
    ) -> None:
        def change() -> StateChange:
            if self.phase is Phase.FENCED:
                raise NotLeaderOrFollowerError(f"{self.key} is not read here any more")  # another may have read it anew
            return StateChange(
                self._state_epoch, self.leader_epoch, self.records.start, self.records.complete_count, batches
            )

        self._persister.write(self.key, change, done, failed)

    # Locks

    def locked(self) -> None:
        """Records were given out."""
        self._arm()

    def _arm(self) -> None:
        due_ms = self.records.next_deadline_ms()
        if due_ms is None or (self._armed_ms is not None and self._armed_ms <= due_ms):
            return
        self._armed_ms = due_ms
        delay_ms = max(due_ms - self._node.env.clock.monotonic_ms(), 0)
        self._node.env.jobs.later("share-lock", delay_ms, self._locks_end)

    def _locks_end(self) -> None:
        now_ms = self._node.env.clock.monotonic_ms()
        if self._armed_ms is None or self._armed_ms > now_ms:
            return
        self._armed_ms = None
        if self.phase is not Phase.ACTIVE:
            return
        changed = self.records.expire(self.rules, now_ms)
        self._arm()
        if changed:
            self._write(changed, noop, self._end_is_not_noted)  # it counts already
            self.records.advance()
            self.moved()

    def _end_is_not_noted(self, error: TailraceError) -> None:
        _log.info("the end of locks in %s is not written: %s", self.key, error)
        if isinstance(as_fetch_error(error), _FENCES):
            self.fence()


def as_fetch_error(error: TailraceError) -> TailraceError:
    """What a share consumer is told of an error of the share coordinator."""
    if isinstance(error, (NotCoordinatorError, CoordinatorNotAvailableError, CoordinatorLoadInProgressError)):
        return CoordinatorNotAvailableError(str(error))
    if isinstance(error, (FencedLeaderEpochError, FencedStateEpochError)):
        return NotLeaderOrFollowerError(str(error))
    if isinstance(error, _FENCES):
        return error
    return UnknownServerError(str(error))
