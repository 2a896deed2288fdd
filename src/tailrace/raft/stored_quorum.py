"""What a directory holds of the metadata quorum when a node starts: log, election state, voters, newest snapshot.

Crash rule. A process that was killed leaves in the page cache what it had not synced yet. The node that starts reads
it, and acts on it: its first fetch promises the log, and a vote that it finds is granted again. So all of it is synced
first; else a loss of power after that would take back what was promised.

Who may call. A job, before the node's thread owns the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tailrace.config.quorum import QuorumConfig
from tailrace.env import Env
from tailrace.model.errors import TailraceError
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.raft import metadata_log
from tailrace.raft.bootstrap import read_bootstrap_records
from tailrace.raft.commit_reporter import PreparedSnapshot
from tailrace.raft.consensus import StoredLog
from tailrace.raft.log_succession import has_epochs, read_succession
from tailrace.raft.metadata_log import MetadataLog
from tailrace.raft.quorum_state import QUORUM_STATE_FILE, QuorumState
from tailrace.raft.voter_history import StoredVoters
from tailrace.storage.names import LEADER_EPOCH_CHECKPOINT, join
from tailrace.storage.steps import run_inline

_log = logging.getLogger(__name__)

Prepare = Callable[[Iterator[VersionedRecord]], Any]
"""See `QuorumListener.prepare`."""


class StoredQuorum(NamedTuple):
    """`bootstrap_records` are what the first controller writes into an empty log."""

    log: MetadataLog
    state: QuorumState | None
    voters: StoredVoters
    bootstrap_records: tuple[VersionedRecord, ...]
    snapshot: PreparedSnapshot | None
    """The newest one; None if it has no metadata records, as that of a formatted directory."""

    @classmethod
    def load(cls, env: Env, directory: str, config: QuorumConfig, prepare: Prepare = list) -> StoredQuorum:
        """From a data directory. Everything that it returns is durable. If it raises an error the log is closed."""
        log = metadata_log.load(env, directory, config)
        try:
            run_inline(log.log.flushing(log.log.log_end_offset))
            env.files.sync_dir(log.log.dir)
            state = QuorumState.read(env.files, join(log.log.dir, QUORUM_STATE_FILE))
            _believe_the_batches(log, state)
            bootstrap_records = read_bootstrap_records(env.files, directory)
            return cls(log, state, StoredVoters.read(log), bootstrap_records, _prepared(log, prepare))
        except (OSError, TailraceError):
            log.log.abandon()
            raise

    @property
    def stored_log(self) -> StoredLog:
        """For the core."""
        log = self.log.log
        start = log.log_start_offset
        epochs = tuple((entry.epoch, max(entry.start_offset, start)) for entry in log.epochs.entries)
        return StoredLog(start, log.log_end_offset, epochs, self.log.snapshots, self.voters.base, self.voters.changes)


def _believe_the_batches(metadata_log: MetadataLog, state: QuorumState | None) -> None:
    """See `log_succession`. What is below the newest snapshot is read only where the checkpoint contradicts it."""
    log, newest = metadata_log.log, metadata_log.latest_snapshot
    start, epoch = (newest.offset, newest.epoch) if newest is not None else (log.log_start_offset, 0)
    epochs, contradiction = read_succession(log, start, epoch, state.leader_epoch if state is not None else None)
    if _correct_below(metadata_log, start) | log.epochs.replace_from(start, epoch, epochs):
        _log.error("%s/%s is damaged: its epochs are taken from the batches", log.dir, LEADER_EPOCH_CHECKPOINT)
    if contradiction is not None:
        _log.error(
            "%s is damaged and is cut at offset %d of %d: %s",
            log.dir,
            contradiction.offset,
            log.log_end_offset,
            contradiction.reason,
        )
        log.truncate_to(contradiction.offset)
    if state is not None and (log.epochs.latest_epoch or 0) > state.leader_epoch:
        _log.error(
            "%s/%s is damaged: it has epoch %d, and the log epoch %d",
            log.dir,
            QUORUM_STATE_FILE,
            state.leader_epoch,
            log.epochs.latest_epoch,
        )


def _correct_below(metadata_log: MetadataLog, end: int) -> bool:
    """Whether epochs of batches below the newest snapshot, which ends at `end`, were wrong. They are right now.

    A leader compares the logs of followers with them.
    """
    log = metadata_log.log
    start = log.log_start_offset
    if start == end or has_epochs(log, [each for each in log.epochs.entries if each.start_offset < end], end):
        return False
    oldest = min(metadata_log.snapshots)
    epoch = oldest.epoch if oldest.offset == start else 0
    try:
        found = read_succession(log, start, epoch, None)
    except TailraceError as error:  # the snapshot has what these batches had: the node can do without them
        _log.error("%s is damaged below offset %d: %s", log.dir, end, error)
        return False
    return log.epochs.replace_from(start, epoch, found.epochs)


def _prepared(log: MetadataLog, prepare: Prepare) -> PreparedSnapshot | None:
    newest = log.latest_snapshot
    if newest is None or newest.offset == 0:
        return None
    reader = log.reader(newest)
    return PreparedSnapshot(newest, reader.head().timestamp_ms, prepare(reader.records()))
