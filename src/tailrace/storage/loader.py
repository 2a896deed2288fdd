"""Opening a log directory: settle what a crash left half done, prove what may be torn, rebuild what is derived.

    1  what a swap or a deletion left is settled (`swap_settling`)
    2  every segment is opened; an index without data goes; data without an offset index is indexed anew
    3  unless the shutdown was clean, every segment from the recovery point on is proven (`segment_recovery`); at the
       first one that is cut, or that does not join the one before, the rest of the log is dropped
    4  a log that ends below its log start is emptied and begins again at the log start
    5  epochs are cut at both ends, producer state is rebuilt up to the log end

Everything that is removed is durably gone before the log takes an append: a name that came back beside new data
would make a log that never was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from tailrace.config.log import MAX_LONG, LogConfig
from tailrace.env import Env
from tailrace.model.errors import (
    CorruptCheckpointError,
    CorruptIndexError,
    CorruptMessageError,
    InconsistentTopicIdError,
    SegmentOffsetOverflowError,
    StorageError,
)
from tailrace.model.ids import TopicId
from tailrace.model.noop import noop
from tailrace.model.offsets import MAX_RELATIVE_OFFSET
from tailrace.storage import names, producer_replay
from tailrace.storage.epoch_cache import EpochEntry, LeaderEpochCache
from tailrace.storage.local_log import LocalLog
from tailrace.storage.partition_metadata import PartitionMetadata
from tailrace.storage.producer_state import CapturedSnapshot, ProducerStateManager
from tailrace.storage.segment import LogSegment, SegmentPlace
from tailrace.storage.segment_recovery import SegmentRecovery
from tailrace.storage.segments import LogSegments
from tailrace.storage.swap import split_overflowing
from tailrace.storage.swap_settling import settle_interrupted_swap
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.warm import WarmSet

_log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What the broker remembers of a log between two runs. The defaults are right for a log never seen before.

    `topic_id` is the one that the cluster's metadata has for the topic: a directory of another id is refused.
    `was_compacted`: the log has gaps that compaction left, whatever its `cleanup.policy` is now.
    """

    recovery_point: int = 0
    log_start_offset: int = 0
    was_clean: bool = False
    was_compacted: bool = False
    topic_id: TopicId | None = None
    max_transaction_timeout_ms: int = 900_000
    producer_expiration_ms: int = 86_400_000
    verifies_transactions: bool = False


def load(
    env: Env,
    directory: str,
    config: LogConfig,
    warm: WarmSet,
    options: LoadOptions | None = None,
    progress: Callable[[int], None] = noop,
) -> UnifiedLog:
    """Open the log in `directory`, which is made if it is missing.

    `progress` is told, before each segment that must be proven, how many are left.
    Raises InconsistentTopicIdError for another topic's directory, StorageError when the disk refuses; damage that
    the crash rules allow is repaired and logged.
    """
    try:
        return _Loading(env, directory, config, warm, options or LoadOptions(), progress).run()
    except OSError as cause:
        raise StorageError(f"load {directory}", cause) from cause


