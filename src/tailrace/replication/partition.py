"""One partition on this broker: a log with a role, and as leader what is known of the other replicas.

    no log yet, offline      every request is refused
    follower                 serves readers up to its own high watermark; `leader_id` may be −1, none
    leader                   takes appends, serves followers to its end, moves the high watermark

The controller's decisions come in as registrations: one of an older partition epoch is ignored, and only a newer leader
epoch begins an epoch in the log and makes the followers' state new. State changes are serial: one thread owns the
partitions of a node with their logs.

An append is acknowledged when `acknowledgement` says so: at once with acks 0 and 1, when the high watermark has passed
it with acks −1, and in any case not before a flush that `flush.messages` asked for, which the high watermark waits for
too. What waits for one is a listener of `on_moved` and looks again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tailrace.env import Buffer, Clock
from tailrace.metadata.partition_registration import NO_LEADER, PartitionRegistration
from tailrace.model.errors import (
    FencedLeaderEpochError,
    LogDirUnavailableError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    TailraceError,
    UnknownLeaderEpochError,
)
from tailrace.model.ids import NO_LEADER_EPOCH, TopicId, TopicPartition
from tailrace.model.invariant import invariant
from tailrace.model.listeners import Listeners
from tailrace.model.offsets import LogOffsetMetadata
from tailrace.replication import offset_listing
from tailrace.replication.epoch_truncation import EpochEnd, divergence
from tailrace.replication.high_watermark import committed_end, effective_min_isr
from tailrace.replication.isr_state import NO_ISR, Committed, IsrState
from tailrace.replication.known_brokers import KnownBrokers
from tailrace.replication.read_result import ReadResult
from tailrace.replication.record_deletion import LogStarts, start_asked_for
from tailrace.replication.replica_state import ANY_BROKER_EPOCH, ReplicaState
from tailrace.storage.append import AppendResult
from tailrace.storage.fetch import FetchData, Isolation
from tailrace.storage.offset_lookup import FoundOffset
from tailrace.storage.origin import Origin
from tailrace.storage.producer_entry import ProducerStateEntry
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.verification import NO_GUARD, VerificationGuard

ALL_IN_SYNC: Final = -1
"""acks=all."""
NO_EPOCH: Final = -1
"""As leader or partition epoch: older than any."""

Acknowledgement = tuple[bool, TailraceError | None]
_WAIT: Final[Acknowledgement] = (False, None)
_DONE: Final[Acknowledgement] = (True, None)


class Partition:
    """Made by the replica manager."""

    __slots__ = (
        "_brokers",
        "_clock",
        "_followers",
        "_led",
        "_log_starts",
        "_max_lag_ms",
        "_node_id",
        "_unsaved",
        "epoch_start_offset",
        "id",
        "index",
        "is_offline",
        "is_unsaved",
        "isr_state",
        "leader_epoch",
        "leader_id",
        "log",
        "on_moved",
        "partition_epoch",
        "registration",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        partition: TopicPartition,
        topic_id: TopicId,
        node_id: int,
        clock: Clock,
        brokers: KnownBrokers,
        log_starts: LogStarts,
        max_lag_ms: int,
        unsaved: list[Partition],
    ) -> None:
        """`unsaved` collects the partitions whose high watermark is not what its checkpoint says."""
        self.id = partition
        self.topic, self.index = partition
        self.topic_id = topic_id
        self.log: UnifiedLog | None = None
        """None as long as it is being made, and when its directory has failed."""
        self.registration: PartitionRegistration | None = None
        """The controller's latest word; it takes effect when the log is there."""
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.epoch_start_offset: int | None = None
        """Where the leader's epoch begins, while this broker leads."""
        self.isr_state: IsrState = NO_ISR
        self.is_offline = False
        self.is_unsaved = False
        self.on_moved: Listeners[Partition] = Listeners()
        """The log's end, high watermark or start moved, a flush ended, or the role changed."""
        self._node_id = node_id
        self._clock = clock
        self._brokers = brokers
        self._log_starts = log_starts
        self._max_lag_ms = max_lag_ms
        self._unsaved = unsaved
        self._led: UnifiedLog | None = None
        """The log, while this broker leads."""
        self._followers: dict[int, ReplicaState] = {}
        """The other replicas, while this broker leads."""

    def __repr__(self) -> str:
        role = "offline" if self.is_offline else "leader" if self.is_leader else f"follower of {self.leader_id}"
        return f"Partition({self.id}, {role} in epoch {self.leader_epoch}, {self.log!r})"

    # Roles

    @property
    def is_leader(self) -> bool:
        return self._led is not None

    @property
    def followers(self) -> Mapping[int, ReplicaState]:
        """What is known of the other replicas, while this broker leads."""
        return self._followers

    def use_log(self, log: UnifiedLog) -> None:
        """Its log was opened, or has moved to another directory."""
        self._leave_log()
        self.log = log
        log.on_flush_ended.add(self._flush_ended)
        if self._led is not None:
            self._led = log
        self._note_high_watermark()
        self._moved()

    def make_leader(self, registration: PartitionRegistration) -> bool:
        """Take the lead, or go on with it; whether it is new. StorageError when the epoch cannot be noted."""
        log = self._existing_log()
        if registration.partition_epoch < self.partition_epoch:
            return False
        is_new_leader = not self.is_leader
        others = [replica for replica in registration.replicas if replica != self._node_id]
        followers = {replica: self._followers.get(replica, ReplicaState()) for replica in others}
        if registration.leader_epoch > self.leader_epoch:
            log.begin_epoch(registration.leader_epoch)
            start, now_ms = log.log_end_offset, self._clock.monotonic_ms()
            for replica, state in followers.items():
                is_in_sync = replica in registration.isr
                followers[replica] = state.after_election(
                    start, now_ms, is_new_leader=is_new_leader, is_in_sync=is_in_sync
                )
            self.leader_epoch = registration.leader_epoch
            self.epoch_start_offset = start
        self._followers = followers
        self.isr_state = Committed(frozenset(registration.isr))
        self.partition_epoch = registration.partition_epoch
        self.leader_id = self._node_id
        self._led = log
        self._advance(log)
        self._moved()
        return is_new_leader

    def make_follower(self, registration: PartitionRegistration) -> bool:
        """Follow `registration.leader`, which may be none; whether that begins a new leader epoch."""
        self._existing_log()
        if registration.partition_epoch < self.partition_epoch:
            return False
        is_new_epoch = registration.leader_epoch > self.leader_epoch
        self._led = None
        self._followers = {}
        self.isr_state = NO_ISR
        self.leader_id = registration.leader
        self.leader_epoch = registration.leader_epoch
        self.epoch_start_offset = None
        self.partition_epoch = registration.partition_epoch
        self._moved()
        return is_new_epoch

    def let_go(self, *, is_offline: bool = False) -> None:
        """The log is gone from here, with its directory where `is_offline`: whoever waits is refused."""
        self._leave_log()
        self.log = self._led = None
        self._followers = {}
        self.isr_state = NO_ISR
        self.leader_id = NO_LEADER
        self.epoch_start_offset = None
        self.is_offline = is_offline
        self._moved()

    def _leave_log(self) -> None:
        if self.log is not None:
            self.log.on_flush_ended.remove(self._flush_ended)

    def _existing_log(self) -> UnifiedLog:
        invariant(self.log is not None, f"{self.id} takes a role without a log")
        assert self.log is not None
        return self.log

    def _moved(self) -> None:
        if self.on_moved.listeners:
            self.on_moved(self)

    # Who may ask

    def _refusal(self) -> TailraceError:
        if self.is_offline:
            return LogDirUnavailableError(f"{self.id} is in a log directory that is offline")
        return NotLeaderOrFollowerError(f"broker {self._node_id} does not lead {self.id}; {self.leader_id} does")

    def _log_for(self, current_leader_epoch: int, leader_only: bool) -> UnifiedLog:
        """The log, for whoever believes that `current_leader_epoch` (−1: no belief) is the leader's."""
        if current_leader_epoch != NO_LEADER_EPOCH and current_leader_epoch != self.leader_epoch:
            if self.is_offline:
                raise self._refusal()
            text = f"{self.id} is in leader epoch {self.leader_epoch}, the request in {current_leader_epoch}"
            if current_leader_epoch < self.leader_epoch:
                raise FencedLeaderEpochError(text)
            raise UnknownLeaderEpochError(text)
        log = self._led if leader_only else self.log
        if log is None:
            raise self._refusal()
        return log

    # Appending

    def append(
        self,
        sets: Sequence[Buffer],
        acks: int,
        origin: Origin = Origin.CLIENT,
        guard: VerificationGuard = NO_GUARD,
        transaction_version: int = 0,
    ) -> list[AppendResult]:
        """As leader: see `UnifiedLog.append_as_leader`; then the high watermark follows where it may.

        NotLeaderOrFollowerError; with acks −1 NotEnoughReplicasError, before anything is written.
        """
        log = self._led
        if log is None:
            raise self._refusal()
        if self._followers:
            if acks == ALL_IN_SYNC and self.is_under_min_isr:
                raise NotEnoughReplicasError(
                    f"{self.id} has {len(self.isr_state.isr)} replicas in sync, min.insync.replicas asks for "
                    f"{self.effective_min_isr}"
                )
            results = log.append_as_leader(sets, self.leader_epoch, origin, guard, transaction_version)
            self._advance(log)
        else:
            results = log.append_as_leader(sets, self.leader_epoch, origin, guard, transaction_version)
            if log.flush_awaited <= log.local.recovery_point:
                log.bounds.commit_everything()
                if not self.is_unsaved:
                    self._note_high_watermark()
        if self.on_moved.listeners:
            self.on_moved(self)
        return results

    def is_in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether this producer's transaction is open here."""
        log = self._led
        return log is not None and log.producers.is_in_transaction(producer_id, epoch)

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, supports_epoch_bump: bool
    ) -> VerificationGuard:
        """As leader: see `UnifiedLog.start_verification`. NotLeaderOrFollowerError."""
        log = self._led
        if log is None:
            raise self._refusal()
        return log.start_verification(producer_id, sequence, epoch, supports_epoch_bump)

    def is_committed(self, offset: int) -> bool:
        """Whether the record at `offset` is on every replica that counts."""
        return self.log is not None and self.log.bounds.high_watermark.offset > offset

    def is_flushed(self, offset: int) -> bool:
        """Whether the record at `offset` waits for no flush that `flush.messages` asked for."""
        log = self.log
        return log is not None and (offset >= log.flush_awaited or log.local.recovery_point > offset)

    def acknowledgement(self, last_offset: int, acks: int) -> Acknowledgement:
        """Whether an append that ends with `last_offset` can be answered now, and with which error."""
        log = self._led
        if log is None:
            return True, self._refusal()
        if last_offset < log.flush_awaited and log.local.recovery_point <= last_offset:
            return _WAIT if log.failure is None else (True, log.failure)
        if acks == ALL_IN_SYNC and log.bounds.high_watermark.offset <= last_offset:
            return _WAIT
        if acks == ALL_IN_SYNC and self._followers:
            present, needed = len(self.isr_state.maximal_isr), self.effective_min_isr
            if present < needed:
                return True, NotEnoughReplicasAfterAppendError(
                    f"{self.id} has {present} replicas in sync since, min.insync.replicas asks for {needed}"
                )
        return _DONE

    def awaits_only_flush(self, last_offset: int, acks: int) -> bool:
        """Whether an append that ends with `last_offset` is on all replicas that it must reach, and cannot be
        acknowledged only because of a flush of this log that is under way."""
        log = self._led
        if log is None or log.failure is not None or not log.is_flushing_appends or self.is_flushed(last_offset):
            return False
        return acks != ALL_IN_SYNC or self._replicated_end(log).offset > last_offset

    # Following

    def log_to_follow(self, leader_epoch: int) -> UnifiedLog:
        """The log, to append what was fetched from the leader of `leader_epoch`.

        NotLeaderOrFollowerError where this broker leads by now; FencedLeaderEpochError or UnknownLeaderEpochError when
        the fetch was of another epoch; LogDirUnavailableError.
        """
        log = self._log_for(leader_epoch, leader_only=False)
        if self._led is not None:
            raise NotLeaderOrFollowerError(f"broker {self._node_id} leads {self.id} and follows no other")
        return log

    def follow_leader(self, log: UnifiedLog, high_watermark: int, log_start_offset: int) -> None:
        """The leader has stated its bounds, in the response whose records were just appended to `log`."""
        if log.follow_leader(high_watermark, log_start_offset):
            self._note_high_watermark()
        self._moved()

    # In-sync replicas and the high watermark

    @property
    def replication_factor(self) -> int:
        return len(self._followers) + 1

    @property
    def effective_min_isr(self) -> int:
        log = self._led
        return 0 if log is None else effective_min_isr(log.config.min_insync_replicas, self.replication_factor)

    @property
    def is_under_min_isr(self) -> bool:
        return self._led is not None and len(self.isr_state.isr) < self.effective_min_isr

    @property
    def is_at_min_isr(self) -> bool:
        return self._led is not None and len(self.isr_state.isr) == self.effective_min_isr

    @property
    def is_under_replicated(self) -> bool:
        return self._led is not None and len(self.isr_state.isr) < self.replication_factor

    def change_isr(self, state: IsrState) -> None:
        """A change of the ISR is proposed, committed or given up: the high watermark may have waited for it."""
        log = self._log_for(NO_LEADER_EPOCH, leader_only=True)
        self.isr_state = state
        if self._advance(log):
            self._moved()

    def update_follower(
        self,
        replica: int,
        end: LogOffsetMetadata,
        log_start_offset: int,
        *,
        leader_end: int,
        broker_epoch: int = ANY_BROKER_EPOCH,
    ) -> None:
        """A follower's fetch has shown how far its log goes. A broker epoch that is over changes nothing, and raises
        NotLeaderOrFollowerError."""
        log = self._log_for(NO_LEADER_EPOCH, leader_only=True)
        if self._brokers.is_outdated(replica, broker_epoch):
            raise NotLeaderOrFollowerError(
                f"{self.id}: broker {replica} is in epoch {self._brokers.live_epoch(replica)}, its fetch in "
                f"{broker_epoch}"
            )
        before = self._follower(replica, NO_LEADER_EPOCH)
        now_ms = self._clock.monotonic_ms()
        after = before.after_fetch(end, log_start_offset, leader_end, broker_epoch, now_ms)
        self._followers[replica] = after
        has_advanced = before.end.offset != after.end.offset and self._advance(log)
        if has_advanced or before.log_start_offset != after.log_start_offset:
            self._moved()

    def _follower(self, replica: int, current_leader_epoch: int) -> ReplicaState:
        state = self._followers.get(replica)
        if state is None:
            text = f"{replica} is no replica of {self.id} in partition epoch {self.partition_epoch}"
            # Who names the right leader epoch has heard of an assignment that we have not.
            known = current_leader_epoch != NO_LEADER_EPOCH
            raise UnknownLeaderEpochError(text) if known else NotLeaderOrFollowerError(text)
        return state

    def _advance(self, log: UnifiedLog) -> bool:
        """Move the high watermark as far as the replicas allow; whether it moved."""
        if self._followers and self.is_under_min_isr:
            return False
        new = self._replicated_end(log)
        if new.offset > log.recovery_point < log.flush_awaited:
            new = LogOffsetMetadata(log.recovery_point)
        has_moved = log.maybe_increment_high_watermark(new)
        if has_moved:
            self._note_high_watermark()
        return has_moved

    def _replicated_end(self, log: UnifiedLog) -> LogOffsetMetadata:
        if not self._followers:
            return log.local.end
        return committed_end(
            log.local.end,
            self._followers,
            self.isr_state.maximal_isr,
            self._brokers.may_join_isr,
            self._clock.monotonic_ms(),
            self._max_lag_ms,
        )

    def _flush_ended(self) -> None:
        if self._led is not None:
            self._advance(self._led)
        self._moved()

    def _note_high_watermark(self) -> None:
        if not self.is_unsaved:
            self.is_unsaved = True
            self._unsaved.append(self)

    # Reading

    def read(
        self,
        offset: int,
        max_bytes: int,
        isolation: Isolation = Isolation.HIGH_WATERMARK,
        min_one_message: bool = True,
        *,
        current_leader_epoch: int = NO_LEADER_EPOCH,
        last_fetched_epoch: int = NO_LEADER_EPOCH,
        leader_only: bool = True,
    ) -> ReadResult:
        """For consumers: as far as `isolation` lets them see. `last_fetched_epoch` finds out logs that diverge."""
        log = self._led
        if log is None or (current_leader_epoch != NO_LEADER_EPOCH and current_leader_epoch != self.leader_epoch):
            log = self._log_for(current_leader_epoch, leader_only)
        bounds = log.bounds
        high_watermark, stable, start = bounds.high_watermark.offset, bounds.last_stable, bounds.log_start
        if last_fetched_epoch != NO_LEADER_EPOCH:
            diverging = divergence(log, last_fetched_epoch, offset)
            if diverging is not None:
                return ReadResult(FetchData(LogOffsetMetadata(offset), None), high_watermark, stable, start, diverging)
        return ReadResult(log.read(offset, max_bytes, isolation, min_one_message), high_watermark, stable, start)

    def read_as_follower(
        self,
        replica: int,
        offset: int,
        max_bytes: int,
        min_one_message: bool = True,
        *,
        log_start_offset: int,
        broker_epoch: int = ANY_BROKER_EPOCH,
        current_leader_epoch: int = NO_LEADER_EPOCH,
        last_fetched_epoch: int = NO_LEADER_EPOCH,
    ) -> ReadResult:
        """A new fetch of the follower `replica`, whose log goes from `log_start_offset` to `offset`.

        Reads like `look_as_follower`, and updates what is known of the follower. Call it once for each fetch: a fetch
        that waits in the purgatory is not a new one, and a follower that does not fetch again must fall behind.
        """
        leader_end = self._log_for(current_leader_epoch, leader_only=True).local.end
        found = self.look_as_follower(
            replica,
            offset,
            max_bytes,
            min_one_message,
            current_leader_epoch=current_leader_epoch,
            last_fetched_epoch=last_fetched_epoch,
        )
        if found.diverging is None:
            end = leader_end if offset == leader_end.offset else found.data.start._replace(offset=offset)
            self.update_follower(
                replica, end, log_start_offset, leader_end=leader_end.offset, broker_epoch=broker_epoch
            )
        return found

    def look_as_follower(
        self,
        replica: int,
        offset: int,
        max_bytes: int,
        min_one_message: bool = True,
        *,
        current_leader_epoch: int = NO_LEADER_EPOCH,
        last_fetched_epoch: int = NO_LEADER_EPOCH,
    ) -> ReadResult:
        """What the follower `replica` is sent from `offset` on, up to the log end. Changes nothing.

        The errors are those of a fetch: the broker does not lead, the leader epoch differs, `replica` is not assigned.
        """
        self._log_for(current_leader_epoch, leader_only=True)
        self._follower(replica, current_leader_epoch)
        return self.read(
            offset,
            max_bytes,
            Isolation.LOG_END,
            min_one_message,
            current_leader_epoch=current_leader_epoch,
            last_fetched_epoch=last_fetched_epoch,
        )

    def readable_end(self, isolation: Isolation, current_leader_epoch: int = NO_LEADER_EPOCH) -> LogOffsetMetadata:
        """How far such a reader may see: a fetch that waits compares its own place with it."""
        return self._log_for(current_leader_epoch, leader_only=False).bound(isolation)

    # Asking for offsets

    def list_offsets(
        self,
        timestamp: int,
        isolation: Isolation = Isolation.HIGH_WATERMARK,
        current_leader_epoch: int = NO_LEADER_EPOCH,
        *,
        leader_only: bool = True,
    ) -> FoundOffset | None:
        """See `offset_listing`; LOG_END is the isolation of replicas. OffsetNotAvailableError."""
        log = self._log_for(current_leader_epoch, leader_only)
        return offset_listing.found(log, timestamp, isolation, self.leader_epoch, self.epoch_start_offset)

    def end_offset_for_epoch(
        self, current_leader_epoch: int, leader_epoch: int, *, leader_only: bool = True
    ) -> EpochEnd:
        """Where `leader_epoch`, or the one before it that is known, ended; (−1, −1) when that cannot be said."""
        return EpochEnd(*self._log_for(current_leader_epoch, leader_only).end_offset_for_epoch(leader_epoch))

    def active_producers(self) -> list[ProducerStateEntry]:
        return list(self._log_for(NO_LEADER_EPOCH, leader_only=False).producers.producers.values())

    # Deleting records

    @property
    def low_watermark(self) -> int:
        """The lowest log start among the replicas that live: below it nothing is anywhere any more."""
        lowest = self._log_for(NO_LEADER_EPOCH, leader_only=True).log_start_offset
        for replica, state in self._followers.items():
            if state.log_start_offset < lowest and self._brokers.is_alive(replica):
                lowest = state.log_start_offset
        return lowest

    def delete_records(
        self, offset: int, done: Callable[[int], None], failed: Callable[[TailraceError], None]
    ) -> int | None:
        """Forget everything below `offset`, or the high watermark for −1.

        `done` gets the offset when the leader's log begins there for good; the request is answered when
        `low_watermark` has reached it too. Returns the offset at which the log begins from now on, though a crash can
        undo that until `done` is called; None when `failed` was called.
        """
        try:
            log = self._log_for(NO_LEADER_EPOCH, leader_only=True)
            start = start_asked_for(log, offset)

            def ended() -> None:
                done(start)
                self._moved()

            self._log_starts.increment_log_start(self.id, start, ended, failed)
        except TailraceError as error:
            failed(error)
            return None
        return start
