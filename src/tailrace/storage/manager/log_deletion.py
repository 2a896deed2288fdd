"""Deleting the logs of partitions in two steps: out of the way now, off the disk later.

    1  the directory gets a `-delete` name (or `-stray`, and then stays), and the log takes part no more
    2  the data directory is synced and its checkpoints are written without the partition; then it is deleted for good
    3  after `file.delete.delay.ms` files and directory are unlinked

Crash rule. Before step 2 has ended the partition may come back with the next start, whole. After it, never. A
directory with a `-delete` name that a start finds goes the same way.

Readers that hold a slice finish undisturbed. Runs on the owner's thread; syncing and unlinking are jobs.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from tailrace.model.errors import LogDirUnavailableError, StorageError, TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.storage.manager.directory_names import Role, name_for
from tailrace.storage.manager.log_directory import LogDirectory
from tailrace.storage.manager.log_store import LogStore
from tailrace.storage.names import join

_log = logging.getLogger(__name__)

Errors = dict[TopicPartition, TailraceError]
_Changed = dict[LogDirectory, dict[TopicPartition, str | None]]
"""By directory: partitions that went, and the paths to be unlinked."""


class _Doomed(NamedTuple):
    directory: LogDirectory
    path: str
    since_ms: int


class LogDeletion:
    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._doomed: deque[_Doomed] = deque()

    @property
    def waiting(self) -> list[str]:
        """The directories that wait to be unlinked, the next one first."""
        return [doomed.path for doomed in self._doomed]

    # Out of the way

    def delete(
        self,
        partitions: Iterable[TopicPartition],
        done: Callable[[Errors], None],
        *,
        roles: tuple[Role, ...] = (Role.CURRENT, Role.FUTURE),
        to: Role = Role.DELETED,
    ) -> None:
        """Delete, or set aside as stray, the partitions' logs; `done` is told of those that could not be."""
        errors: Errors = {}
        changed: _Changed = {}
        for partition in partitions:
            if not any(partition in self._store.logs(role) for role in roles):
                self._check_absence(partition, errors)
                continue
            if Role.CURRENT in roles:
                self._store.cleaning.abort(partition)
            # The future log first: alone it would be taken for one whose move was cut short.
            for role in sorted(roles, key=lambda role: role is Role.CURRENT):
                if partition in self._store.logs(role) and partition not in errors:
                    self._set_aside(partition, role, to, changed, errors)
        self._make_durable(changed, errors, done)

    def _check_absence(self, partition: TopicPartition, errors: Errors) -> None:
        offline = self._store.directories.offline
        if offline:
            paths = ", ".join(directory.path for directory in offline)
            errors[partition] = LogDirUnavailableError(f"{partition} may be in an offline directory: {paths}")

    def _set_aside(
        self,
        partition: TopicPartition,
        role: Role,
        to: Role,
        changed: _Changed,
        errors: Errors,
    ) -> None:
        store = self._store
        log = store.logs(role)[partition]
        directory = store.directory_of(log)
        path = directory.join(name_for(partition, to, store.env.random))
        try:
            store.write_now(directory, f"rename {log.dir}", partial(store.env.files.rename, log.dir, path))
        except StorageError as error:
            errors[partition] = error
            return
        store.remove(partition, role)
        log.abandon()
        changed.setdefault(directory, {})[partition] = path if to is Role.DELETED else None
        _log.info("%s: %s is now %s", directory.path, partition, path)

    def _make_durable(self, changed: _Changed, errors: Errors, done: Callable[[Errors], None]) -> None:
        left = len(changed)
        if not left:
            done(errors)

        def ended() -> None:
            nonlocal left
            left -= 1
            if not left:
                done(errors)

        def failed(partitions: Iterable[TopicPartition], error: StorageError) -> None:
            errors.update(dict.fromkeys(partitions, error))
            ended()

        for directory, paths in changed.items():
            self._store.cleaning.removed(directory.path, paths)
            self._store.write_in_background(
                directory,
                "sync deletions",
                partial(self._store.env.files.sync_dir, directory.path),
                partial(self._renamed, directory, paths, ended, partial(failed, paths)),
                partial(failed, paths),
            )

    def _renamed(
        self,
        directory: LogDirectory,
        paths: Mapping[TopicPartition, str | None],
        ended: Callable[[], None],
        failed: Callable[[StorageError], None],
    ) -> None:
        """The new names are durable: from here on files may go."""
        for path in paths.values():
            if path is not None:
                self.enqueue(directory, path)
        write = self._store.prepare_checkpoints(directory)
        self._store.write_in_background(directory, "checkpoint", write, ended, failed)

    # Off the disk

    def enqueue(self, directory: LogDirectory, path: str) -> None:
        self._doomed.append(_Doomed(directory, path, self._store.env.clock.monotonic_ms()))

    def unlink_due(self) -> int:
        """Start to unlink what has waited long enough; returns in how many milliseconds to look again."""
        delay_ms = self._store.default_config.file_delete_delay_ms
        now_ms = self._store.env.clock.monotonic_ms()
        while self._doomed:
            wait_ms = self._doomed[0].since_ms + delay_ms - now_ms
            if wait_ms > 0:
                return wait_ms
            doomed = self._doomed.popleft()
            if doomed.directory.is_live:
                self._unlink(doomed)
        return max(delay_ms, 1)

    def _unlink(self, doomed: _Doomed) -> None:
        self._store.write_in_background(
            doomed.directory,
            f"remove {doomed.path}",
            partial(self.remove_tree, doomed.directory.path, doomed.path),
            partial(_log.info, "%s is removed", doomed.path),
            can_wait=True,
        )

    def remove_tree(self, parent: str, path: str) -> None:
        """Runs on any thread. What another has removed already is fine."""
        files = self._store.env.files
        with suppress(FileNotFoundError):
            for entry in files.list(path):
                if entry.is_dir:
                    self.remove_tree(path, join(path, entry.name))
                else:
                    files.unlink(join(path, entry.name))
            files.remove_dir(path)
            files.sync_dir(parent)
