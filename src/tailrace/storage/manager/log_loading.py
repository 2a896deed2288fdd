"""Opening every log of every live data directory at start.

    1  the directories are listed; a partition that stands in two of them is fatal, and found before anything changes
    2  the marker of a clean shutdown is taken away, durably; checkpoints are read
    3  logs load in parallel, so many of a directory at a time (`recovery_pool`)
           …-delete     is queued for removal, unread
           …-stray      is named in the log and left alone
           not placed here by the metadata: gets a `-stray` name
           …-future     joins the future logs; beside the current log in the same data directory it gets a `-stray` name
           topic-N      joins the current logs
    4  a future log without a current one is taken for it: its move was cut short between two renames

A directory whose disk fails goes offline and takes its logs with it; the others go on. A log that cannot be opened for
another reason (damaged `partition.metadata`, no space) is unloadable: the rest of its directory serves.

Of two directories for one partition, one without `partition.metadata` and without a record is what a creation left that
did not get through; it is deleted.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tailrace.model.errors import DuplicateLogError, InvalidDataError, StorageError, TailraceError
from tailrace.model.ids import TopicId, TopicPartition
from tailrace.model.noop import noop
from tailrace.storage.manager import directory_names
from tailrace.storage.manager.directory_files import is_known
from tailrace.storage.manager.directory_names import Role, name_for
from tailrace.storage.manager.log_deletion import LogDeletion
from tailrace.storage.manager.log_directory import LogDirectory
from tailrace.storage.manager.log_store import LogStore
from tailrace.storage.manager.recovery_pool import RecoveryPool
from tailrace.storage.names import LOG_SUFFIX, join
from tailrace.storage.partition_metadata import PartitionMetadata
from tailrace.storage.unified_log import UnifiedLog

_log = logging.getLogger(__name__)

IsStray = Callable[[TopicPartition, TopicId | None], bool]
"""Whether the cluster's metadata places no such replica here. Asked on any thread."""

IsWanted = Callable[[TopicPartition], bool]
"""Whether the partition's logs are to be opened at all."""


class _Found(NamedTuple):
    directory: LogDirectory
    name: str
    partition: TopicPartition
    role: Role

    @property
    def path(self) -> str:
        return self.directory.join(self.name)


def _report_strays(found: list[_Found]) -> None:
    """In one line for each directory: topics that are deleted while the broker is down leave many of them."""
    by_directory: dict[str, list[str]] = defaultdict(list)
    for each in found:
        by_directory[each.directory.path].append(each.path)
    for directory, paths in by_directory.items():
        text = "%s: %d stray logs are not served, the first is %s; next step: delete those that are not needed"
        _log.warning(text, directory, len(paths), min(paths))


