"""The writing half of a log: sets of batches come in, a result for each goes out, as few writes as possible between.

For each set: validate and give offsets, note epochs, check its size, roll if it does not fit, check its producers,
then let it wait with the others of the call; then one write for all, and only then producer state, transaction index,
end offset and watermark follow. A set that is refused uses no offset and does not hold up the others.

When a write fails, none of the sets of that write are in the log and each has the error, as have all sets of the call
after them; sets that an earlier write took (a roll came between, or a producer whose state had to be settled) stand
and say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.env import Buffer, Jobs
from tailrace.model.errors import (
    InvalidRecordError,
    OffsetOutOfRangeError,
    RecordListTooLargeError,
    SegmentOffsetOverflowError,
    TailraceError,
    UnexpectedAppendOffsetError,
)
from tailrace.model.offsets import GREATEST_OFFSET, MAX_RELATIVE_OFFSET, LogOffsetMetadata
from tailrace.record.batch_run import BatchRun
from tailrace.record.shallow import NO_TIMESTAMP, ShallowBatch
from tailrace.storage.append import NO_OFFSET, AppendResult, ProducerChanges, WriteGroup, examine_producers
from tailrace.storage.append_set import analyse
from tailrace.storage.origin import Origin
from tailrace.storage.producer_append import ProducerAppendInfo
from tailrace.storage.producer_entry import BATCHES_KEPT, CompletedTxn
from tailrace.storage.producer_replay import marker_of
from tailrace.storage.segment import LogSegment
from tailrace.storage.transaction_index import AbortedTxn
from tailrace.storage.validation import MAX_INT64
from tailrace.storage.validator import ValidationRules, admit_plain, plain_rules, prepare_leader_set
from tailrace.storage.verification import VerificationGuard

if TYPE_CHECKING:
    from tailrace.storage.unified_log import UnifiedLog

_tuple: Final = tuple.__new__  # a named tuple's own constructor takes longer than the rest of a set's way
FINISH_RETRY_MS: Final = 5000
_LAST_END_OFFSET: Final = GREATEST_OFFSET - MAX_RELATIVE_OFFSET  # a set has fewer records than its int32 of bytes


class Room(NamedTuple):
    """Sets of one batch in the epoch that is known join a group at once up to these bounds, if they have no producer id
    or simply follow what their producer sent before.

    Nearly every set does. What `_admit` would ask about epoch and segment is asked here once for all sets of a call.
    """

    size_bytes: int
    max_timestamp: int
    last_offset: int


NO_ROOM: Final = Room(-1, -1, -1)


class Arrival:
    """One set with the offsets it will have, and what the checks need to know of it."""

    __slots__ = (
        "batches",
        "buffer",
        "first_offset",
        "guard",
        "last_offset",
        "max_timestamp",
        "now_ms",
        "origin",
        "transaction_version",
    )

    def __init__(
        self,
        buffer: Buffer,
        batches: tuple[ShallowBatch, ...],
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        now_ms: int,
        origin: Origin,
        guard: VerificationGuard,
        transaction_version: int = 0,
    ) -> None:
        self.buffer = buffer
        self.batches = batches
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.max_timestamp = max_timestamp
        self.now_ms = now_ms
        self.origin = origin
        self.guard = guard
        self.transaction_version = transaction_version


class Appender:
    """Belongs to one UnifiedLog and runs on its owner's thread."""

    def __init__(self, log: UnifiedLog, jobs: Jobs) -> None:
        self._log = log
        self._jobs = jobs
        self._local = log.local
        self._producers = log.producers
        self._epochs = log.epochs
        self._unfinished: list[tuple[LogSegment, CompletedTxn]] = []
        """Markers in the log whose transaction could not be entered in its index yet; they hold back the LSO."""
        self._will_retry = False

    def append_as_leader(
        self,
        sets: Sequence[Buffer],
        leader_epoch: int,
        origin: Origin,
        guard: VerificationGuard,
        rules: ValidationRules,
        now_ms: int,
        transaction_version: int = 0,
    ) -> list[AppendResult]:
        log_start = self._log.log_start_offset
        group = WriteGroup(self._local.end_offset)
        if group.next_offset > _LAST_END_OFFSET:
            raise OffsetOutOfRangeError(f"{self._local.place.dir} ends at {group.next_offset}: no offsets are left")
        results: list[AppendResult] = []
        room = self._room() if leader_epoch == self._epochs.latest_epoch else NO_ROOM
        plain = plain_rules(rules, now_ms) if origin is Origin.CLIENT else None
        batches: tuple[ShallowBatch, ...]
        for records in sets:
            if group.failure is not None:
                results.append(AppendResult(NO_OFFSET, NO_OFFSET, -1, log_start, group.failure))
                continue
            try:
                batch = admit_plain(records, group.next_offset, leader_epoch, plain) if plain is not None else None
                if batch is not None:
                    _, _, _, first_offset, last_offset, max_timestamp, *_ = batch
                    buffer, batches, append_time_ms = records, (batch,), NO_TIMESTAMP
                else:
                    prepared = prepare_leader_set(
                        records,
                        first_offset=group.next_offset,
                        leader_epoch=leader_epoch,
                        now_ms=now_ms,
                        rules=rules,
                        origin=origin,
                    )
                    if prepared is None:
                        results.append(AppendResult(NO_OFFSET, NO_OFFSET, -1, log_start))
                        continue
                    buffer, batches, first_offset, last_offset, max_timestamp, _, append_time_ms, _ = prepared
                if (
                    group.size + len(buffer) <= room.size_bytes
                    and max_timestamp <= room.max_timestamp
                    and last_offset <= room.last_offset
                    and len(batches) == 1
                    and (batches[0].producer_id < 0 or self._follows(batches[0], group, origin))
                ):
                    group.batches.append(batches[0])
                    group.parts.append(buffer)
                    group.size += len(buffer)
                    result = None
                else:
                    room = NO_ROOM  # what follows may roll
                    arrival = Arrival(buffer, batches, first_offset, last_offset, max_timestamp, now_ms, origin, guard)
                    arrival.transaction_version = transaction_version
                    result = self._admit(arrival, group, results)
            except TailraceError as error:
                # Kept as a value, it must not keep the frames that it came through: they hold the records.
                results.append(AppendResult(NO_OFFSET, NO_OFFSET, -1, log_start, error.with_traceback(None)))
                continue
            except OSError as cause:
                group.failure = self._log.failed("append", cause)
                results.append(AppendResult(NO_OFFSET, NO_OFFSET, -1, log_start, group.failure))
                continue
            if result is None:
                group.result_places.append(len(results))
                group.next_offset = last_offset + 1
                taken = (first_offset, last_offset, append_time_ms, log_start, None, False)
                result = _tuple(AppendResult, taken)
            results.append(result)
        self._write(group, results)
        return results

    def _room(self) -> Room:
        """What the active segment takes without a question: nothing while it is empty, as the first batch decides."""
        active, config = self._local.active, self._log.config
        if not active.size or active.offset_index.is_full or active.time_index.is_full:
            return NO_ROOM
        try:
            first = active.first_timestamp
        except OSError:  # the longer way comes to the disk again, and knows what a failing one means
            return NO_ROOM
        if first < 0:
            return NO_ROOM
        return Room(
            config.segment_bytes - active.size,
            first + config.segment_ms - active.roll_jitter_ms,
            active.base_offset + MAX_RELATIVE_OFFSET,
        )

    def _follows(self, batch: ShallowBatch, group: WriteGroup, origin: Origin) -> bool:
        """Whether it is the next one of its producer, also behind one that waits here; it is noted then."""
        producer_id = batch.producer_id
        known = group.followed.get(producer_id)
        if known is None:
            known = self._producers.producers.get(producer_id)
        if known is None or origin is not Origin.CLIENT or self._producers.verification_entry(producer_id) is not None:
            return False
        after = known.followed_by(batch)
        if after is None:
            return False
        group.followed[producer_id] = after
        return True

    def append_with_offsets(
        self, records: Buffer, origin: Origin, guard: VerificationGuard, now_ms: int, leader_epoch: int | None
    ) -> AppendResult:
        """Batches that have their offsets, and their epochs, already."""
        given = analyse(records, max_message_bytes=None, ignore_size=True)
        log_start = self._log.log_start_offset
        if given.valid_bytes <= 0:
            return AppendResult(NO_OFFSET, NO_OFFSET, -1, log_start)
        name = self._local.place.dir
        if not given.offsets_monotonic:
            raise InvalidRecordError(f"batches for {name} are not in the order of their offsets")
        if leader_epoch is not None and any(batch.leader_epoch != leader_epoch for batch in given.batches):
            raise InvalidRecordError(f"batches for {name} are not all of epoch {leader_epoch}")
        first = given.first_offset if given.first_offset >= 0 else given.batches[0].last_offset
        if first < self._local.end_offset:
            raise UnexpectedAppendOffsetError(
                f"batches begin at {first}, below the end {self._local.end_offset} of {name}", first, given.last_offset
            )
        if given.last_offset - first > MAX_RELATIVE_OFFSET:
            raise SegmentOffsetOverflowError(f"batches for {name} go from offset {first} to {given.last_offset}")
        if first > self._local.end_offset:
            # A roll to the other side of the gap moves the log end: nothing may be refused after it.
            examine_producers(
                self._producers, given.buffer, given.batches, LogOffsetMetadata(first), origin, guard, must_verify=False
            )
        group = WriteGroup(self._local.end_offset)
        results = [AppendResult(first, given.last_offset, -1, log_start)]
        arrival = Arrival(
            given.buffer,
            given.batches,
            given.first_offset,
            given.last_offset,
            given.max_timestamp,
            now_ms,
            origin,
            guard,
        )
        try:
            self._admit(arrival, group, results)
        except OSError as cause:
            raise self._log.failed("append", cause) from cause
        group.result_places.append(0)
        self._write(group, results)
        if results[0].error is not None:
            raise results[0].error
        return results[0]

    def append_run(self, run: BatchRun, data: memoryview, now_ms: int) -> AppendResult:
        """Proven batches of the latest epoch that have their offsets already, at or above the log end, and fit into one
        segment; they are exactly `data`. InvalidRecordError for a control batch that cannot be read."""
        first_offset, last_offset = run.batch(0, data).base_offset, run.next_offset - 1
        for number in run.markers():
            marker_of(data, run.batch(number, data))
        try:
            if self._local.active.should_roll(self._log.config, now_ms, len(data), run.largest_timestamp, last_offset):
                self._log.roll_for(first_offset, last_offset)
            changes = self._changes_of(run, data)
            self._local.append_run(run, data)
        except OSError as cause:
            raise self._log.failed("append", cause) from cause
        self._producers.update_map_end_offset(self._local.end_offset)
        if changes is not None:
            self._believe([changes])
        self._log.written()
        return AppendResult(first_offset, last_offset, NO_TIMESTAMP, self._log.log_start_offset)

    def _changes_of(self, run: BatchRun, data: memoryview) -> ProducerChanges | None:
        """What the batches of a leader, whom a follower believes, do to producer state."""
        active, state = self._local.active, self._producers
        updates: dict[int, ProducerAppendInfo] = {}
        completed: list[CompletedTxn] = []
        for number in run.to_replay(BATCHES_KEPT):
            batch = run.batch(number, data)
            info = updates.get(batch.producer_id)
            if info is None:
                info = updates[batch.producer_id] = state.prepare_update(batch.producer_id, Origin.REPLICATION)
            marker = marker_of(data, batch) if batch.is_control else None
            position = active.size + batch.position
            ended = info.append(batch, LogOffsetMetadata(batch.base_offset, active.base_offset, position), marker)
            if ended is not None:
                completed.append(ended)
            if batch.is_transactional:
                state.settle_verification(batch.producer_id, batch.producer_epoch, False)
        return ProducerChanges(updates, completed) if updates else None

    def _admit(self, arrival: Arrival, group: WriteGroup, results: list[AppendResult]) -> AppendResult | None:
        """Epochs, size, roll, producers, in this order; then the set joins the group.

        Returns a result only for a duplicate, which joins nothing.
        """
        batches = arrival.batches
        has_producers = False
        for batch in batches:
            if batch.magic == 2:
                if batch.leader_epoch >= 0:
                    self._epochs.assign(batch.leader_epoch, batch.base_offset)
                if batch.producer_id > -1:
                    has_producers = True
            else:
                self._epochs.clear()  # truncation falls back to the high watermark until epochs are known again
        size = len(arrival.buffer)
        config = self._log.config
        if size > config.segment_bytes:
            raise RecordListTooLargeError(
                f"{size} bytes in one append to {self._local.place.dir}; segment.bytes is {config.segment_bytes}"
            )
        now_ms, timestamp, last_offset = arrival.now_ms, arrival.max_timestamp, arrival.last_offset
        if self._local.active.should_roll(config, now_ms, group.size + size, timestamp, last_offset) or (
            group.size and self._is_too_late_for(group, arrival)
        ):
            self._write_before(group, results)
            if self._local.active.should_roll(config, now_ms, size, timestamp, last_offset):
                self._log.roll_for(arrival.first_offset, last_offset)
        if has_producers:
            changes = self._examine(arrival, group, results)
            repeated = changes.duplicate
            if repeated is not None:
                return AppendResult(
                    repeated.first_offset,
                    repeated.last_offset,
                    repeated.timestamp,
                    self._log.log_start_offset,
                    is_duplicate=True,
                )
            group.changes.append(changes)
        group.batches.extend(batches)
        group.parts.append(arrival.buffer)
        group.size += size
        return None

    def _is_too_late_for(self, group: WriteGroup, arrival: Arrival) -> bool:
        """Whether `segment.ms` lies between the set and the first one that waits for an empty segment.

        As `LogSegment.age_for_roll_ms` will say when that one is written."""
        active = self._local.active
        first = group.batches[0].max_timestamp
        age_ms = arrival.max_timestamp - first if first >= 0 else arrival.now_ms - active.created_ms
        return active.size == 0 and age_ms > self._log.config.segment_ms - active.roll_jitter_ms

    def _write_before(self, group: WriteGroup, results: list[AppendResult]) -> None:
        """Write what waits, because the next set builds on it; when that fails, the next set fails with it."""
        self._write(group, results)
        if group.failure is not None:
            raise group.failure

    def _examine(self, arrival: Arrival, group: WriteGroup, results: list[AppendResult]) -> ProducerChanges:
        if group.touches_producer(arrival.batches):
            self._write_before(group, results)
        active = self._local.active
        place = LogOffsetMetadata(arrival.first_offset, active.base_offset, active.size + group.size)
        return examine_producers(
            self._producers,
            arrival.buffer,
            arrival.batches,
            place,
            arrival.origin,
            arrival.guard,
            must_verify=self._producers.verifies_transactions,
            transaction_version=arrival.transaction_version,
        )

    def _write(self, group: WriteGroup, results: list[AppendResult]) -> None:
        """One write for the whole group, then everything that follows from it."""
        if not group.batches:
            return
        try:
            self._local.append(group.batches, group.parts, group.size)
        except OSError as cause:
            group.failure = error = self._log.failed("append", cause)
            for place in group.result_places:
                results[place] = AppendResult(NO_OFFSET, NO_OFFSET, -1, self._log.log_start_offset, error)
            group.clear()
            return
        changes, followed = group.changes, group.followed
        group.clear()
        self._producers.update_map_end_offset(self._local.end_offset)
        if followed:
            self._producers.update_followed(followed)
        if changes or self._unfinished:
            self._believe(changes)
        self._log.written()

    def _believe(self, all_changes: list[ProducerChanges]) -> None:
        """Take over producer state; an aborted transaction is in its index before it counts as completed.

        Where the index cannot be written the last stable offset stays where it is, and the entry is tried again
        after `FINISH_RETRY_MS`, with the next write, before a roll, a truncation and a close. The batches are in the
        log all the same.
        """
        for changes in all_changes:
            for info in changes.updates.values():
                self._producers.update(info)
            self._unfinished.extend((self._local.active, completed) for completed in changes.completed)
        try:
            self.finish_transactions()
        except OSError as cause:
            self._log.failed("write a transaction index", cause)
            self._retry_later()

    def _retry_later(self) -> None:
        """A log that takes no more writes would keep its readers below the transaction for good."""
        if not self._will_retry:
            self._will_retry = True
            self._jobs.later("finish-transactions", FINISH_RETRY_MS, self._retry)

    def _retry(self) -> None:
        self._will_retry = False
        if not self._log.is_let_go and self._log.failure is None:
            self._believe([])

    @property
    def first_unfinished(self) -> int:
        """Offset of the first marker whose abort may be missing in its index: the recovery point must not pass it."""
        return self._unfinished[0][1].last_offset if self._unfinished else MAX_INT64

    def finish_transactions(self) -> None:
        """Complete, in their order, the transactions whose markers are in the log."""
        try:
            while self._unfinished:
                segment, completed = self._unfinished[0]
                if completed.is_aborted:
                    self._local.names_change()
                    segment.add_aborted(AbortedTxn(*completed[:3], self._producers.last_stable_offset(completed)))
                self._producers.complete_txn(completed)
                del self._unfinished[0]
        finally:
            self._log.bounds.refresh_first_unstable()

    def forget_unfinished(self) -> None:
        """A truncation has rebuilt producer state from the log, unfinished transactions included."""
        self._unfinished.clear()
