"""Writes snapshots of the committed state, and removes old ones with the log below them.

Crash rule. What is below a snapshot is durable before the snapshot has its name; see `metadata_log`.

Who may call. The driver, on the node's thread. The writing runs in jobs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, Protocol

from tailrace.config.quorum import QuorumConfig
from tailrace.env import Env
from tailrace.model.errors import TailraceError
from tailrace.model.invariant import invariant
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.raft.commit_reporter import CommitReporter, LogPosition
from tailrace.raft.metadata_log import MetadataLog, SnapshotFacts
from tailrace.raft.snapshot import SnapshotHead, SnapshotId
from tailrace.raft.voter_history import VoterHistory
from tailrace.raft.voters import STATIC_VOTERS
from tailrace.storage.steps import CalledOffError, JobRun, Steps

_log = logging.getLogger(__name__)


class SnapshotEvents(Protocol):
    def snapshot_created(self, snapshot_id: SnapshotId) -> None:
        """The file is durable."""

    def trimmed(self) -> None:
        """Old snapshots, and perhaps segments, are gone."""

    def snapshot_ended(self) -> None:
        """Nothing is being written any longer."""


class _Wanted(NamedTuple):
    position: LogPosition
    records: Iterator[VersionedRecord]
    done: Callable[[], None]


class SnapshotKeeper:
    def __init__(self, env: Env, config: QuorumConfig, committed: CommitReporter, events: SnapshotEvents) -> None:
        self._env = env
        self._config = config
        self._committed = committed
        self._events = events
        self._last_ms = 0
        self._wanted: _Wanted | None = None
        self._run: JobRun[None] | None = None

    @property
    def is_writing(self) -> bool:
        return self._run is not None

    def started(self) -> None:
        self._last_ms = self._env.clock.now_ms()

    def is_due(self, now_ms: int) -> bool:
        """By bytes or by time since the last one, if there are new records and no snapshot is being written."""
        if self._run is not None or self._wanted is not None or not self._committed.bytes_since_snapshot:
            return False
        interval_ms = self._config.metadata_log_max_snapshot_interval_ms
        is_late = interval_ms > 0 and not 0 <= now_ms - self._last_ms < interval_ms
        max_bytes = self._config.metadata_log_max_record_bytes_between_snapshots
        return is_late or self._committed.bytes_since_snapshot >= max_bytes

    def request(self, records: Iterator[VersionedRecord], done: Callable[[], None], last_offset: int | None) -> None:
        invariant(self._run is None and self._wanted is None, "one snapshot is written at a time")
        position: LogPosition | None = self._committed.reported
        if last_offset is not None:
            position = self._committed.position_of(last_offset)
        invariant(position is not None, f"offset {last_offset} is the end of an append or was reported last")
        assert position is not None
        self._committed.bytes_since_snapshot = 0
        self._last_ms = self._env.clock.now_ms()
        self._wanted = _Wanted(position, records, done)

    def begin(self, log: MetadataLog, history: VoterHistory) -> None:
        """Begin to write the requested snapshot if what it contains is committed."""
        wanted = self._wanted
        if wanted is None or wanted.position.offset > self._committed.reported.offset:
            return
        self._wanted = None
        snapshot_id = SnapshotId(wanted.position.offset + 1, wanted.position.epoch)
        if snapshot_id in log.snapshots or snapshot_id.offset <= log.log.log_start_offset:
            wanted.done()
            return
        self._run = JobRun(
            "write-snapshot",
            self._writing(log, history, snapshot_id, wanted),
            self._env.jobs,
            lambda _: self._ended(wanted.done),
            partial(self._failed, log, snapshot_id, wanted.done),
        )
        self._run.start()

    def _writing(
        self, log: MetadataLog, history: VoterHistory, snapshot_id: SnapshotId, wanted: _Wanted
    ) -> Steps[None]:
        yield from log.making_ground(snapshot_id.offset)
        voters = history.below(snapshot_id.offset)
        is_dynamic = voters.kraft_version > STATIC_VOTERS
        head = SnapshotHead(wanted.position.timestamp_ms, voters.kraft_version, voters.voters if is_dynamic else ())
        size_bytes = yield from log.writer(snapshot_id, head).in_steps(wanted.records)
        log.add_snapshot(snapshot_id, SnapshotFacts(size_bytes, wanted.position.timestamp_ms))
        self._events.snapshot_created(snapshot_id)
        _log.info("%s: snapshot %s with %d bytes", log.log.dir, snapshot_id, size_bytes)
        yield from log.trimming()
        self._events.trimmed()

    def _ended(self, done: Callable[[], None]) -> None:
        self._run = None
        done()
        self._events.snapshot_ended()

    def _failed(self, log: MetadataLog, snapshot_id: SnapshotId, done: Callable[[], None], error: Exception) -> None:
        self._run = None
        if not isinstance(error, OSError | TailraceError):
            raise error
        if not isinstance(error, CalledOffError):
            _log.error("%s: snapshot %s: %s", log.log.dir, snapshot_id, error)
        self._ended(done)

    @property
    def is_waiting_for_commit(self) -> bool:
        return self._wanted is not None and self._wanted.position.offset > self._committed.reported.offset

    def forget_request(self) -> None:
        """What was requested may never be committed, or the node stops."""
        wanted, self._wanted = self._wanted, None
        if wanted is not None:
            wanted.done()

    def call_off(self, reason: str) -> None:
        """End the writing now; when this returns it has ended."""
        self.forget_request()
        if self._run is not None:
            self._run.call_off(CalledOffError(reason))
