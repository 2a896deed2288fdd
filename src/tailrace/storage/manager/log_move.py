"""Moving a partition from one data directory to another: the future log takes the place of the current one.

    1  the future log has everything the current one has, flushed as far, with its high watermark and log start
    2  the target directory's checkpoints say so, and the empty file `tailrace-complete` in the future log's directory,
       durably
    3  the current log's directory gets a `-delete` name, durably
    4  the future log's directory gets the partition's own name, durably
    5  the current log is closed and removed after a while; the future one serves

Crash rule. Until step 3 the old log is there, after step 4 the new one. In between there is only the future log: a
start that finds a complete future log alone, with every directory live, ends its move. Never are there two.

A future log that is alone and not complete is what a move had copied when the source's disk was lost. It gets a
`-stray` name: to be served, in the place of the log that it is a part of, it must not come to be by itself.

Blocks the owner's thread for some syncs: moves are rare, and nothing may be appended in between.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

from tailrace.env import Mode
from tailrace.model.errors import InvalidDataError, LogDirUnavailableError, StorageError
from tailrace.model.ids import TopicPartition
from tailrace.storage.manager.directory_names import Role, name_for
from tailrace.storage.manager.log_deletion import LogDeletion
from tailrace.storage.manager.log_directory import LogDirectory
from tailrace.storage.manager.log_store import LogStore
from tailrace.storage.names import join, partition_dir_name
from tailrace.storage.unified_log import UnifiedLog

_log = logging.getLogger(__name__)

COMPLETE: Final = "tailrace-complete"


class LogMove:
    def __init__(self, store: LogStore, deletion: LogDeletion) -> None:
        self._store = store
        self._deletion = deletion

    def finish(self, partition: TopicPartition) -> bool:
        """End the move if the future log is ready; False: not yet, ask again. LogDirUnavailableError without both."""
        current, future = self._store.current.get(partition), self._store.future.get(partition)
        if current is None or future is None:
            which = "current" if current is None else "future"
            raise LogDirUnavailableError(f"{partition} has no {which} log that is online")
        if partition in self._store.truncating:
            return False
        is_durable = future.recovery_point >= future.log_end_offset
        if not is_durable and not future.is_flushing:
            future.flush()
        if not is_durable or future.is_flushing or future.log_end_offset != current.log_end_offset:
            return False
        self._check_name_is_free(partition, self._store.directory_of(future))
        self._store.cleaning.pause((partition,))
        try:
            self._replace(partition, current, future)
        except StorageError:
            if self._store.directory_of(future).is_live:
                with suppress(StorageError):
                    self.call_incomplete(future)
            raise
        finally:
            self._store.cleaning.resume((partition,))
        return True

    def _check_name_is_free(self, partition: TopicPartition, target: LogDirectory) -> None:
        """A rename onto what a failed creation has left is no fault of the disk."""
        path = target.join(partition_dir_name(partition))
        if self._store.env.files.exists(path):
            raise InvalidDataError(f"{path} is in the way of {partition}, which is served elsewhere: move or remove it")

    def _replace(self, partition: TopicPartition, current: UnifiedLog, future: UnifiedLog) -> None:
        store = self._store
        source, target = store.directory_of(current), store.directory_of(future)
        future.update_high_watermark(current.high_watermark)
        future.increment_log_start(current.log_start_offset)
        store.write_now(target, "checkpoint", store.prepare_checkpoints(target))
        self._call_complete(target, future)
        doomed = source.join(name_for(partition, Role.DELETED, store.env.random))
        served = current.dir
        self._rename(source, served, doomed)
        try:
            self._rename(target, future.dir, target.join(partition_dir_name(partition)))
        except StorageError:
            # A name that is neither durable nor undone would make two logs of one partition at the next start.
            with suppress(OSError):
                store.env.files.rename(target.join(partition_dir_name(partition)), future.dir)
            with suppress(StorageError):
                self._rename(source, doomed, served)
            raise
        store.remove(partition, Role.CURRENT)
        self._take_over(partition, target)
        current.abandon()
        store.on_log_replaced(partition, future)
        self._deletion.enqueue(source, doomed)
        store.cleaning.moved(partition, source.path, target.path)
        store.write_in_background(source, "checkpoint", store.prepare_checkpoints(source))
        _log.info("%s moved from %s to %s", partition, source.path, target.path)

    def _call_complete(self, target: LogDirectory, future: UnifiedLog) -> None:
        files = self._store.env.files

        def write() -> None:
            files.open(join(future.dir, COMPLETE), Mode.CREATE).close()
            files.sync_dir(future.dir)

        self._store.write_now(target, f"call {future.dir} complete", write)

    def call_incomplete(self, future: UnifiedLog) -> None:
        """The move goes on: what the future log has may not be all any more. StorageError."""
        files = self._store.env.files
        path = join(future.dir, COMPLETE)

        def unlink() -> None:
            if files.exists(path):
                files.unlink(path)
                files.sync_dir(future.dir)

        self._store.write_now(self._store.directory_of(future), f"call {future.dir} incomplete", unlink)

    def adopt_lone_futures(self) -> None:
        """After a start with every directory live: a complete future log without a current one is the partition's."""
        store = self._store
        if store.directories.offline:
            return
        for partition in [each for each in store.future if each not in store.current]:
            if partition in store.unloadable:
                continue
            try:
                self._adopt(partition, store.future[partition])
            except StorageError as error:
                self._leave_to_next_start(partition, error)

    def _adopt(self, partition: TopicPartition, log: UnifiedLog) -> None:
        store = self._store
        target = store.directory_of(log)
        if store.env.files.exists(join(log.dir, COMPLETE)):
            _log.warning("%s: the move of %s was cut short and is ended", target.path, partition)
            self._rename(target, log.dir, target.join(partition_dir_name(partition)))
            self._take_over(partition, target)
        else:
            stray = target.join(name_for(partition, Role.STRAY, store.env.random))
            _log.error("%s is a part of %s, whose log is gone: it is now %s", log.dir, partition, stray)
            self._rename(target, log.dir, stray)
            store.remove(partition, Role.FUTURE).abandon()

    def _leave_to_next_start(self, partition: TopicPartition, error: StorageError) -> None:
        """What is there of the partition cannot be served under its name, and none may be made beside it."""
        log = self._store.remove(partition, Role.FUTURE)
        target = self._store.directory_of(log)
        target.has_unloadable = True
        target.unloaded_recovery_points[partition] = log.recovery_point
        target.unloaded_log_starts[partition] = log.log_start_offset
        self._store.unloadable[partition] = error
        log.abandon()

    def _take_over(self, partition: TopicPartition, target: LogDirectory) -> None:
        log = self._store.remove(partition, Role.FUTURE)
        log.moved_to(target.join(partition_dir_name(partition)))
        self._store.add(partition, Role.CURRENT, log)
        with suppress(OSError):  # it means nothing in the directory of a current log
            self._store.env.files.unlink(join(log.dir, COMPLETE))

    def _rename(self, directory: LogDirectory, old: str, new: str) -> None:
        files = self._store.env.files

        def rename() -> None:
            files.rename(old, new)
            files.sync_dir(directory.path)

        self._store.write_now(directory, f"rename {old}", rename)
