"""The cleaner of a broker: a pool of workers that compact logs, and everybody else's means to keep them off.

Whoever cuts, moves or deletes a log pauses its cleaning before. A clean under way is then called off: its worker's
step is waited for (some milliseconds), its files are removed, and the log is as if the clean had never begun, or, where
the new segments were just being put in place, as if it had ended. See `manager.cleaning` for who calls what.

Who may call: the owner's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace.config.cleaner import CleanerConfig
from tailrace.metrics.gauge import Gauge
from tailrace.model.errors import StorageError, TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.model.listeners import Listeners
from tailrace.storage.cleaner.checkpoints import CleanerCheckpoints
from tailrace.storage.cleaner.gauges import pool_gauges, uncleanable_gauges
from tailrace.storage.cleaner.selection import Selection
from tailrace.storage.cleaner.states import Cleaning, CleaningStates, State
from tailrace.storage.cleaner.throttle import Throttle
from tailrace.storage.cleaner.uncleanable import Uncleanable, UncleanablePartitions
from tailrace.storage.cleaner.worker import CleanerWorker, Progress, Workshop
from tailrace.storage.manager.log_store import LogStore
from tailrace.storage.unified_log import UnifiedLog

if TYPE_CHECKING:
    from tailrace.storage.compaction.log_compaction import CompactionStats

_log = logging.getLogger(__name__)


class LogCleaner:
    def __init__(self, store: LogStore, config: CleanerConfig) -> None:
        """Touches no file."""
        self.on_cleaned: Listeners[TopicPartition, CompactionStats] = Listeners()
        """A clean of the partition has ended well."""
        self._store = store
        self._states = CleaningStates()
        self._checkpoints = CleanerCheckpoints(store)
        self._uncleanable = UncleanablePartitions(store.env, config.log_cleaner_backoff_ms)
        self._selection = Selection(store, self._checkpoints, self._may_clean, self._cannot_judge)
        self._workshop = Workshop(
            store=store,
            config=config,
            states=self._states,
            checkpoints=self._checkpoints,
            uncleanable=self._uncleanable,
            selection=self._selection,
            throttle=Throttle(store.env.clock, config.log_cleaner_io_max_bytes_per_second),
            cleaned=self.on_cleaned,
        )
        self._workers: list[CleanerWorker] = []

    # Life

    def start(self) -> None:
        """When every log is open."""
        for directory in self._store.directories.live:
            self._checkpoints.read(directory)
            with suppress(StorageError):  # its directory is on its way offline, or is full
                self._checkpoints.begin_all(directory)
            self._uncleanable.begin(directory.path)
        self._begin_work()

    def stop(self) -> None:
        """Cleans under way are called off; when this returns, none touches a file any more."""
        for worker in self._workers:
            worker.stop()
        self._workers = []

    def reconfigure(self, config: CleanerConfig) -> None:
        """Let another pool take over, with live workers whatever became of the old ones. ConfigError if it may not."""
        self._workshop.config.check_change(config)
        self.stop()
        self._uncleanable.first_pause_ms = config.log_cleaner_backoff_ms
        self._workshop = replace(
            self._workshop,
            config=config,
            throttle=Throttle(self._store.env.clock, config.log_cleaner_io_max_bytes_per_second),
        )
        self._begin_work()

    def _begin_work(self) -> None:
        count = self._workshop.config.log_cleaner_threads
        self._workers = [CleanerWorker(number, self._workshop) for number in range(count)]
        for worker in self._workers:
            worker.start()

    def awake(self) -> None:
        """Look for work now, not at the end of `log.cleaner.backoff.ms`."""
        for worker in self._workers:
            worker.awake()

    # Looking

    @property
    def config(self) -> CleanerConfig:
        return self._workshop.config

    @property
    def is_idle(self) -> bool:
        return not self._states.in_progress

    @property
    def progress(self) -> list[Progress]:
        """Of the cleans under way."""
        return [each for each in (worker.progress for worker in self._workers) if each is not None]

    def state_of(self, partition: TopicPartition) -> State | None:
        return self._states.of(partition)

    def cleaner_point(self, directory: str, partition: TopicPartition) -> int | None:
        """Up to where the partition is clean; None when it never was."""
        return self._checkpoints.get(directory, partition)

    def uncleanable(self, directory: str) -> Mapping[TopicPartition, Uncleanable]:
        return self._uncleanable.of(directory)

    def gauges(self) -> Iterator[Gauge]:
        yield from pool_gauges(self._workers, self._selection.greatest_ratio)
        for directory in self._store.directories:
            partitions = list(self.uncleanable(directory.path))
            dirty_bytes = sum(map(self._cleanable_bytes, partitions))
            yield from uncleanable_gauges(directory.path, len(partitions), dirty_bytes)

    def _cleanable_bytes(self, partition: TopicPartition) -> int:
        log = self._store.current.get(partition)
        if log is None:
            return 0
        try:
            return self._selection.cleanable(partition, log).log.cleanable_bytes
        except (TailraceError, OSError):
            return log.local.size

    # What may be cleaned

    def _may_clean(self, partition: TopicPartition) -> bool:
        return self._states.of(partition) is None and not self._uncleanable.must_wait(partition)

    def _cannot_judge(self, partition: TopicPartition, log: UnifiedLog, error: Exception) -> None:
        directory = self._store.directory_of(log)
        if isinstance(error, OSError):
            error = self._store.report(directory, StorageError(f"look at {log.dir}", error))
        if directory.is_live:
            self._uncleanable.failed(directory.path, partition, error)
            _log.warning("%s cannot be cleaned: %s", log.dir, error)

    # What the log manager asks for

    def abort(self, partition: TopicPartition) -> None:
        self.pause((partition,))
        self.resume((partition,))

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            if self._states.of(partition) is Cleaning.IN_PROGRESS:
                self._states.abort(partition)
                for worker in self._workers:
                    if worker.abort(partition):
                        break
            else:
                self._states.pause(partition)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._states.resume(partition)

    def truncating(self, directory: str, partition: TopicPartition, clean_end: int) -> Callable[[], None] | None:
        return self._checkpoints.lower(self._store.directories.at(directory), partition, clean_end)

    def removed(self, directory: str, partitions: Iterable[TopicPartition]) -> None:
        gone = list(partitions)
        self._checkpoints.remove(self._store.directories.at(directory), gone)
        self._selection.forget(gone)
        for partition in gone:
            self._uncleanable.forget(directory, partition)

    def moved(self, partition: TopicPartition, source: str, target: str) -> None:
        directories = self._store.directories
        self._checkpoints.move(partition, directories.at(source), directories.at(target))
        self._uncleanable.forget(source, partition)

    def directory_failed(self, directory: str) -> None:
        for partition in self._states.in_progress:
            log = self._store.current.get(partition)
            if log is not None and self._store.directory_of(log).path == directory:
                with suppress(StorageError):
                    self.abort(partition)
        self._selection.forget(self._store.logs_in(self._store.directories.at(directory)))
        self._checkpoints.drop(directory)
        self._uncleanable.directory_failed(directory)
