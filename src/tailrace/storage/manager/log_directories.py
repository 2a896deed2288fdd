"""All data directories of a broker: opened together, checked against each other, chosen from.

What concerns one disk takes that directory offline and the start goes on: it cannot be made, read, locked (the disk
refuses), its `meta.properties` is damaged. What tells of a mistake stops the start before anything is changed: the
same directory twice, a lock that another process holds, another cluster's or node's directory, one directory id
twice. With no live directory left, NoLiveLogDirError stops the broker.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tailrace.config.broker import BrokerConfig
from tailrace.env import Env
from tailrace.model.errors import (
    CorruptCheckpointError,
    DuplicateLogDirError,
    ForeignLogDirError,
    LogDirError,
    LogDirNotFoundError,
    LogDirUnavailableError,
    NoLiveLogDirError,
    StorageError,
)
from tailrace.model.ids import DirectoryId
from tailrace.storage.manager.log_directory import LogDirectory
from tailrace.storage.manager.meta_properties import MetaProperties, new_directory_id

_log = logging.getLogger(__name__)


class NodeIdentity(NamedTuple):
    """Whose data it is."""

    cluster_id: str
    node_id: int


class LogDirectories:
    """In the order of `log.dirs`."""

    def __init__(self, env: Env, config: BrokerConfig, identity: NodeIdentity) -> None:
        """Touches no file."""
        self._env = env
        self._identity = identity
        self._all = tuple(LogDirectory(env.files, path) for path in config.directories)
        for directory in self._all:
            directory.is_cordoned = config.is_cordoned(directory.path)

    def __iter__(self) -> Iterator[LogDirectory]:
        return iter(self._all)

    @property
    def live(self) -> list[LogDirectory]:
        return [directory for directory in self._all if directory.is_live]

    @property
    def offline(self) -> list[LogDirectory]:
        return [directory for directory in self._all if not directory.is_live]

    def at(self, path: str) -> LogDirectory:
        for directory in self._all:
            if directory.path == (path.rstrip("/") or "/"):
                return directory
        raise LogDirNotFoundError(f"{path} is not among log.dirs")

    def with_id(self, directory_id: DirectoryId) -> LogDirectory:
        for directory in self.live:
            if directory.id == directory_id:
                return directory
        raise LogDirNotFoundError(f"no live log directory has the id {directory_id}")

    def check_any_live(self) -> None:
        if not self.live:
            reasons = "; ".join(str(directory.failure) for directory in self._all)
            raise NoLiveLogDirError(f"every log directory has failed: {reasons}")

    def for_new_partition(self, partition_counts: Mapping[str, int]) -> LogDirectory:
        """The live, uncordoned one with the fewest partitions; of equals the first in `log.dirs`."""
        candidates = [directory for directory in self.live if not directory.is_cordoned]
        if not candidates:
            raise LogDirUnavailableError("every live log directory is cordoned: none takes a new partition")
        return min(candidates, key=lambda directory: partition_counts.get(directory.path, 0))

    # Opening

    def open(self) -> None:
        """Validate, lock and identify all. After an error nothing is locked."""
        try:
            self._validate()
            self._lock()
            self._identify()
            self.check_any_live()
        except (LogDirError, OSError):
            self.unlock()
            raise

    def unlock(self) -> None:
        for directory in self._all:
            directory.unlock()

    def _fails(self, directory: LogDirectory, doing: str, cause: OSError) -> None:
        error = StorageError(f"{doing} {directory.path}", cause)
        _log.error("%s; the directory is offline", error)
        directory.go_offline(error)

    def _validate(self) -> None:
        paths: dict[str, str] = {}
        for directory in self._all:
            try:
                canonical = directory.validate()
            except OSError as cause:
                self._fails(directory, "open log directory", cause)
                continue
            if canonical in paths:
                raise DuplicateLogDirError(f"{paths[canonical]} and {directory.path} in log.dirs are one directory")
            paths[canonical] = directory.path

    def _lock(self) -> None:
        for directory in self.live:
            try:
                directory.lock()
            except OSError as cause:
                self._fails(directory, "lock log directory", cause)

    def _identify(self) -> None:
        found: dict[LogDirectory, MetaProperties | None] = {}
        for directory in self.live:
            try:
                found[directory] = directory.read_meta()
            except OSError as cause:
                self._fails(directory, "read meta.properties of", cause)
            except CorruptCheckpointError as damage:
                self._fails(directory, "read meta.properties of", OSError(errno.EIO, str(damage)))
        for directory, meta in found.items():
            if meta is not None:
                self._check(directory, meta)
        for directory, meta in found.items():
            if directory.id is None:
                self._give_id(directory, meta)

    def _check(self, directory: LogDirectory, meta: MetaProperties) -> None:
        ours = self._identity
        if meta.cluster_id != ours.cluster_id:
            raise ForeignLogDirError(f"{directory.path} belongs to cluster {meta.cluster_id}, not {ours.cluster_id}")
        if meta.node_id != ours.node_id:
            raise ForeignLogDirError(f"{directory.path} belongs to node {meta.node_id}, not {ours.node_id}")
        for other in self._all:
            if meta.directory_id is not None and other.id == meta.directory_id:
                raise ForeignLogDirError(f"{other.path} and {directory.path} have the same id {meta.directory_id}")
        directory.id = meta.directory_id

    def _give_id(self, directory: LogDirectory, meta: MetaProperties | None) -> None:
        taken = {each.id for each in self._all if each.id is not None}
        new = new_directory_id(self._env.random, taken)
        try:
            directory.write_meta(MetaProperties(*self._identity, new), self._env.clock.now_ms())
        except OSError as cause:
            self._fails(directory, "write meta.properties of", cause)
            return
        directory.id = new
        _log.info("%s: %s with directory id %s", directory.path, "new" if meta is None else "was without id", new)
