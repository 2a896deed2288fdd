"""Formatting: what `kafka-storage format` of Kafka 4.3.1 makes of empty data directories.

    meta.properties          cluster id, node id, directory id; written last: with it the directory is formatted
    bootstrap.checkpoint     see `bootstrap`
    __cluster_metadata-0/00000000000000000000-0000000000.checkpoint
                             the first voter, when the voters are to be records of the log (`--standalone`)

Runs before everything else that opens the directories: the log manager locks them and checks what it finds, the quorum
needs the ids. A directory that has a meta.properties, ours or Kafka's, is left as it is.

The cluster id is made once, by whoever formats the first directory, and kept in all of them: 22 characters of
`[a-zA-Z0-9_-]`. One is never made while a directory cannot be read: it might have another.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tailrace.config.table import ConfigError
from tailrace.env import Env
from tailrace.model.errors import CorruptCheckpointError, ForeignLogDirError, LogDirLockedError, StorageError
from tailrace.raft.bootstrap import write_bootstrap
from tailrace.raft.metadata_log import METADATA_PARTITION
from tailrace.raft.quorum_state import QUORUM_STATE_FILE
from tailrace.raft.snapshot import SnapshotHead, SnapshotId
from tailrace.raft.snapshot_writer import write_snapshot
from tailrace.raft.voters import DYNAMIC_VOTERS, QuorumEndpoint, Voter
from tailrace.storage.manager.log_directory import LogDirectory
from tailrace.storage.manager.meta_properties import MetaProperties, new_directory_id
from tailrace.storage.names import LOG_SUFFIX, join, partition_dir_name

_CLUSTER_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,22}")

_log = logging.getLogger(__name__)


class Formatted(NamedTuple):
    """`directory_id` is of the directory that holds the metadata log."""

    cluster_id: str
    node_id: int
    directory_id: bytes


def format_directories(
    env: Env,
    directories: Sequence[str],
    metadata_directory: str,
    node_id: int,
    *,
    cluster_id: str | None = None,
    features: Mapping[str, int] | None = None,
    standalone: Sequence[QuorumEndpoint] = (),
) -> Formatted:
    """Format those that are not, and say whose they are.

    `features` beside metadata.version, which is that of Kafka 4.3. With the controller's endpoints as `standalone`, a
    new metadata directory gets kraft.version 1 with this node as its voter; else the voters are those configured.

    ForeignLogDirError for another cluster's or node's directory, and for one that has a metadata log but no
    meta.properties; LogDirLockedError, CorruptCheckpointError, StorageError. ConfigError for a bad `cluster_id`.
    """
    if cluster_id is not None and _CLUSTER_ID.fullmatch(cluster_id) is None:
        raise ConfigError(f"cluster id {cluster_id[:40]!r}: must have 1 to 22 of the characters a-z, A-Z, 0-9, - and _")
    work = _Formatting(env, directories, metadata_directory, node_id, features or {}, tuple(standalone))
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
    ) -> None:
        self._env = env
        self._node_id = node_id
        self._features = features
        self._standalone = standalone
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
                new = new_directory_id(self._env.random, taken)
                taken.add(new)
                found[directory] = self._format(directory, MetaProperties(chosen, self._node_id, new))
        ours = found[self._metadata_directory]
        assert ours is not None
        assert ours.directory_id is not None
        return Formatted(chosen, self._node_id, ours.directory_id.raw)

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
        return any(name == QUORUM_STATE_FILE or name.endswith(LOG_SUFFIX) for name in names)

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
        if directory is not self._metadata_directory or not self._standalone:
            return
        log_directory = directory.join(partition_dir_name(METADATA_PARTITION))
        files.make_dir(log_directory)
        files.sync_dir(directory.path)
        assert meta.directory_id is not None
        voter = Voter(meta.node_id, meta.directory_id.raw, self._standalone)
        head = SnapshotHead(clock.now_ms(), DYNAMIC_VOTERS, (voter,))
        write_snapshot(files, clock, join(log_directory, SnapshotId(0, 0).name), iter(()), head)
