"""A partition's log as the rest of the broker sees it: offsets, watermarks, producers, epochs over `LocalLog`.

    log start ≤ last stable ≤ high watermark ≤ log end        local log start ≥ log start

One thread owns a log: it alone appends, truncates, moves watermarks and completes jobs. `read`, `offset_by_time` and
the offset properties may be used from any thread at the same time and never wait.

Crash rules. An append that returned survives a killed process. It survives a loss of power once a flush that covers
it is done: `recovery_point` says how far. The caller that persists the recovery point lowers it before a truncation,
and persists the log start before the files below it are gone for good. Both are given to `loader.load` when the log is
opened again.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from tailrace.config.log import LogConfig
from tailrace.env import Buffer
from tailrace.model.errors import (
    InconsistentTopicIdError,
    InvalidDataError,
    LogTruncatingError,
    OffsetOutOfRangeError,
    SegmentGoneError,
    StorageError,
)
from tailrace.model.ids import NO_LEADER_EPOCH, TopicId
from tailrace.model.invariant import invariant
from tailrace.model.listeners import Listeners
from tailrace.model.offsets import MAX_RELATIVE_OFFSET, LogOffsetMetadata
from tailrace.record.batch_run import BatchRun
from tailrace.storage import offset_lookup, segment_deletion, segment_swap, swap
from tailrace.storage.append import AppendResult, check_epoch_goes_on
from tailrace.storage.appender import Appender
from tailrace.storage.epoch_cache import LeaderEpochCache
from tailrace.storage.fetch import FetchData, Isolation
from tailrace.storage.flusher import Flusher
from tailrace.storage.local_log import LocalLog
from tailrace.storage.offset_bounds import OffsetBounds
from tailrace.storage.offset_lookup import FoundOffset
from tailrace.storage.origin import Origin
from tailrace.storage.partition_metadata import PartitionMetadata
from tailrace.storage.producer_state import CapturedSnapshot, ProducerStateManager
from tailrace.storage.retention import Deletion
from tailrace.storage.segment import LogSegment
from tailrace.storage.steps import Steps, run_inline, to_the_end
from tailrace.storage.transaction_index import AbortedTxn
from tailrace.storage.truncator import Truncator
from tailrace.storage.validator import ValidationRules
from tailrace.storage.verification import NO_GUARD, VerificationGuard

T = TypeVar("T")


class UnifiedLog:
    """Made by `loader.load`."""

    def __init__(
        self,
        local: LocalLog,
        producers: ProducerStateManager,
        epochs: LeaderEpochCache,
        metadata: PartitionMetadata,
        *,
        log_start_offset: int,
        topic_id: TopicId | None,
        captured: Iterable[CapturedSnapshot] = (),
        unsynced_snapshots: Iterable[str] = (),
    ) -> None:
        self.local = local
        self.producers = producers
        self.epochs = epochs
        self._env = local.place.env
        self._metadata = metadata
        self._unwritten_topic_id: TopicId | None = None
        self.bounds = OffsetBounds(local, producers, epochs, log_start_offset)
        self._failure: StorageError | None = None
        self.awaits_truncation = False
        """Checkpoints may say already what the log will be: what is appended now could be lost by a crash."""
        self.on_failure: Listeners[StorageError] = Listeners()
        """A write has failed; on the owner's thread."""
        self.flush_awaited = 0
        """Sets below it are acknowledged when `recovery_point` has passed them: `flush.messages` was reached."""
        self.is_flushing_appends = False
        """A flush that sets wait for is under way; it need not cover all of them, see `flusher`."""
        self.on_flush_ended: Listeners[()] = Listeners()
        """A flush that sets wait for has ended, well or with a `failure`."""
        self.config = local.place.config
        self.use_config(self.config)
        self.topic_id = topic_id
        self._flusher = Flusher(local, producers, epochs, self._flush_trouble, captured, unsynced_snapshots)
        self._appender = Appender(self, self._env.jobs)
        self._truncator = Truncator(self, self._appender, self._flusher)

    @property
    def dir(self) -> str:
        return self.local.place.dir

    def __repr__(self) -> str:
        start, hw, end = self.log_start_offset, self.high_watermark, self.log_end_offset
        return f"UnifiedLog({self.dir}, start={start}, hw={hw}, end={end})"

    def use_config(self, config: LogConfig) -> None:
        """From the next append, roll or deletion on; a segment keeps the index settings it was made with."""
        self.config = config
        self.local.place = replace(self.local.place, config=config)
        self._rules = ValidationRules.of(config)

    def assign_topic_id(self, topic_id: TopicId) -> None:
        """Bind the directory to a topic. It is on disk before the first byte of data."""
        if self.topic_id is None:
            self.topic_id = self._unwritten_topic_id = topic_id
        elif self.topic_id != topic_id:
            raise InconsistentTopicIdError(f"{self.dir} belongs to topic id {self.topic_id}, not {topic_id}")

    # Offsets

    @property
    def log_start_offset(self) -> int:
        return self.bounds.log_start

    @property
    def local_log_start_offset(self) -> int:
        """Where data on this disk begins; above the log start where older segments are in a remote store."""
        return self.bounds.local_log_start

    @property
    def log_end_offset(self) -> int:
        return self.local.end_offset

    @property
    def high_watermark(self) -> int:
        return self.bounds.high_watermark.offset

    @property
    def recovery_point(self) -> int:
        return self.local.recovery_point

    @property
    def last_stable_offset(self) -> int:
        return self.bounds.last_stable

    def high_watermark_metadata(self) -> LogOffsetMetadata:
        """With its position, found now if it was not known. Any thread may ask; only the owner keeps the answer."""
        known = self.bounds.high_watermark
        return self.local.locate(known.offset) if known.is_offset_only else known

    def update_high_watermark(self, offset: int) -> int:
        """Move it forward to `offset`, or as far as the log end; returns what it became.

        It never moves back here: what a reader has seen stays visible until a truncation takes it away.
        """
        return self.bounds.update_high_watermark(offset)

    def maybe_increment_high_watermark(self, new: LogOffsetMetadata) -> bool:
        """Forward only, or into a new segment at the same offset. Beyond the log end it is refused."""
        return self.bounds.maybe_increment_high_watermark(new)

    def follow_leader(self, high_watermark: int, log_start: int) -> bool:
        """Take the leader's bounds as far as this log reaches; whether one of them moved. Neither moves back."""
        return self.bounds.follow_leader(high_watermark, log_start)

    def increment_log_start(self, offset: int) -> bool:
        """Forget everything below `offset` (delete-records, retention). Beyond the high watermark it is refused."""
        return self.bounds.increment_log_start(offset)

    def increment_local_log_start(self, offset: int) -> bool:
        """Local data begins later than the log: the segments before are in a remote store."""
        return self.bounds.increment_local_log_start(offset)

    # Appending

    def append_as_leader(
        self,
        sets: Sequence[Buffer],
        leader_epoch: int,
        origin: Origin = Origin.CLIENT,
        guard: VerificationGuard = NO_GUARD,
        transaction_version: int = 0,
    ) -> list[AppendResult]:
        """Validate each set, give it offsets, write all with as few writes as possible; one result for each set.

        A set may be patched in place. See `appender` for what holds when one is refused or a write fails. With
        `flush.messages` reached, a flush was started: see `flush_awaited` for when to acknowledge.
        """
        self._check_writable()
        now_ms = self._env.clock.now_ms()
        return self._appender.append_as_leader(
            sets, leader_epoch, origin, guard, self._rules, now_ms, transaction_version
        )

    def begin_epoch(self, leader_epoch: int) -> None:
        """A leader's epoch begins at the log end, on disk before anything is written in it.

        Also in the middle of a truncation, which is called off by nothing: the log end is the new one by then.
        """
        self._check_sound()
        self._do("note a leader epoch", lambda: self.epochs.assign(leader_epoch, self.local.end_offset))

    def append_as_follower(self, records: Buffer) -> AppendResult:
        """Take the leader's batches with the offsets they have.

        Raises UnexpectedAppendOffsetError when they begin below the log end.
        """
        self._check_writable()
        return self._appender.append_with_offsets(
            records, Origin.REPLICATION, NO_GUARD, self._env.clock.now_ms(), leader_epoch=None
        )

    def append_run_as_follower(self, run: BatchRun, data: memoryview) -> AppendResult:
        """Take the leader's batches with the offsets they have. `data` is exactly `run`, whose batches are proven.

        They begin at or above the log end, fit into a segment, and are of the latest epoch. See `follower_append`.
        """
        self._check_writable()
        return self._appender.append_run(run, data, self._env.clock.now_ms())

    def append_from_raft_leader(self, records: Buffer, leader_epoch: int) -> AppendResult:
        """Batches that a raft leader made, with offsets and epoch already in them."""
        self._check_writable()
        return self._appender.append_with_offsets(
            records, Origin.RAFT_LEADER, NO_GUARD, self._env.clock.now_ms(), leader_epoch
        )

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, supports_epoch_bump: bool
    ) -> VerificationGuard:
        """A guard for the first batch of a transaction; NO_GUARD when the transaction is open here already.

        InvalidProducerEpochError when a later epoch of the producer has been here.
        """
        known = self.producers.producers.get(producer_id)
        if known is not None:
            if self.producers.is_in_transaction(producer_id, epoch):
                return NO_GUARD
            check_epoch_goes_on(known, epoch)
        entry = self.producers.maybe_create_verification_state(
            producer_id, sequence, epoch, supports_epoch_bump, self._env.clock.now_ms()
        )
        return entry.guard

    def written(self) -> None:
        """Bytes were added at the end (the appender says so)."""
        local = self.local
        self.bounds.follow_end()
        if local.end_offset - local.recovery_point >= self.config.flush_messages:
            self.flush_awaited = local.end_offset
            if not self.is_flushing_appends:
                self._flush_appends()

    def _flush_appends(self) -> None:
        """One flush at a time; what is written meanwhile shares the next one."""
        covered, truncations = self.flush_awaited, self.local.truncations
        self.is_flushing_appends = True

        def ended() -> None:
            self.is_flushing_appends = False
            if self.flush_awaited > covered or self.local.truncations != truncations:
                self._flush_appends()
            self.on_flush_ended()

        self.flush(covered, ended)

    def failed(self, doing: str, cause: OSError) -> StorageError:
        """The error to answer with. Only a shortage, cleanly undone, leaves the log writable."""
        error = StorageError(f"{doing} in {self.dir}", cause)
        is_suspect = self.local.active.records.has_waste or self._flusher.sync_error is not None
        if is_suspect or not error.is_shortage:
            self._failure = error
        self.on_failure(error)
        return error

    @property
    def failure(self) -> StorageError | None:
        """Why it takes no writes any more, until it is opened again."""
        return self._failure

    def _do(self, doing: str, action: Callable[[], T], *, is_undone: bool = True) -> T:
        """`is_undone` says that the action, when it fails, leaves the log as it was."""
        try:
            return action()
        except OSError as cause:
            error = self.failed(doing, cause)
            if not is_undone:
                self._failure = error
            raise error from cause
        except InvalidDataError as damage:
            if not is_undone:
                self._failure = StorageError(f"{doing} in {self.dir}", OSError(errno.EIO, str(damage)))
            raise

    def _check_writable(self) -> None:
        if self.is_truncating:
            raise LogTruncatingError(f"{self.dir} is being truncated")
        self._check_sound()

    def _check_sound(self) -> None:
        if self._failure is not None:
            raise self._failure.with_traceback(None)  # else each raise would add to one that lives as long as the log
        if self._unwritten_topic_id is not None:
            self._do("write the topic id", self._write_topic_id)

    def _write_topic_id(self) -> None:
        if self._unwritten_topic_id is not None:
            self._metadata.write(self._unwritten_topic_id)
            self._unwritten_topic_id = None

    # Reading

    def read(
        self, offset: int, max_bytes: int, isolation: Isolation = Isolation.LOG_END, min_one_message: bool = True
    ) -> FetchData:
        """Whole batches' bytes from the one that holds `offset`, cut at `max_bytes` or the isolation's bound.

        The last batch of the slice may be partial. OffsetOutOfRangeError below the log start or beyond the log end.
        """
        if offset < self.bounds.log_start:
            raise OffsetOutOfRangeError(f"offset {offset} is below the start {self.bounds.log_start} of {self.dir}")
        truncations = self._truncator.count
        try:
            found = self.local.read(offset, max_bytes, self.bound(isolation), min_one_message)
            if isolation is Isolation.TXN_COMMITTED:
                found = found._replace(aborted=self.local.aborted_in(found))
        except OSError as cause:
            raise StorageError(f"read {self.dir} at offset {offset}", cause) from cause
        if self._truncator.count != truncations:
            raise SegmentGoneError(f"{self.dir} was truncated while offset {offset} was looked up")
        return found

    def bound(self, isolation: Isolation) -> LogOffsetMetadata:
        """How far a reader may see, with its position."""
        if isolation is Isolation.LOG_END:
            return self.local.end
        high_watermark = self.high_watermark_metadata()
        first_unstable = self.bounds.first_unstable
        if isolation is Isolation.HIGH_WATERMARK or first_unstable is None:
            return high_watermark
        if first_unstable.offset >= high_watermark.offset:
            return high_watermark
        return self.local.locate(first_unstable.offset) if first_unstable.is_offset_only else first_unstable

    def aborted_transactions(self, start: int, end: int) -> tuple[AbortedTxn, ...]:
        """Every aborted transaction that overlaps `start` ≤ offset < `end`."""
        try:
            return self.local.aborted_transactions(start, end)
        except OSError as cause:
            raise StorageError(f"read the aborted transactions of {self.dir}", cause) from cause

    def offset_by_time(self, timestamp: int) -> FoundOffset | None:
        """The first record at or after `timestamp`, or one of the special places of `offset_lookup`."""
        if timestamp == offset_lookup.LATEST:
            return FoundOffset(-1, self.log_end_offset, self._epoch_at_end())
        if timestamp in (offset_lookup.EARLIEST, offset_lookup.EARLIEST_LOCAL):
            is_local = timestamp == offset_lookup.EARLIEST_LOCAL
            offset = self.bounds.local_log_start if is_local else self.bounds.log_start
            epoch = self.epochs.epoch_for_offset(offset)
            return FoundOffset(-1, offset, NO_LEADER_EPOCH if epoch is None else epoch)
        if timestamp == offset_lookup.LATEST_TIERED:
            return FoundOffset(-1, -1)  # nothing is tiered
        try:
            if timestamp == offset_lookup.MAX_TIMESTAMP:
                return offset_lookup.with_largest_timestamp(self.local.segments, self.bounds.log_start)
            return offset_lookup.first_at_or_after(self.local.segments, timestamp, self.bounds.log_start)
        except OSError as cause:
            raise StorageError(f"look up timestamp {timestamp} in {self.dir}", cause) from cause

    def _epoch_at_end(self) -> int:
        epoch = self.epochs.latest_epoch
        return NO_LEADER_EPOCH if epoch is None else epoch

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """(epoch, end offset) that a follower with `leader_epoch` compares its log with; (−1, −1) when unknown."""
        return self.epochs.end_offset_for(leader_epoch, self.local.end_offset)

    # Rolling and flushing

    def roll(self, at_least: int = 0) -> LogSegment:
        """Begin a new segment at the log end, or behind a gap at `at_least`, which then is the log end."""
        self._check_writable()
        return self._do("roll", lambda: self._roll(max(at_least, self.local.end_offset)))

    def roll_for(self, first_offset: int, last_offset: int) -> None:
        """Begin a new segment for a set; one whose first offset is unknown gets the lowest base that can hold it."""
        self._roll(first_offset if first_offset >= 0 else last_offset - MAX_RELATIVE_OFFSET)

    def _roll(self, at_least: int) -> LogSegment:
        self._appender.finish_transactions()  # the snapshot takes them for ended
        if max(at_least, self.local.end_offset) > self.local.data_end and not self.config.compacts:
            # Where it fails, the snapshot behind the gap may be left, which speaks for offsets that are not written.
            new = self._do("roll behind a gap", lambda: self._roll_behind_gap(at_least), is_undone=False)
        else:
            new = self.local.roll(at_least)
        self.producers.update_map_end_offset(new.base_offset)
        self._flusher.capture(self.producers)
        self.bounds.follow_end()
        self.flush(new.base_offset)
        return new

    def _roll_behind_gap(self, at_least: int) -> LogSegment:
        """The next load would take the gap for a loss, unless a snapshot stands behind it. This blocks, and is rare."""
        self.producers.update_map_end_offset(max(at_least, self.local.end_offset))
        self._flusher.finish_now()
        return self.local.roll(at_least)

    def flush_due_ms(self) -> int:
        """When `flush.ms` asks for the next flush; far in the future with the default."""
        return self.local.last_flushed_ms + self.config.flush_ms

    def flush(self, offset: int | None = None, done: Callable[[], None] | None = None) -> None:
        """Start an fsync of everything below `offset` (the log end); `done` is called on the owner's thread after it.

        See `flusher` for what is synced, in which order, and what a failure means.
        """
        end = self.local.end_offset
        self._flusher.start(end if offset is None else min(offset, end), self._recovery_limit, done)

    def flushing(self, offset: int) -> Steps[None]:
        """As `flush`, but as steps of some longer work."""
        yield from self._flusher.in_steps(min(offset, self.local.end_offset), self._recovery_limit)

    def flushing_with_snapshots(self, offset: int) -> Steps[None]:
        """As `flushing`; then all snapshots of producers are durable as well."""
        yield from self.flushing(offset)
        yield from self._flusher.snapshots_in_steps()

    @property
    def _recovery_limit(self) -> int:
        """How far a flush may move the recovery point. In the middle of a truncation a load must prove what is left."""
        return self.recovery_point if self._truncator.is_under_way else self._appender.first_unfinished

    def flush_now(self) -> None:
        """Make everything durable before returning, with a producer snapshot at the log end. This blocks."""
        self._do("finish transactions", self._appender.finish_transactions)
        self._do("flush", self._flusher.finish_now)

    def _flush_trouble(self, doing: str, cause: OSError, *, is_fatal: bool) -> None:
        error = self.failed(doing, cause)
        if is_fatal:
            self._failure = self._failure or error
            self.on_flush_ended()

    # Deleting and truncating

    def delete_old_segments(self, checkpoint_log_start: Callable[[int], None]) -> list[Deletion]:
        """Let go of the segments that `retention` takes; returns them, oldest first.

        `checkpoint_log_start` must have made the log start durable when it returns. See `segment_deletion`.
        """
        self._check_writable()
        return segment_deletion.delete_old_segments(self, checkpoint_log_start, self._env.clock.now_ms())

    def replacing_segments(self, old: Sequence[LogSegment], new: Sequence[LogSegment]) -> Steps[None]:
        """Put compacted segments, whole and synced under `.cleaned`, in the place of old ones. See `segment_swap`."""
        self._check_writable()
        try:
            yield from to_the_end(segment_swap.swapping_in(self, old, new))
        except OSError as cause:
            error = self.failed("swap in compacted segments", cause)
            if not swap.were_given_up(new):
                self._failure = error
            raise error from cause

    @property
    def is_truncating(self) -> bool:
        """The log is cut in memory and not yet on the disk, or about to be: it takes no appends, rolls or deletions."""
        return self._truncator.is_under_way or self.awaits_truncation

    def _check_can_be_cut(self) -> None:
        if self._truncator.is_under_way:
            raise LogTruncatingError(f"{self.dir} is being truncated to {self.log_end_offset}")
        self._check_sound()

    def truncating(self, offset: int) -> Steps[bool]:
        """Drop everything from `offset` on, durably at the end; whether there was anything.

        Before the first step, the caller has made a recovery point durable that is not above `offset`. The first step
        cuts the log in memory: readers see the new end, what is below it can be read all the time, appends are refused
        with LogTruncatingError until the end. Once begun, it cannot be called off, but ends with a CalledOffError when
        the log is closed or abandoned. What fails leaves a log that refuses writes until it is opened again.
        """
        invariant(offset >= 0, f"truncate {self.dir} to {offset}")
        self._check_can_be_cut()
        if offset >= self.local.end_offset:
            self.epochs.truncate_from_end(self.local.end_offset)
            return False
        first = self.local.segments.first
        if first is not None and first.base_offset > offset:
            yield from self.restarting_at(offset, offset)
        else:
            self._do("finish transactions", self._appender.finish_transactions)
            yield from self._truncating(f"truncate to {offset}", self._truncator.truncating(offset))
        return True

    def restarting_at(self, offset: int, log_start: int | None = None) -> Steps[None]:
        """Empty the log and go on at `offset`; the log start is there too, unless given. As `truncating`.

        Before the first step, the log start is durable, and a recovery point that is not above it.
        """
        self._check_can_be_cut()
        start = offset if log_start is None else log_start
        yield from self._truncating(f"restart at {offset}", self._truncator.restarting_at(offset, start))

    def _truncating(self, doing: str, steps: Steps[None]) -> Steps[None]:
        try:
            yield from to_the_end(steps)
        except OSError as cause:
            error = self._failure = self.failed(doing, cause)
            raise error from cause
        except InvalidDataError as damage:
            self._failure = StorageError(f"{doing} in {self.dir}", OSError(errno.EIO, str(damage)))
            raise

    def truncate_to(self, offset: int) -> bool:
        """All steps of `truncating` at once, for tools and tests. This blocks."""
        return run_inline(self.truncating(offset))

    def restart_at(self, offset: int, log_start: int | None = None) -> None:
        """All steps of `restarting_at` at once, for a load, tools and tests. This blocks."""
        run_inline(self.restarting_at(offset, log_start))

    # Moving and ending

    @property
    def is_flushing(self) -> bool:
        return self._flusher.on_their_way > 0

    @property
    def is_let_go(self) -> bool:
        """It is closed, abandoned, or about to be closed on another thread: its files may be another's."""
        return self._flusher.is_ended

    def moved_to(self, directory: str) -> None:
        """The directory was renamed, while no flush and no truncation was on its way."""
        self.local.moved_to(directory)
        self._flusher.moved_to(directory)
        self.producers.move_to(directory)
        self.epochs.moved_to(directory)
        self._metadata.moved_to(directory)

    def hand_over(self) -> None:
        """Another thread is about to `close` the log: flushes under way change nothing here, listeners are dropped."""
        self._flusher.is_ended = True
        self.on_failure.clear()
        self.on_flush_ended.clear()

    def close(self) -> None:
        """Leave everything durable and finished, so that the next load with `was_clean` needs no recovery.

        Raises StorageError when that cannot be said of a log: it needs recovery, and `abandon` to let go of it.
        """
        self._do("close", self._close)

    def _close(self) -> None:
        if self._flusher.sync_error is not None:
            self._failure = StorageError(f"flush in {self.dir}", self._flusher.sync_error)
        if self._truncator.is_under_way:
            self._failure = StorageError(f"close {self.dir}", OSError(errno.EBUSY, "a truncation is under way"))
        if self._failure is None:
            self._write_topic_id()
            self._appender.finish_transactions()
            self.local.finish()
            self._flusher.finish_now()
        self.abandon()
        if self._failure is not None:
            raise self._failure

    def abandon(self) -> None:
        """Let go of every handle and write nothing: the directory has failed or is being removed."""
        self._flusher.is_ended = True
        self.epochs.end()
        self.local.release()
