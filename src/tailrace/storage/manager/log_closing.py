"""Ending well: what is closed here needs no recovery at the next start.

For each live data directory, in this order and each step durable before the next:

    1  so many logs at a time are flushed and closed
    2  checkpoints are written
    3  the marker of a clean shutdown is written
    4  the lock is released

The marker is left out where a log could not be closed or a checkpoint not be written. It is also left out where the
directory had none at start and not all of its logs were recovered since, and where a log of it could not be loaded:
those would be believed without having been proven.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from tailrace.model.errors import StorageError, TailraceError
from tailrace.model.noop import noop
from tailrace.storage.manager.directory_names import Role
from tailrace.storage.manager.log_directory import LogDirectory
from tailrace.storage.manager.log_store import LogStore
from tailrace.storage.manager.recovery_pool import RecoveryPool
from tailrace.storage.unified_log import UnifiedLog

_log = logging.getLogger(__name__)


class LogClosing:
    def __init__(self, store: LogStore, threads_per_directory: int, broker_epoch: int) -> None:
        self._store = store
        self._threads = threads_per_directory
        self._broker_epoch = broker_epoch
        self._unclosed: set[LogDirectory] = set()

    def start(self, finished: Callable[[], None]) -> None:
        """Begin; `finished` is called on the owner's thread when nothing is open and every lock is released."""
        self._store.is_closing = True
        directories = self._store.directories.live
        left = len(directories)
        if not left:
            self._end(finished)

        def ended() -> None:
            nonlocal left
            left -= 1
            if not left:
                self._end(finished)

        for directory in directories:
            pool = RecoveryPool(self._store.env.jobs, f"log-closing-{directory.path}", self._threads)
            for log in self._store.logs_in(directory).values():
                log.hand_over()
                pool.submit(partial(_close, log), noop, partial(self._not_closed, directory, log))
            pool.when_finished(partial(self._closed, directory, ended))

    def _not_closed(self, directory: LogDirectory, log: UnifiedLog, error: Exception) -> None:
        if not isinstance(error, TailraceError | OSError):
            raise error
        _log.error("%s could not be closed and will be recovered: %s", log.dir, error)
        self._unclosed.add(directory)
        log.abandon()

    def _closed(self, directory: LogDirectory, ended: Callable[[], None]) -> None:
        write_checkpoints = self._store.prepare_checkpoints(directory)
        is_proven = (directory.was_clean or directory.is_recovered) and not directory.has_unloadable
        is_clean = is_proven and directory not in self._unclosed

        def write() -> None:
            write_checkpoints()
            if is_clean:
                directory.clean_shutdown.write(self._broker_epoch)

        def failed(error: StorageError) -> None:
            _log.error("%s has no marker of a clean shutdown: %s", directory.path, error)
            ended()

        self._store.write_in_background(directory, "shut down", write, ended, failed)

    def _end(self, finished: Callable[[], None]) -> None:
        for role in (Role.CURRENT, Role.FUTURE):
            for partition in list(self._store.logs(role)):
                self._store.remove(partition, role)
        self._store.directories.unlock()
        finished()


def _close(log: UnifiedLog, place: int) -> None:
    """Runs on any thread: nobody else touches the log any more."""
    log.close()
