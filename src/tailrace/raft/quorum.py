"""One node's part in the metadata quorum; today a quorum of one voter, which elects itself and commits by fsync.

At the start: load the log, give the listener the newest snapshot; note in `quorum-state`, durably, that this node leads
an epoch above all that were; write a LeaderChange record in it and flush. Only then is the log committed to its end, be
it of which epoch it may: the listener is given everything behind the snapshot, then `became_leader`.

From then on an append is one batch of the log. It is committed when an fsync that covers it has returned; appends that
come while one is on its way share the next. Commits, and what the listener is told, keep the order of the appends.

Crash rule. What was committed survives a loss of power. What was appended and not committed may survive; the next
leader commits it, or it was never there: nobody was told that it was.

Who may call. The node's thread; files are touched by jobs, but for the writes of an append.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from tailrace.config.quorum import QuorumConfig
from tailrace.env import Env
from tailrace.model.errors import (
    InconsistentVoterSetError,
    MessageTooLargeError,
    NotControllerError,
    StorageError,
    TailraceError,
)
from tailrace.model.invariant import invariant
from tailrace.protocol.message import Record
from tailrace.protocol.record_frame import VersionedRecord, encode_metadata_record
from tailrace.protocol.records.control import KRaftVersionRecord, LeaderChangeMessage, LeaderChangeVoter
from tailrace.raft import metadata_log
from tailrace.raft.bootstrap import read_bootstrap_records
from tailrace.raft.control_batch import control_batch
from tailrace.raft.description import QuorumDescription, ReplicaState
from tailrace.raft.listener import QuorumListener
from tailrace.raft.metadata_log import MetadataLog, SnapshotFacts
from tailrace.raft.quorum_state import GREATEST_EPOCH, NOBODY, QUORUM_STATE_FILE, QuorumState
from tailrace.raft.snapshot import SnapshotHead, SnapshotId
from tailrace.raft.voter_history import VoterHistory
from tailrace.raft.voters import QuorumEndpoint, QuorumNode, Voter, voters_record
from tailrace.record.builder import BatchBuilder
from tailrace.storage.names import join
from tailrace.storage.steps import CalledOffError, JobRun, Steps

__all__ = ["Quorum", "QuorumDescription", "QuorumEndpoint", "QuorumNode", "ReplicaState"]

_log = logging.getLogger(__name__)


class _Place(NamedTuple):
    """A last record of a batch."""

    offset: int
    epoch: int
    timestamp_ms: int


class _Appended(NamedTuple):
    place: _Place
    size_bytes: int
    records: list[VersionedRecord]
    done: Callable[[int], None]


class _WantedSnapshot(NamedTuple):
    place: _Place
    records: Iterator[VersionedRecord]
    done: Callable[[], None]


class _Loaded(NamedTuple):
    log: MetadataLog
    state: QuorumState | None
    history: VoterHistory
    bootstrap_records: tuple[VersionedRecord, ...]


class Quorum:
    def __init__(
        self, env: Env, directory: str, node: QuorumNode, config: QuorumConfig, listener: QuorumListener
    ) -> None:
        """`directory` is the data directory that holds, or gets, `__cluster_metadata-0`. Touches no file."""
        self._env = env
        self._directory = directory
        self._node = node
        self._config = config
        self._listener = listener
        self._log: MetadataLog | None = None
        self._voter = Voter(node.node_id, endpoints=node.endpoints)
        self._history = VoterHistory()
        self._epoch = 0
        self._is_leader = False
        self._failure: TailraceError | None = None
        self._told = _Place(-1, 0, -1)
        """What the listener knows."""
        self._has_records = False
        self._bootstrap_records: tuple[VersionedRecord, ...] = ()
        self._appended: deque[_Appended] = deque()
        self._is_flushing = False
        self._is_telling = False
        self._bytes_since_snapshot = 0
        self._last_snapshot_ms = 0
        self._wanted_snapshot: _WantedSnapshot | None = None
        self._snapshot_run: JobRun[None] | None = None
        self._is_starting = False
        self._is_closing = False
        self._when_closed: Callable[[], None] | None = None

    # What it knows

    @property
    def bootstrap_records(self) -> tuple[VersionedRecord, ...]:
        """What the controller writes first, inside one metadata transaction; nothing where the log has records."""
        return () if self._has_records else self._bootstrap_records

    @property
    def is_leader(self) -> bool:
        return self._is_leader

    @property
    def leader_id(self) -> int:
        return self._node.node_id if self._is_leader else NOBODY

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def kraft_version(self) -> int:
        """0: the voters are configured; 1: they are records of the log."""
        return self._history.kraft_version

    @property
    def high_watermark(self) -> int:
        return self._log.log.high_watermark if self._log is not None else 0

    @property
    def log_start_offset(self) -> int:
        return self._log.log.log_start_offset if self._log is not None else 0

    @property
    def log_end_offset(self) -> int:
        return self._log.log.log_end_offset if self._log is not None else 0

    @property
    def voters(self) -> tuple[Voter, ...]:
        return (self._voter,)

    def describe(self, now_ms: int) -> QuorumDescription:
        voter = self._voter
        state = ReplicaState(voter.node_id, voter.directory_id, self.log_end_offset, now_ms, now_ms)
        return QuorumDescription(
            self.leader_id, self._epoch, self.high_watermark, (state,), (), {voter.node_id: voter.endpoints}
        )

    # Starting

    def start(self, ready: Callable[[], None]) -> None:
        """See the module. An error goes to `listener.failed`, and `ready` is not called then."""
        self._is_starting = True
        self._env.jobs.run("load-metadata-log", self._load, partial(self._stand_for_election, ready), self._not_started)

    def _load(self) -> _Loaded:
        log = metadata_log.load(self._env, self._directory, self._config)
        state = QuorumState.read(self._env.files, join(log.log.dir, QUORUM_STATE_FILE))
        return _Loaded(log, state, VoterHistory.read(log), read_bootstrap_records(self._env.files, self._directory))

    def _not_started(self, error: Exception) -> None:
        if isinstance(error, OSError):
            error = StorageError(f"start the metadata quorum in {self._directory}", error)
        if not isinstance(error, TailraceError):
            raise error
        self._fail(error)

    def _stand_for_election(self, ready: Callable[[], None], loaded: _Loaded) -> None:
        self._log, self._history, self._bootstrap_records = loaded.log, loaded.history, loaded.bootstrap_records
        self._log.log.on_failure = self._log_failed
        if self._gives_up_start():
            return
        try:
            self._voter = loaded.history.as_only_voter(self._node)
            self._epoch = 1 + max(loaded.log.last_epoch, loaded.state.leader_epoch if loaded.state is not None else 0)
            if self._epoch > GREATEST_EPOCH:
                raise InconsistentVoterSetError(f"{self._directory}: there is no epoch after {GREATEST_EPOCH}")
            self._tell_snapshot(loaded.log)
        except TailraceError as error:
            self._fail(error)
            return
        elected = QuorumState(self._epoch, leader_id=self._node.node_id, voters=(self._node.node_id,))
        path = join(loaded.log.log.dir, QUORUM_STATE_FILE)
        write = partial(elected.write, self._env.files, path, 0 if self.kraft_version == 0 else 1)
        self._env.jobs.run("write-quorum-state", write, lambda _: self._open_epoch(ready), self._not_started)

    def _tell_snapshot(self, log: MetadataLog) -> None:
        newest = log.latest_snapshot
        if newest is None or newest.offset == 0:  # the latter is of a formatted directory: voters and nothing else
            return
        reader = log.reader(newest)
        self._told = _Place(newest.offset - 1, newest.epoch, reader.head().timestamp_ms)
        self._has_records = True
        self._listener.loaded(reader.records(), *self._told)

    def _open_epoch(self, ready: Callable[[], None]) -> None:
        if self._gives_up_start():
            return
        log = self._opened.log
        me = LeaderChangeVoter(voter_id=self._node.node_id)
        change = LeaderChangeMessage(version=0, leader_id=self._node.node_id, voters=[me], granting_voters=[me])
        records: list[Record] = [change]
        if self._history.needs_record(self._voter):
            records.append(KRaftVersionRecord(version=0, kraft_version=self.kraft_version))
            records.append(voters_record((self._voter,)))
        batch = control_batch(records, log.log_end_offset, self._epoch, self._env.clock.now_ms())
        try:
            end = log.append_from_raft_leader(batch, self._epoch).last_offset + 1
        except TailraceError as error:
            self._fail(error)
            return
        log.flush(end, partial(self._elected, end, ready))

    def _elected(self, end: int, ready: Callable[[], None]) -> None:
        """Whatever the log holds is committed by the flush of this epoch's first record."""
        if self._gives_up_start():
            return
        log = self._opened
        log.log.update_high_watermark(end)
        try:
            for batch in log.batches(max(self._told.offset + 1, log.log.log_start_offset), end):
                place = _Place(batch.last_offset, batch.epoch, batch.timestamp_ms)
                self._tell(place, batch.records, batch.size_bytes)
            self._is_starting = False
            self._is_leader = True
            self._last_snapshot_ms = self._env.clock.now_ms()
            self._listener.became_leader(self._epoch)
        except TailraceError as error:  # of the log, or the listener cannot live with what is in it
            self._fail(error)
        else:
            ready()

    def _gives_up_start(self) -> bool:
        """A shutdown was asked for meanwhile; or the log has failed."""
        if self._is_closing:
            self._is_starting = False
            self._close_when_idle()
        return self._is_closing or self._failure is not None

    @property
    def _opened(self) -> MetadataLog:
        invariant(self._log is not None, "the metadata log is loaded")
        assert self._log is not None
        return self._log

    # Appending

    def append(self, records: Sequence[VersionedRecord], done: Callable[[int], None]) -> int:
        """Write one batch; returns its last offset. `done(last_offset)` after it was committed and the listener told.

        An error means that nothing was written: NotControllerError before `became_leader` and once it is closing,
        MessageTooLargeError above 8 MiB, StorageError, which is the end of the quorum unless the disk was only full.
        """
        if self._failure is not None:
            raise self._failure
        if not self._is_leader or self._is_closing:
            raise NotControllerError(f"node {self._node.node_id} does not lead the metadata quorum")
        invariant(len(records) > 0, "an append has records")
        log = self._opened.log
        now_ms = self._env.clock.now_ms()
        builder = BatchBuilder(log.log_end_offset, leader_epoch=self._epoch)
        for record, version in records:
            builder.append(now_ms, None, encode_metadata_record(record, version))
        most_bytes = self._config.internal_metadata_max_batch_size_in_bytes
        if builder.uncompressed_bytes > most_bytes:
            raise MessageTooLargeError(
                f"{len(records)} metadata records take {builder.uncompressed_bytes} bytes; {most_bytes} fit one batch"
            )
        last_offset = log.append_from_raft_leader(builder.build(), self._epoch).last_offset
        place = _Place(last_offset, self._epoch, now_ms)
        self._appended.append(_Appended(place, builder.uncompressed_bytes, list(records), done))
        self._flush()
        return last_offset

    def _flush(self) -> None:
        end = self.log_end_offset
        if self._is_flushing or end == self.high_watermark or self._failure is not None:
            return
        self._is_flushing = True
        self._opened.log.flush(end, partial(self._flushed, end))

    def _flushed(self, end: int) -> None:
        self._is_flushing = False
        self._opened.log.update_high_watermark(end)
        self._tell_committed()
        self._flush()
        self._begin_wanted_snapshot()
        self._close_when_idle()

    def _tell_committed(self) -> None:
        if self._is_telling:  # a listener appends, and its flush has returned already: it waits for its turn
            return
        self._is_telling = True
        try:
            while self._appended and self._appended[0].place.offset < self.high_watermark:
                place, size_bytes, records, done = self._appended.popleft()
                self._tell(place, records, size_bytes)
                done(place.offset)
        finally:
            self._is_telling = False

    def _tell(self, place: _Place, records: list[VersionedRecord], size_bytes: int) -> None:
        self._told = place
        self._bytes_since_snapshot += size_bytes
        self._has_records = self._has_records or bool(records)
        self._listener.committed(records, *place)

    # Snapshots

    def snapshot_is_due(self, now_ms: int) -> bool:
        """By bytes or by time since the last one, as far as there is something new and none is being written."""
        is_busy = self._snapshot_run is not None or self._wanted_snapshot is not None
        if not self._is_leader or is_busy or self._is_closing or not self._bytes_since_snapshot:
            return False
        interval_ms = self._config.metadata_log_max_snapshot_interval_ms
        is_late = interval_ms > 0 and not 0 <= now_ms - self._last_snapshot_ms < interval_ms
        return is_late or self._bytes_since_snapshot >= self._config.metadata_log_max_record_bytes_between_snapshots

    def snapshot(
        self, records: Iterator[VersionedRecord], done: Callable[[], None], last_offset: int | None = None
    ) -> None:
        """Write the state as it is after `last_offset`, the end of a batch; by default the last that was told.

        `records` is read by jobs, in pieces: it must not depend on anything that changes later. With a `last_offset`
        that is not committed yet, the writing begins when it is. Then old snapshots and segments go.

        `done` is called when the work has ended, well or not: an error of the disk is logged, and another snapshot
        falls due in time.
        """
        invariant(self._snapshot_run is None and self._wanted_snapshot is None, "one snapshot is written at a time")
        place = self._told
        if last_offset is not None and last_offset != place.offset:
            place = next((each.place for each in self._appended if each.place.offset == last_offset), _Place(-1, 0, -1))
            invariant(place.offset == last_offset, f"offset {last_offset} is the end of an append or was told last")
        self._bytes_since_snapshot = 0
        self._last_snapshot_ms = self._env.clock.now_ms()
        self._wanted_snapshot = _WantedSnapshot(place, records, done)
        self._begin_wanted_snapshot()

    def _begin_wanted_snapshot(self) -> None:
        wanted = self._wanted_snapshot
        if wanted is None or wanted.place.offset >= self.high_watermark:
            return
        self._wanted_snapshot = None
        snapshot_id = SnapshotId(wanted.place.offset + 1, wanted.place.epoch)
        if self._failure is not None or self._is_closing or snapshot_id in self._opened.snapshots:
            wanted.done()
            return
        self._snapshot_run = JobRun(
            "write-snapshot",
            self._snapshotting(snapshot_id, wanted),
            self._env.jobs,
            lambda _: self._snapshot_ended(wanted.done),
            partial(self._snapshot_failed, snapshot_id, wanted.done),
        )
        self._snapshot_run.start()

    def _snapshotting(self, snapshot_id: SnapshotId, wanted: _WantedSnapshot) -> Steps[None]:
        yield from self._opened.making_ground(snapshot_id.offset)
        is_dynamic = self.kraft_version > 0
        head = SnapshotHead(wanted.place.timestamp_ms, self.kraft_version, self.voters if is_dynamic else ())
        size_bytes = yield from self._opened.writer(snapshot_id, head).in_steps(wanted.records)
        self._opened.add_snapshot(snapshot_id, SnapshotFacts(size_bytes, wanted.place.timestamp_ms))
        _log.info("%s: snapshot %s with %d bytes", self._opened.log.dir, snapshot_id, size_bytes)
        yield from self._opened.trimming()

    def _snapshot_ended(self, done: Callable[[], None]) -> None:
        self._snapshot_run = None
        done()
        self._close_when_idle()

    def _snapshot_failed(self, snapshot_id: SnapshotId, done: Callable[[], None], error: Exception) -> None:
        self._snapshot_run = None
        if not isinstance(error, OSError | TailraceError):
            raise error
        if not isinstance(error, CalledOffError):
            _log.error("%s: snapshot %s: %s", self._directory, snapshot_id, error)
        self._snapshot_ended(done)

    # Ending

    def shutdown(self, done: Callable[[], None]) -> None:
        """Close the log once what was appended is committed; a snapshot that is being written is given up.

        `done` is called in any case: a log that could not be closed is recovered by the next start.
        """
        self._is_closing, self._when_closed = True, done
        wanted, self._wanted_snapshot = self._wanted_snapshot, None
        if wanted is not None:
            wanted.done()
        if self._snapshot_run is not None:
            self._snapshot_run.call_off(CalledOffError("the quorum shuts down"))
        self._close_when_idle()

    def _close_when_idle(self) -> None:
        closed = self._when_closed
        is_busy = self._is_starting or self._is_telling or self._snapshot_run is not None or bool(self._appended)
        if closed is None or (is_busy and self._failure is None):
            return
        self._when_closed = None
        self._is_leader = False
        if self._log is None or self._failure is not None:
            if self._log is not None:
                self._log.log.abandon()
            closed()
            return
        log = self._log.log
        log.on_failure = _ignore  # it would be told on another thread
        log.hand_over()

        def failed(error: Exception) -> None:
            if not isinstance(error, OSError | TailraceError):
                raise error
            _log.error("%s could not be closed and will be recovered: %s", log.dir, error)
            log.abandon()
            closed()

        self._env.jobs.run("close-metadata-log", log.close, lambda _: closed(), failed)

    def _log_failed(self, error: StorageError) -> None:
        """A full disk that has left the log as it was is the appender's to bear."""
        if self._opened.log.failure is not None:
            self._fail(error)

    def _fail(self, error: TailraceError) -> None:
        if self._failure is None:
            self._failure = error
            self._is_leader = False
            self._listener.failed(error)
            self._close_when_idle()


def _ignore(error: StorageError) -> None:
    pass
