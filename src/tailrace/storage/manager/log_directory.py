"""One data directory: an entry of `log.dirs` with its lock, identity and checkpoints.

    <dir>/.lock                  held by the process that uses the directory
    <dir>/meta.properties        see `meta_properties`
    <dir>/.kafka_cleanshutdown   see `clean_shutdown`
    <dir>/*-offset-checkpoint    see `directory_checkpoints`
    <dir>/<topic>-<partition>…   see `directory_names`

A directory is live until its disk fails, then offline until the broker is started again. One that is cordoned serves
what it has and gets no new partitions.

Who may call. The log manager, on the owner's thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from tailrace.env import Files, Lock
from tailrace.model.errors import LogDirLockedError, StorageError
from tailrace.model.ids import DirectoryId, TopicPartition
from tailrace.storage.manager.clean_shutdown import CleanShutdownMarker
from tailrace.storage.manager.directory_checkpoints import DirectoryCheckpoints
from tailrace.storage.manager.meta_properties import META_PROPERTIES_FILE, MetaProperties
from tailrace.storage.names import directory_of, join

LOCK_FILE: Final = ".lock"


class LogDirectory:
    def __init__(self, files: Files, path: str) -> None:
        """Touches no file."""
        self.path = path
        self.id: DirectoryId | None = None
        self.failure: StorageError | None = None
        """Why it is offline."""
        self.is_cordoned = False
        self.checkpoints = DirectoryCheckpoints(files, path)
        self.clean_shutdown = CleanShutdownMarker(files, path)
        self.was_clean = False
        """The marker of a clean shutdown was there when this run began."""
        self.is_recovered = False
        """Every log of it was loaded in this run."""
        self.has_unloadable = False
        """A log of it could not be loaded."""
        self.unloaded_recovery_points: dict[TopicPartition, int] = {}
        self.unloaded_log_starts: dict[TopicPartition, int] = {}
        """What the checkpoints say of logs that are not open: it must not be lost when they are written."""
        self.compacted: frozenset[TopicPartition] = frozenset()
        """Partitions whose logs were compacted before this run."""
        self._files = files
        self._lock: Lock | None = None

    def __repr__(self) -> str:
        return f"LogDirectory({self.path}, {'live' if self.is_live else 'offline'})"

    @property
    def is_live(self) -> bool:
        return self.failure is None

    def join(self, name: str) -> str:
        return join(self.path, name)

    def go_offline(self, error: StorageError) -> None:
        """For the rest of this run; the first error is kept."""
        self.failure = self.failure or error

    def validate(self) -> str:
        """Make the directory where it is missing, see that it can be read; returns its canonical path."""
        self._make(self.path)
        self._files.list(self.path)
        canonical = self._files.canonical(self.path)
        self._sync_names_above(canonical)
        return canonical

    def _make(self, path: str) -> None:
        if not self._files.exists(path):
            self._make(directory_of(path))
            self._files.make_dir(path)

    def _sync_names_above(self, canonical: str) -> None:
        """Also of directories that are there: a process that made them may have been killed before it synced."""
        path = canonical
        while (parent := directory_of(path)) != path:
            with suppress(PermissionError):
                self._files.sync_dir(parent)
            path = parent

    def lock(self) -> None:
        """LogDirLockedError when another process has it."""
        try:
            self._lock = self._files.lock(self.join(LOCK_FILE))
        except BlockingIOError:
            raise LogDirLockedError(f"{self.path} is used by another process, which holds its {LOCK_FILE}") from None

    def unlock(self) -> None:
        """Again is fine."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def read_meta(self) -> MetaProperties | None:
        return MetaProperties.read(self._files, self.join(META_PROPERTIES_FILE))

    def write_meta(self, meta: MetaProperties, now_ms: int) -> None:
        meta.write(self._files, self.join(META_PROPERTIES_FILE), now_ms)

    def remember(self, recovery_points: Mapping[TopicPartition, int], log_starts: Mapping[TopicPartition, int]) -> None:
        """What the checkpoints say before any log is open."""
        self.unloaded_recovery_points = dict(recovery_points)
        self.unloaded_log_starts = dict(log_starts)

    def forget_unloaded(self, partition: TopicPartition) -> None:
        """The partition's log is open, or gone from here."""
        self.unloaded_recovery_points.pop(partition, None)
        self.unloaded_log_starts.pop(partition, None)