class _Loading:
    def __init__(
        self,
        env: Env,
        directory: str,
        config: LogConfig,
        warm: WarmSet,
        options: LoadOptions,
        progress: Callable[[int], None],
    ) -> None:
        self._progress = progress
        self._files = env.files
        self._now_ms = env.clock.now_ms()
        self._options = options
        self._place = SegmentPlace(env, directory, config, warm)
        self._segments = LogSegments()
        self._captured: list[CapturedSnapshot] = []
        self._unsynced: list[str] = []
        self._finished: tuple[LogSegment, ...] = ()
        self._proven: ProducerStateManager | None = None
        self._made_by_splits: set[int] = set()
        self._unsplittable: set[int] = set()
        self._make_directory()
        self._epochs = LeaderEpochCache(env.files, env.jobs, directory)
        self._metadata = PartitionMetadata(env.files, directory)

    def run(self) -> UnifiedLog:
        topic_id = self._check_topic_id()
        settle_interrupted_swap(self._place)
        self._load_epochs()
        self._open_segments()
        self._remove_below_log_start()
        self._with_splits(self._find_overflow)
        end_offset = self._with_splits(self._recover)
        end_offset = self._restart_if_below_log_start(end_offset)
        first = self._segments.first
        assert first is not None
        log_start = max(self._options.log_start_offset, first.base_offset)
        self._epochs.truncate_from_end(end_offset)
        self._epochs.truncate_from_start(log_start)
        if self._epochs_are_damaged:
            self._epochs.sync_now()
        producers = self._producers()
        if self._proven is not None and self._proven.map_end_offset == end_offset:
            producers = self._proven  # built from a snapshot and every batch behind it just now
        producers.remove_stray_snapshots(self._segments.base_offsets)
        if not self._options.was_clean:
            producers.discard_torn_snapshots()
        producer_replay.rebuild(
            producers,
            self._segments,
            log_start,
            end_offset,
            self._now_ms,
            was_clean=self._options.was_clean,
            take_snapshot=self._take_snapshot,
        )
        if producers.deleted_snapshots:
            self._sync_names()
        if self._segments.active is not None:
            self._segments.active.check_indexes_to(end_offset)
            self._segments.active.become_active()
        recovery_point = end_offset if self._options.was_clean else min(self._options.recovery_point, end_offset)
        log = UnifiedLog(
            LocalLog(
                self._place,
                self._segments,
                end_offset,
                recovery_point,
                self._finished,
                may_have_gaps=self._options.was_compacted,
            ),
            producers,
            self._epochs,
            self._metadata,
            log_start_offset=log_start,
            topic_id=topic_id,
            captured=self._captured,
            unsynced_snapshots=self._unsynced if self._options.was_clean else producers.snapshot_paths,
        )
        if topic_id is None and self._options.topic_id is not None:
            log.assign_topic_id(self._options.topic_id)
        return log

    def _make_directory(self) -> None:
        directory = self._place.dir
        if not self._files.exists(directory):
            self._files.make_dir(directory)
            parent = directory.rpartition("/")[0]
            if parent:
                self._files.sync_dir(parent)

    def _sync_names(self) -> None:
        self._files.sync_dir(self._place.dir)

    def _check_topic_id(self) -> TopicId | None:
        found = self._metadata.read()
        wanted = self._options.topic_id
        if found is not None and wanted is not None and found != wanted:
            raise InconsistentTopicIdError(f"{self._place.dir} belongs to topic id {found}, not {wanted}")
        return found

    def _producers(self) -> ProducerStateManager:
        return ProducerStateManager(
            self._files,
            self._place.dir,
            max_transaction_timeout_ms=self._options.max_transaction_timeout_ms,
            producer_expiration_ms=self._options.producer_expiration_ms,
            verifies_transactions=self._options.verifies_transactions,
        )

    def _take_snapshot(self, producers: ProducerStateManager) -> None:
        """What was closed cleanly is durable; what was proven just now may be in the page cache only."""
        if self._options.was_clean:
            path = producers.take_snapshot()
            if path is not None:
                self._unsynced.append(path)
            return
        captured = producers.capture_snapshot()
        if captured is not None:
            self._captured.append(captured)

    # 2: the segments

    def _load_epochs(self) -> None:
        self._epochs_are_damaged = False
        try:
            self._epochs_are_lost = not self._epochs.load()
        except CorruptCheckpointError as error:
            _log.warning("%s; leader epochs are read from the batches again", error)
            self._epochs_are_lost = self._epochs_are_damaged = True

    def _find_overflow(self) -> None:
        """In a segment that is not looked at otherwise; the base of the next one rules it out nearly always."""
        for segment, following in pairwise(self._segments):
            try:
                if not segment.can_hold(following.base_offset - 1) and self._overflows(segment, segment.next_offset()):
                    raise _FoundOverflowError(segment)
            except CorruptMessageError as damage:
                _log.warning("%r cannot be read to its end: %s", segment, damage)

    def _overflows(self, segment: LogSegment, next_offset: int) -> bool:
        """One that cannot be split is damaged: readers will be told, and an active one is proven."""
        is_splittable = segment.base_offset not in self._unsplittable
        return is_splittable and next_offset - 1 > segment.base_offset + MAX_RELATIVE_OFFSET

    def _with_splits(self, step: Callable[[], T]) -> T:
        """Run a step again after each segment that it found to overflow has been split."""
        while True:
            try:
                return step()
            except _FoundOverflowError as found:
                base_offset = found.segment.base_offset
                if base_offset in self._unsplittable:
                    raise CorruptMessageError(f"{found.segment!r} spans too many offsets and cannot be split") from None
                _log.warning("%r spans too many offsets and is split", found.segment)
                # Recovery noted epochs up to here and begins later next time: they are read from all batches instead.
                self._epochs_are_lost = True
                self._epochs.clear()
                self._epochs.sync_now()
                made = split_overflowing(self._place, self._segments, found.segment)
                self._made_by_splits.update(segment.base_offset for segment in made)
                if len(made) == 1:
                    self._unsplittable.add(base_offset)
                self._open_segments()

    def _open_segments(self) -> None:
        """In ascending order: a transaction index depends on the segments before."""
        listed = {entry.name for entry in self._files.list(self._place.dir) if not entry.is_dir}
        for name in sorted(listed):
            offset = names.parse_offset(name)
            if offset is None:
                continue
            if name.endswith(names.INDEX_SUFFIXES) and names.log_name(offset) not in listed:
                _log.warning("%s: remove the index %s, which has no data", self._place.dir, name)
                self._files.unlink(self._place.path(name))
            elif name == names.log_name(offset):
                self._segments.add(LogSegment.open(self._place, offset))
        for segment in self._durable_segments():
            self._mend_indexes(segment, listed)

    def _remove_below_log_start(self) -> None:
        """What a deletion that a crash cut short has left, maybe with holes in it, must not be proven or replayed."""
        if self._options.was_clean:
            return
        log_start = self._options.log_start_offset
        below = [segment for segment, following in pairwise(self._segments) if following.base_offset <= log_start]
        self._segments.remove(below)
        for segment in below:
            _log.info("%r is removed: it lies below the log start %d", segment, log_start)
            segment.delete()
        if below:
            self._sync_names()

    def _durable_segments(self) -> tuple[LogSegment, ...]:
        """Those that `_recover` will not prove, and whose indexes therefore must be right as they are."""
        if self._options.was_clean:
            return tuple(self._segments)
        torn = self._segments.floor(self._options.recovery_point)
        return self._segments.covering(0, torn.base_offset) if torn is not None else ()

    def _mend_indexes(self, segment: LogSegment, listed: set[str]) -> None:
        """Durable data is never cut here, whatever it looks like: only its indexes are made anew."""
        base = segment.base_offset
        try:
            if names.offset_index_name(base) not in listed:
                raise CorruptIndexError(f"{self._place.dir} has no {names.offset_index_name(base)}")
            segment.txn_index.sanity_check()
            if names.time_index_name(base) not in listed:
                segment.rebuild_indexes()
        except CorruptIndexError as error:
            _log.warning("%s; the indexes of %r are made anew", error, segment)
            # A transaction index that is half made looks like a whole one: without the others it is made again.
            segment.drop_indexes()
            producers = self._producers_at(base)
            segment.txn_index.reset()
            try:
                producer_replay.replay_segment(producers, segment, base, MAX_LONG, segment.add_aborted)
            except CorruptMessageError as damage:
                _log.warning("%r cannot be read to its end: %s", segment, damage)
            segment.txn_index.sync()
            self._sync_names()
            segment.rebuild_indexes()

    def _producers_at(self, offset: int) -> ProducerStateManager:
        """Snapshots above `offset` stay: they may serve when the whole log is known."""
        producers = self._producers()
        first = self._segments.first
        begin = offset if first is None else min(first.base_offset, offset)
        producers.load_from_snapshots(begin, self._now_ms, at_most=offset)
        producer_replay.replay_log(producers, self._segments, begin, offset)
        return producers

    # 3: what may be torn

    def _recover(self) -> int:
        """Returns the offset after the last batch."""
        active = self._segments.active
        if active is not None and not self._options.was_clean:
            self._prove_unflushed(self._options.recovery_point)
        elif active is not None and self._ends_in_damage(active):
            _log.warning("%r does not end with a whole batch, although its log was closed cleanly", active)
            self._prove_unflushed(active.base_offset)
        active = self._segments.active
        if active is None:
            active = LogSegment.create(self._place, self._options.log_start_offset)
            self._segments.add(active)
        if self._epochs_are_lost or not self._epochs_cover_the_start():
            self._read_epochs()
        end_offset = active.next_offset()
        if self._overflows(active, end_offset):
            raise _FoundOverflowError(active)
        return end_offset

    def _ends_in_damage(self, segment: LogSegment) -> bool:
        """Appends would stand behind bytes that no reader can pass, or have offsets that are below others."""
        if segment.base_offset in self._unsplittable:
            return True
        try:
            return segment.tail()[1] < segment.size
        except CorruptMessageError:
            return True

    def _prove_unflushed(self, recovery_point: int) -> None:
        unflushed = self._segments.covering(recovery_point)
        self._snapshots = self._producers()
        flushed = self._segments.lower(unflushed[0].base_offset)
        if flushed is not None:
            flushed.check_indexes_to(unflushed[0].base_offset)
            flushed.cut_zeros_off()
            self._finished = (flushed,)
        self._captured.clear()
        self._proven = producers = self._producers_at(unflushed[0].base_offset)
        next_offset = unflushed[0].base_offset
        self._epochs.truncate_from_end(next_offset + 1)  # it may be of before a truncation; batches tell the truth
        for place, segment in enumerate(unflushed):
            self._progress(len(unflushed) - place)
            if place:
                if not self._joins(segment, next_offset):
                    _log.warning("%r does not join the log, which ends at %d", segment, next_offset)
                    self._drop(unflushed[place:])
                    return
                producers.update_map_end_offset(segment.base_offset)
            self._take_snapshot(producers)  # of the first one too: when those before it are deleted it is all there is
            recovery = SegmentRecovery(segment, producers, self._epochs)
            try:
                cut_bytes = recovery.prove()
            except SegmentOffsetOverflowError:
                raise _FoundOverflowError(segment) from None
            if cut_bytes:
                self._drop(unflushed[place + 1 :])  # before the cut, which takes away the reason to drop them
            recovery.finish()
            self._sync_transactions(segment)
            next_offset = recovery.next_offset
            producers.update_map_end_offset(next_offset)
            if cut_bytes:
                return

    def _sync_transactions(self, segment: LogSegment) -> None:
        """The index was written again. If the recovery point is at the end of the segment, the next load takes the
        segment for durable as soon as another one follows, and nothing tells that entries are missing."""
        if segment.txn_index.entries:
            segment.txn_index.sync()
            self._sync_names()

    def _joins(self, segment: LogSegment, next_offset: int) -> bool:
        """Whether a segment can follow one that ends at `next_offset`.

        Where the end of a segment was lost at a batch's edge, only the hole in the offsets tells. But compaction,
        now or in the past, leaves such holes too: those below the recovery point, those before a segment with a
        producer snapshot (written only when the log below it was durable) and those of a log that compacts, or has
        been compacted, stand.
        """
        return (
            segment.base_offset == next_offset
            or segment.base_offset <= self._options.recovery_point
            or self._snapshots.snapshot_file_for(segment.base_offset) is not None
            or segment.base_offset in self._made_by_splits
            or self._place.config.compacts
            or self._options.was_compacted
        )

    def _drop(self, segments: Sequence[LogSegment]) -> None:
        self._segments.remove(segments)
        for segment in sorted(segments, key=lambda each: each.base_offset, reverse=True):
            _log.warning("%r is dropped: the log before it is damaged", segment)
            segment.delete()
        self._sync_names()

    def _epochs_cover_the_start(self) -> bool:
        """A log start that was not checkpointed is lost by a crash, but the epochs below it may be gone already."""
        first = self._segments.first
        if self._options.was_clean or first is None:
            return True
        try:
            for _, batch in first.records.headers(0):
                place = max(batch.base_offset, self._options.log_start_offset)
                return batch.leader_epoch < 0 or self._epochs.epoch_for_offset(place) is not None
        except CorruptMessageError:
            pass  # durable and damaged: readers will be told, and `_read_epochs` would find nothing there
        return True

    def _read_epochs(self) -> None:
        entries = []
        latest = -1
        for segment in self._segments:
            try:
                for _, batch in segment.records.headers(0):
                    if batch.leader_epoch > latest:
                        entries.append(EpochEntry(batch.leader_epoch, batch.base_offset))
                        latest = batch.leader_epoch
            except CorruptMessageError:
                continue
        if entries:
            self._epochs.clear()
            self._epochs.assign_all(entries)

    # 4: a log start beyond the end

    def _restart_if_below_log_start(self, end_offset: int) -> int:
        log_start = self._options.log_start_offset
        if end_offset >= log_start:
            return end_offset
        _log.warning("%s ends at %d, below its log start %d: it restarts there", self._place.dir, end_offset, log_start)
        self._drop(tuple(self._segments))
        self._epochs.clear()
        self._producers().truncate_fully_and_start_at(log_start)
        self._segments.add(LogSegment.create(self._place, log_start))
        return log_start


class _FoundOverflowError(Exception):
    def __init__(self, segment: LogSegment) -> None:
        self.segment = segment
