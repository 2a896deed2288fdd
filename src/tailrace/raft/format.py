"""Formatting: what `kafka-storage format` of Kafka 4.3.1 makes of empty data directories.

    meta.properties          cluster id, node id, directory id; written last: with it the directory is formatted
    bootstrap.checkpoint     see `bootstrap`
    __cluster_metadata-0/00000000000000000000-0000000000.checkpoint
                             the first voters, when the voters are records of the log (`--standalone`,
                             `--initial-controllers`); only in the directory of the metadata log

A directory that has a meta.properties, ours or Kafka's, is left as it is. Crash rule: formatting is repeated after a
crash. What it left in a directory without meta.properties is replaced or removed, so that the second time may ask for
other features or voters.

Who may call. `tailrace storage format`, and a node before everything else that opens the directories: the log manager
locks them and checks what it finds, the quorum needs the ids. Each directory is locked while it is formatted.

A cluster id that is not given is created with the first directory and kept in all of them: 22 characters of
`[a-zA-Z0-9_-]`. None is created while a directory cannot be read: it might have another.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from tailrace.config.table import ConfigError
from tailrace.env import Env
from tailrace.model.errors import CorruptCheckpointError, ForeignLogDirError, LogDirLockedError, StorageError
from tailrace.model.ids import DirectoryId
from tailrace.model.invariant import invariant
from tailrace.raft.bootstrap import write_bootstrap
from tailrace.raft.metadata_log import METADATA_PARTITION
from tailrace.raft.quorum_state import QUORUM_STATE_FILE
from tailrace.raft.snapshot import SnapshotHead, SnapshotId, parse_name
from tailrace.raft.snapshot_writer import write_snapshot
from tailrace.raft.voters import DYNAMIC_VOTERS, QuorumEndpoint, Voter
from tailrace.storage.manager.log_directory import LogDirectory
from tailrace.storage.manager.meta_properties import MetaProperties, new_directory_id
from tailrace.storage.names import LOG_SUFFIX, join, partition_dir_name

FIRST_SNAPSHOT: Final = SnapshotId(0, 0)
"""Holds the first voters and no metadata records."""
_CLUSTER_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,22}")

_log = logging.getLogger(__name__)


class Formatted(NamedTuple):
    """`directory_id` is of the directory that holds the metadata log."""

    cluster_id: str
    node_id: int
    directory_id: DirectoryId


def format_directories(
    env: Env,
    directories: Sequence[str],
    metadata_directory: str,
    node_id: int,
    *,
    cluster_id: str | None = None,
    features: Mapping[str, int] | None = None,
    standalone: Sequence[QuorumEndpoint] = (),
    initial_controllers: Sequence[Voter] = (),
) -> Formatted:
    """Formats the directories that are not formatted, and returns whose they all are.

    `features` are levels; metadata.version is that of Kafka 4.3 if it is not among them. At most one of the following
    is given. With either, a new metadata directory gets kraft.version 1; without, the voters are those configured, or
    those of the quorum that the node joins.

    - `standalone`: the endpoints of this node, which is the only voter.
    - `initial_controllers`: the voters. If this node is one of them, its metadata directory gets the voter's id.

    ForeignLogDirError for another cluster's or node's directory, and for one that has a metadata log but no
    meta.properties; LogDirLockedError, CorruptCheckpointError, StorageError. ConfigError for a bad `cluster_id`.
    """
    if cluster_id is not None and _CLUSTER_ID.fullmatch(cluster_id) is None:
        raise ConfigError(f"cluster id {cluster_id[:40]!r}: must have 1 to 22 of the characters a-z, A-Z, 0-9, - and _")
    invariant(not (standalone and initial_controllers), "the first voters are given in one way")
    voters = tuple(initial_controllers)
    work = _Formatting(env, directories, metadata_directory, node_id, features or {}, tuple(standalone), voters)
    return work.run(cluster_id)


class _Formatting:
    def __init__(
        self,
        env: Env,
        directories: Sequence[str],
        metadata_directory: str,
        node_id: int,
        features: Mapping[str, int],
        standalone: tuple[QuorumEndpoint, ...],
        initial_controllers: tuple[Voter, ...],
    ) -> None:
        self._env = env
        self._node_id = node_id
        self._features = features
        self._standalone = standalone
        self._initial_controllers = initial_controllers
        self._directories = [
            LogDirectory(env.files, path) for path in dict.fromkeys((metadata_directory, *directories))
        ]
        self._metadata_directory = self._directories[0]

    def run(self, cluster_id: str | None) -> Formatted:
        found: dict[LogDirectory, MetaProperties | None] = {}
        unreadable: dict[LogDirectory, StorageError | CorruptCheckpointError] = {}
        for directory in self._directories:
            try:
                found[directory] = self._look_at(directory)
            except (StorageError, CorruptCheckpointError) as error:
                if directory is self._metadata_directory:
                    raise
                unreadable[directory] = error
        chosen = self._cluster_id(cluster_id, found)
        if chosen is None:
            if unreadable:
                raise next(iter(unreadable.values()))
            chosen = str(new_directory_id(self._env.random, ()))
        taken = {meta.directory_id for meta in found.values() if meta is not None and meta.directory_id is not None}
        for directory, meta in found.items():
            if meta is None or (meta.directory_id is None and directory is self._metadata_directory):
                new = self._new_id(directory, taken)
                taken.add(new)
                found[directory] = self._format(directory, MetaProperties(chosen, self._node_id, new))
        ours = found[self._metadata_directory]
        assert ours is not None
        assert ours.directory_id is not None
        return Formatted(chosen, self._node_id, ours.directory_id)

    def _new_id(self, directory: LogDirectory, taken: Collection[DirectoryId]) -> DirectoryId:
        if directory is self._metadata_directory:
            for voter in self._initial_controllers:
                if voter.node_id == self._node_id:
                    if voter.directory_id in taken:
                        raise ForeignLogDirError(f"the directory id {voter.directory_id} is that of another directory")
                    return voter.directory_id
        return new_directory_id(self._env.random, taken)

    def _look_at(self, directory: LogDirectory) -> MetaProperties | None:
        try:
            directory.validate()
            meta = directory.read_meta()
            has_log = meta is None and self._has_metadata_log(directory)
        except OSError as cause:
            raise StorageError(f"open log directory {directory.path}", cause) from cause
        if has_log:
            raise ForeignLogDirError(
                f"{directory.path} has a metadata log but no meta.properties that says whose it is"
            )
        return meta

    def _has_metadata_log(self, directory: LogDirectory) -> bool:
        path = directory.join(partition_dir_name(METADATA_PARTITION))
        if not self._env.files.exists(path):
            return False
        names = [entry.name for entry in self._env.files.list(path)]
        return any(name == QUORUM_STATE_FILE or name.endswith(LOG_SUFFIX) or _is_written(name) for name in names)

    def _cluster_id(self, wanted: str | None, found: Mapping[LogDirectory, MetaProperties | None]) -> str | None:
        for directory, meta in found.items():
            if meta is None:
                continue
            if meta.node_id != self._node_id:
                raise ForeignLogDirError(f"{directory.path} belongs to node {meta.node_id}, not {self._node_id}")
            if wanted is not None and meta.cluster_id != wanted:
                raise ForeignLogDirError(f"{directory.path} belongs to cluster {meta.cluster_id}, not {wanted}")
            wanted = meta.cluster_id
        return wanted

    def _format(self, directory: LogDirectory, meta: MetaProperties) -> MetaProperties:
        """Under the directory's lock: of two processes that begin at once, one finds what the other has made."""
        try:
            directory.lock()
            try:
                found = directory.read_meta()
                if found is not None and found.directory_id is not None:
                    raise LogDirLockedError(f"{directory.path} was formatted by another process just now")
                if found is None:
                    self._write_files(directory, meta)
                directory.write_meta(meta, self._env.clock.now_ms())
            finally:
                directory.unlock()
        except OSError as cause:
            raise StorageError(f"format {directory.path}", cause) from cause
        _log.info("%s: formatted for cluster %s, node %d", directory.path, meta.cluster_id, meta.node_id)
        return meta

    def _write_files(self, directory: LogDirectory, meta: MetaProperties) -> None:
        files, clock = self._env.files, self._env.clock
        write_bootstrap(files, clock, directory.path, self._features)
        log_directory = directory.join(partition_dir_name(METADATA_PARTITION))
        self._remove_unfinished(log_directory)
        assert meta.directory_id is not None
        voters = self._initial_controllers
        if self._standalone:
            voters = (Voter(meta.node_id, meta.directory_id, self._standalone),)
        if directory is not self._metadata_directory or not voters:
            return
        files.make_dir(log_directory)
        files.sync_dir(directory.path)
        head = SnapshotHead(clock.now_ms(), DYNAMIC_VOTERS, voters)
        write_snapshot(files, clock, join(log_directory, FIRST_SNAPSHOT.name), iter(()), head)

    def _remove_unfinished(self, log_directory: str) -> None:
        """What a formatting that did not end left: its voters may not be those of this one."""
        if not self._env.files.exists(log_directory):
            return
        for entry in self._env.files.list(log_directory):
            if entry.name.startswith(FIRST_SNAPSHOT.name):
                self._env.files.unlink(join(log_directory, entry.name))
        self._env.files.sync_dir(log_directory)


def _is_written(name: str) -> bool:
    """Whether it is a snapshot of a metadata log that had records."""
    found = parse_name(name)
    return found is not None and found.id != FIRST_SNAPSHOT
