"""Truncating the logs of partitions in steps, as many at a time as a failover asks for, without an fsync by the owner.

    1  cleans of the partition are called off, and none begins before the end
    2  the checkpoints of each directory are written once for all of its logs, as a job: recovery points, log starts and
       cleaner offsets as they will be. A recovery point that is too low costs reading, one that is too high costs data.
    3  a move of the partition cuts its copy, at once
    4  the steps of each log, as jobs (`UnifiedLog.truncating`)

From step 1 on the log refuses appends: what it took after step 2 could be lost by a crash. Until step 4 begins, it is
untouched, and stays so if the checkpoints cannot be written. The same holds if the caller no longer wants the
truncation, because the partition leads by then; the checkpoints are written again.

Two truncations of one log follow each other. While one is under way, `LogStore.truncating` has the partition, and no
move of it ends.

The copy of a partition that moves (its future log) is truncated at once, on the owner's thread, which waits for it:
moves are rare, and the copy must not be ahead of its original.

Who may call: the log manager, on the owner's thread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from tailrace.model.errors import LogDirUnavailableError, StorageError, TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.model.noop import noop
from tailrace.storage.manager.cleaning import Cleaning
from tailrace.storage.manager.log_directory import LogDirectory
from tailrace.storage.manager.log_store import LogStore, PendingCut
from tailrace.storage.steps import CalledOffError, JobRun, Steps
from tailrace.storage.unified_log import UnifiedLog

_log = logging.getLogger(__name__)

Errors = dict[TopicPartition, TailraceError]
Truncated = Callable[[Errors], None]
StillWanted = Callable[[TopicPartition], bool]
"""Asked at the moment of the cut."""
BeforeCut = Callable[[Mapping[TopicPartition, int]], None]
"""Told of the partitions that are about to lose everything from the offset on."""


@dataclass(slots=True, eq=False)
class _Cut:
    """One truncation of one log. `log_start` is given where the log starts over at `offset`."""

    partition: TopicPartition
    offset: int
    log_start: int | None
    is_wanted: StillWanted
    ended: Callable[[TailraceError | None], None] = noop
    log: UnifiedLog | None = None
    cleaning: Cleaning | None = None

    @property
    def pending(self) -> PendingCut:
        if self.log_start is None:
            return PendingCut(self.offset, log_start_limit=self.offset)
        return PendingCut(min(self.offset, self.log_start), log_start=self.log_start)

    def is_empty(self, log: UnifiedLog) -> bool:
        return self.log_start is None and self.offset >= log.log_end_offset

    def clean_end(self, log: UnifiedLog) -> int | None:
        """Nothing at or above it will be clean; None: what is clean stays so."""
        if self.log_start is not None:
            return self.offset
        if self.offset >= log.local.active.base_offset:
            return None
        last = log.local.segments.floor(self.offset)
        return self.offset if last is None else last.base_offset

    def steps(self, log: UnifiedLog) -> Steps[object]:
        if self.log_start is None:
            return log.truncating(self.offset)
        return log.restarting_at(self.offset, self.log_start)


class LogTruncation:
    def __init__(self, store: LogStore, before_cut: BeforeCut) -> None:
        self._store = store
        self._before_cut = before_cut
        self._waiting: dict[TopicPartition, deque[_Cut]] = {}
        self._stopped: Callable[[], None] | None = None

    def truncate_to(self, offsets: Mapping[TopicPartition, int], done: Truncated, is_wanted: StillWanted) -> None:
        """Drop everything from the offset on, of each partition that is here; `done` when that is durable, with what
        went wrong."""
        here = [partition for partition in offsets if partition in self._store.current]
        self._begin_all([_Cut(partition, offsets[partition], None, is_wanted) for partition in here], done)

    def restart_at(
        self, partition: TopicPartition, offset: int, log_start: int | None, done: Truncated, is_wanted: StillWanted
    ) -> None:
        """Empty the partition's log, if it is here, and go on at `offset`; `done` as in `truncate_to`."""
        start = offset if log_start is None else log_start
        cuts = [_Cut(partition, offset, start, is_wanted)] if partition in self._store.current else []
        self._begin_all(cuts, done)

    def stop(self, stopped: Callable[[], None]) -> None:
        """Begin no more; `stopped` when those under way have ended."""
        if self._store.truncating:
            self._stopped = stopped
        else:
            self._stopped = noop
            stopped()

    # Current logs, in steps

    def _begin_all(self, cuts: list[_Cut], done: Truncated) -> None:
        errors: Errors = {}
        left = len(cuts)
        if not left:
            done(errors)

        def ended(partition: TopicPartition, error: TailraceError | None) -> None:
            nonlocal left
            left -= 1
            if error is not None:
                errors[partition] = error
            if not left:
                done(errors)

        ready = []
        for cut in cuts:
            cut.ended = partial(ended, cut.partition)
            if cut.partition in self._store.truncating:
                self._waiting.setdefault(cut.partition, deque()).append(cut)
            else:
                ready.append(cut)
        self._begin(ready)

    def _begin(self, cuts: Iterable[_Cut]) -> None:
        store = self._store
        by_directory: dict[LogDirectory, list[_Cut]] = {}
        cleaner_writes: dict[LogDirectory, Callable[[], None]] = {}
        for cut in cuts:
            log = store.current.get(cut.partition)
            if log is None or self._stopped is not None:
                cut.ended(_unavailable(cut))
                continue
            cut.log = log
            store.truncating.add(cut.partition)
            cut.cleaning = store.cleaning
            cut.cleaning.pause((cut.partition,))
            if cut.is_empty(log):
                self._run([cut])
                continue
            log.awaits_truncation = True
            directory = store.directory_of(log)
            by_directory.setdefault(directory, []).append(cut)
            store.cuts[cut.partition] = cut.pending
            clean_end = cut.clean_end(log)
            write = None if clean_end is None else cut.cleaning.truncating(directory.path, cut.partition, clean_end)
            if write is not None:
                cleaner_writes[directory] = write  # the last one has what those before it have
        for directory, chosen in by_directory.items():
            writes = (store.prepare_checkpoints(directory), cleaner_writes.get(directory, noop))
            done, failed = partial(self._run, chosen), partial(self._not_checkpointed, chosen)
            store.write_in_background(directory, "checkpoint", partial(_all, writes), done, failed)

    def _not_checkpointed(self, cuts: list[_Cut], error: StorageError) -> None:
        for cut in cuts:
            self._end(cut, error)

    def _run(self, cuts: list[_Cut]) -> None:
        for cut in cuts:
            log = cut.log
            if log is None or self._store.current.get(cut.partition) is not log:
                self._end(cut, _unavailable(cut))
                continue
            if not cut.is_wanted(cut.partition):
                self._call_off(cut, log)
                continue
            self._before_cut({cut.partition: cut.offset if cut.log_start is None else 0})
            ended, failed = partial(self._ended, cut), partial(self._failed, cut)
            JobRun("truncate-log", cut.steps(log), self._store.env.jobs, ended, failed).start()
            self._store.cuts.pop(cut.partition, None)  # the log itself says so now

    def _call_off(self, cut: _Cut, log: UnifiedLog) -> None:
        """Checkpoints say of the log what it is again, before it takes appends."""
        store = self._store
        store.cuts.pop(cut.partition, None)
        directory = store.directory_of(log)
        ended = partial(self._end, cut, CalledOffError(f"{cut.partition} is not to be truncated any longer"))
        write = store.prepare_checkpoints(directory)
        store.write_in_background(directory, "checkpoint", write, ended, lambda error: self._end(cut, error))

    def _ended(self, cut: _Cut, _: object) -> None:
        self._end(cut, None)

    def _failed(self, cut: _Cut, error: Exception) -> None:
        if not isinstance(error, TailraceError):
            raise error
        _log.error("%s is not truncated to %d: %s", cut.partition, cut.offset, error)
        self._end(cut, error)

    def _end(self, cut: _Cut, error: TailraceError | None) -> None:
        partition = cut.partition
        self._store.cuts.pop(partition, None)
        self._store.truncating.discard(partition)
        if cut.log is not None:
            cut.log.awaits_truncation = False
        if cut.cleaning is not None:
            cut.cleaning.resume((partition,))
        waiting = self._waiting.pop(partition, deque())
        following = waiting.popleft() if waiting else None
        if waiting:
            self._waiting[partition] = waiting
        cut.ended(error)
        if following is not None:
            self._begin((following,))
        if self._stopped is not None and not self._store.truncating:
            stopped, self._stopped = self._stopped, noop
            stopped()

    # Copies, at once

    def cut_copy(self, partition: TopicPartition, offset: int) -> None:
        """Of the partition's future log. Blocks. StorageError when the disk refuses."""
        log = self._store.future.get(partition)
        if log is not None:
            if offset < log.log_end_offset:
                self._checkpoint_copy(partition, log, _Cut(partition, offset, None, _always))
            log.truncate_to(offset)

    def restart_copy(self, partition: TopicPartition, offset: int, log_start: int) -> None:
        """Of the partition's future log. Blocks. StorageError when the disk refuses."""
        log = self._store.future.get(partition)
        if log is not None:
            self._checkpoint_copy(partition, log, _Cut(partition, offset, log_start, _always))
            log.restart_at(offset, log_start)

    def _checkpoint_copy(self, partition: TopicPartition, log: UnifiedLog, cut: _Cut) -> None:
        store = self._store
        directory = store.directory_of(log)
        write = store.prepare_checkpoints(directory, {partition: cut.pending})
        store.write_now(directory, "checkpoint", write)


def _always(partition: TopicPartition) -> bool:
    return True


def _unavailable(cut: _Cut) -> LogDirUnavailableError:
    return LogDirUnavailableError(f"{cut.partition} has no log here that could be truncated")


def _all(writes: Iterable[Callable[[], None]]) -> None:
    for write in writes:
        write()