class LogLoading:
    def __init__(
        self,
        store: LogStore,
        deletion: LogDeletion,
        threads_per_directory: int,
        is_stray: IsStray,
        is_wanted: IsWanted,
    ) -> None:
        self._store = store
        self._deletion = deletion
        self._threads = threads_per_directory
        self._is_stray = is_stray
        self._is_wanted = is_wanted
        self._pools: dict[LogDirectory, RecoveryPool] = {}
        self._finished: Callable[[], None] = noop
        self._left = 0  # directories whose logs are not all loaded
        self._cut_short: set[LogDirectory] = set()
        self._epochs: list[int | None] = []
        self.strays: list[str] = []
        """Paths of directories that nobody serves."""

    @property
    def pools(self) -> dict[LogDirectory, RecoveryPool]:
        return self._pools

    @property
    def previous_broker_epoch(self) -> int | None:
        """What the markers of every directory say alike of the run before; else None."""
        known = set(self._epochs) if len(self._epochs) == len(list(self._store.directories)) else set()
        return known.pop() if len(known) == 1 else None

    def start(self, finished: Callable[[], None]) -> None:
        """Begin; `finished` is called on the owner's thread when every log is open. DuplicateLogError."""
        found = self._drop_unfinished(self._list())
        begun = [directory for directory in self._store.directories.live if self._begin(directory)]
        for directory in begun:
            pool = RecoveryPool(self._store.env.jobs, f"log-recovery-{directory.path}", self._threads)
            self._pools[directory] = pool
        for each in found:
            if each.directory in self._pools and each.directory.is_live:
                self._submit(each)
        _report_strays([each for each in found if each.role is Role.STRAY])
        self._finished = finished
        self._left = len(begun)
        if not begun:
            finished()
        for directory in begun:
            self._pools[directory].when_finished(partial(self._directory_done, directory))

    def _directory_done(self, directory: LogDirectory) -> None:
        self._left -= 1
        is_whole = not directory.has_unloadable and directory not in self._cut_short
        directory.is_recovered = directory.is_live and is_whole
        if not self._left:
            self._finished()

    def stop(self, stopped: Callable[[], None]) -> None:
        """Begin no more loads; `stopped` is called, instead of `finished`, when those that run have ended."""
        self._finished = stopped
        if not self._left:
            stopped()
        for directory, pool in self._pools.items():
            if pool.waiting:
                self._cut_short.add(directory)
                pool.cancel_waiting()

    # What is there

    def _list(self) -> list[_Found]:
        found = []
        for directory in self._store.directories.live:
            try:
                entries = self._store.env.files.list(directory.path)
            except OSError as cause:
                self._store.report(directory, StorageError(f"list {directory.path}", cause))
                continue
            for entry in entries:
                if not entry.is_dir and not is_known(entry.name):
                    _log.warning("%s: %r is no file of a broker; it is left alone", directory.path, entry.name)
                if entry.is_dir and not directory_names.is_ours(entry.name):
                    try:
                        each = _Found(directory, entry.name, *directory_names.parse(entry.name))
                    except InvalidDataError as error:
                        _log.warning("%s: %s; it is left alone", directory.path, error)
                        continue
                    if self._is_wanted(each.partition):
                        found.append(each)
                    else:
                        self._store.left_out.add(each.partition)
                        self._cut_short.add(directory)
        return found

    def _drop_unfinished(self, found: list[_Found]) -> list[_Found]:
        same: dict[tuple[TopicPartition, Role], list[_Found]] = defaultdict(list)
        for each in found:
            if each.role in (Role.CURRENT, Role.FUTURE):
                same[each.partition, each.role].append(each)
        dropped: set[str] = set()
        for duplicates in same.values():
            if len(duplicates) > 1:
                dropped |= self._drop_all_but_one(duplicates)
        return self._set_aside_own_copies([each for each in found if each.path not in dropped])

    def _set_aside_own_copies(self, found: list[_Found]) -> list[_Found]:
        """Nothing is moved to where it is: who has made such a copy, and what is in it, nobody knows."""
        served = {(each.directory, each.partition) for each in found if each.role is Role.CURRENT}
        left = []
        for each in found:
            if each.role is Role.FUTURE and (each.directory, each.partition) in served:
                path = each.directory.join(name_for(each.partition, Role.STRAY, self._store.env.random))
                self._rename(each, path)
                _log.warning("%s stands beside the log it is a copy of: it is now %s", each.path, path)
                self.strays.append(path)
            else:
                left.append(each)
        return left

    def _drop_all_but_one(self, duplicates: list[_Found]) -> set[str]:
        rivals = [each for each in duplicates if self._is_rival(each)]
        unfinished = [each for each in rivals if self._is_unfinished(each)]
        if len(unfinished) == len(rivals):
            unfinished = unfinished[1:]
        if len(rivals) - len(unfinished) > 1:
            paths = " and ".join(each.path for each in rivals)
            raise DuplicateLogError(f"{rivals[0].partition} stands in {paths}")
        for each in unfinished:
            path = each.directory.join(name_for(each.partition, Role.DELETED, self._store.env.random))
            self._rename(each, path)
            self._deletion.enqueue(each.directory, path)
        return {each.path for each in unfinished}

    def _topic_id_of(self, each: _Found) -> TopicId | None:
        try:
            return PartitionMetadata(self._store.env.files, each.path).read()
        except InvalidDataError:
            return None
        except OSError as cause:
            raise StorageError(f"read the topic id in {each.path}", cause) from cause

    def _is_rival(self, each: _Found) -> bool:
        """Strays get out of the way when they are loaded, and one that cannot be read goes offline with its disk."""
        try:
            return not self._is_stray(each.partition, self._topic_id_of(each))
        except StorageError as error:
            self._store.report(each.directory, error)
            return False

    def _is_unfinished(self, each: _Found) -> bool:
        files = self._store.env.files
        names = [entry.name for entry in files.list(each.path)]
        has_records = any(name.endswith(LOG_SUFFIX) and files.size(join(each.path, name)) for name in names)
        return not has_records and not files.exists(PartitionMetadata(files, each.path).path)

    def _rename(self, each: _Found, path: str) -> None:
        files = self._store.env.files
        files.rename(each.path, path)
        files.sync_dir(each.directory.path)

    # Loading

    def _begin(self, directory: LogDirectory) -> bool:
        try:
            self._epochs.append(directory.clean_shutdown.broker_epoch())
            directory.was_clean = directory.clean_shutdown.take()
            if not directory.was_clean:
                # A killed process may have left names that are visible and not durable.
                self._store.env.files.sync_dir(directory.path)
            directory.remember(
                directory.checkpoints.recovery_point.read_or_reset(), directory.checkpoints.log_start.read_or_reset()
            )
            directory.compacted = frozenset(directory.checkpoints.cleaner.read_or_reset())
        except OSError as cause:
            self._store.report(directory, StorageError(f"open {directory.path}", cause))
            return False
        return True

    def _submit(self, each: _Found) -> None:
        if each.role is Role.DELETED:
            self._deletion.enqueue(each.directory, each.path)
        elif each.role is Role.STRAY:
            self.strays.append(each.path)
        else:
            pool = self._pools[each.directory]
            pool.submit(partial(self._load, each, pool), partial(self._loaded, each), partial(self._not_loaded, each))

    def _load(self, each: _Found, pool: RecoveryPool, place: int) -> UnifiedLog | str:
        """The log, or the path that a stray one has now. Runs on any thread."""
        if self._is_stray(each.partition, self._topic_id_of(each)):
            path = each.directory.join(name_for(each.partition, Role.STRAY, self._store.env.random))
            self._rename(each, path)
            return path

        def progress(segments_left: int) -> None:
            pool.segments_remaining[place] = segments_left

        return self._store.load(
            each.path,
            each.partition.topic,
            progress,
            recovery_point=each.directory.unloaded_recovery_points.get(each.partition, 0),
            log_start_offset=each.directory.unloaded_log_starts.get(each.partition, 0),
            was_clean=each.directory.was_clean,
            was_compacted=each.partition in each.directory.compacted,
        )

    def _loaded(self, each: _Found, outcome: UnifiedLog | str) -> None:
        if isinstance(outcome, str):
            _log.warning("%s is not placed here: it is now %s", each.path, outcome)
            each.directory.forget_unloaded(each.partition)
            self.strays.append(outcome)
        elif not each.directory.is_live:
            outcome.abandon()
        else:
            self._store.add(each.partition, each.role, outcome)

    def _not_loaded(self, each: _Found, error: Exception) -> None:
        if isinstance(error, OSError):
            error = StorageError(f"load {each.path}", error)
        if not isinstance(error, TailraceError):
            raise error
        each.directory.has_unloadable = True
        if each.role is Role.CURRENT:
            self._store.unloadable[each.partition] = error
        if isinstance(error, StorageError) and not error.is_shortage:
            self._store.report(each.directory, error)
            self._pools[each.directory].cancel_waiting()
        else:
            _log.error("%s cannot be loaded: %s", each.path, error)
