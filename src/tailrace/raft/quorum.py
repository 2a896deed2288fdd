"""One node's part in the metadata quorum: a voter or an observer, of one, three or five voters.

The decisions are those of the pure core (`raft.consensus`); `core_driver` executes them. This module loads what the
core starts with, appends for the active controller, reports to the listener, and ends.

At the start: load the log, and give the listener the newest snapshot. A voter that is alone elects itself at once: it
notes in `quorum-state`, durably, that it leads an epoch above all that were, writes a LeaderChange record and flushes.
Others look for the leader, or elect one. What the log holds after the snapshot is committed only when a leader says so.
`ready` is called when the listener knows what was committed when this node found its leader.

A leader's append is one batch of the log. It is committed when a majority of the voters has it durably; appends that
come while an fsync is on its way share the next. Commits, and what is reported, keep the order of the appends.

Crash rule. What was committed survives a loss of power of a minority. What was appended and not committed may survive
or not: no caller was notified that it was committed.

Who may call. The node's thread; files are touched by jobs, but for appends, truncations and chunks of a snapshot.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

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
from tailrace.protocol.message import Request, Response
from tailrace.protocol.record_frame import VersionedRecord, encode_metadata_record
from tailrace.raft.commit_reporter import Appended, CommitReporter, LogPosition, PreparedSnapshot
from tailrace.raft.consensus import ErrorCode, RaftCore, ReplicaKey
from tailrace.raft.consensus import effects as fx
from tailrace.raft.consensus.messages import Leadership, UpdateRaftVoterRequest
from tailrace.raft.core_driver import CoreDriver
from tailrace.raft.description import QuorumDescription, ReplicaState
from tailrace.raft.listener import QuorumListener
from tailrace.raft.quorum_config import consensus_config, listener_name
from tailrace.raft.quorum_state import MAX_EPOCH
from tailrace.raft.refusals import RefusalLog
from tailrace.raft.replica_states import replica_states
from tailrace.raft.snapshot import SnapshotId
from tailrace.raft.snapshot_keeper import SnapshotKeeper
from tailrace.raft.stored_quorum import StoredQuorum
from tailrace.raft.voter_history import VoterHistory
from tailrace.raft.voters import NO_NODE, STATIC_VOTERS, QuorumEndpoint, QuorumNode, Voter
from tailrace.raft.wire import QuorumAddress, RefusedRequestError
from tailrace.record.builder import BatchBuilder

__all__ = ["Quorum", "QuorumDescription", "QuorumEndpoint", "QuorumNode", "ReplicaState"]

_log = logging.getLogger(__name__)

_NO_REQUEST = -1


class Quorum:
    def __init__(
        self,
        env: Env,
        directory: str,
        node: QuorumNode,
        config: QuorumConfig,
        listener: QuorumListener,
        *,
        is_alone: bool = False,
    ) -> None:
        """`directory` is the data directory that holds, or gets, `__cluster_metadata-0`. Touches no file.

        `is_alone`: this node is the only voter whatever the settings say, and refuses a log that names others.
        """
        self._env = env
        self._directory = directory
        self._node = node
        self._config = config
        self._listener = listener
        self._is_alone = is_alone
        self._consensus = consensus_config(config, node, is_alone=is_alone)
        self._address = QuorumAddress(node.cluster_id, listener_name(config, node))
        self._driver: CoreDriver | None = None
        self._committed = CommitReporter(listener)
        self._snapshots = SnapshotKeeper(env, config, self._committed, self)
        self._refusals = RefusalLog(env.clock)
        self._bootstrap_records: tuple[VersionedRecord, ...] = ()
        self._failure: TailraceError | None = None
        self._leading_epoch: int | None = None
        """The epoch of which the listener was notified that this node leads it."""
        self._reported_leader: tuple[int | None, int] = (None, 0)
        self._ready: Callable[[], None] | None = None
        self._is_loading = False
        self._is_closing = False
        self._is_stopping = False
        self._is_closed = False
        self._when_closed: Callable[[], None] | None = None

    # What it knows

    @property
    def bootstrap_records(self) -> tuple[VersionedRecord, ...]:
        """What the first controller writes into a log that holds no metadata.version yet."""
        return self._bootstrap_records

    @property
    def is_leader(self) -> bool:
        """From `became_leader` to `resigned`."""
        return self._leading_epoch is not None

    @property
    def leader_id(self) -> int:
        """-1 while it is not known, and on this node before `became_leader`."""
        leader_id = self._driver.core.leadership.leader_id if self._driver is not None and self._is_live else NO_NODE
        return leader_id if leader_id != self._node.node_id or self.is_leader else NO_NODE

    @property
    def leadership(self) -> Leadership:
        """The leader with its endpoints, as far as they are known."""
        known = self._driver.core.leadership if self._driver is not None else Leadership()
        return known._replace(leader_id=self.leader_id)

    @property
    def epoch(self) -> int:
        return self._driver.core.epoch if self._driver is not None else 0

    @property
    def kraft_version(self) -> int:
        """0: the voters are configured; 1: they are records of the log."""
        return self._driver.core.voters.kraft_version if self._driver is not None else STATIC_VOTERS

    @property
    def high_watermark(self) -> int:
        return self._driver.log.log.high_watermark if self._driver is not None else 0

    @property
    def log_start_offset(self) -> int:
        return self._driver.log.log.log_start_offset if self._driver is not None else 0

    @property
    def log_end_offset(self) -> int:
        return self._driver.log.log.log_end_offset if self._driver is not None else 0

    @property
    def voters(self) -> tuple[Voter, ...]:
        """The newest set, committed or not."""
        return self._driver.core.voters.voters if self._driver is not None else self._consensus.static_voters

    @property
    def _is_live(self) -> bool:
        return self._failure is None and not self._is_closed

    def describe(self, now_ms: int) -> QuorumDescription:
        """As the leader sees it; no replicas on any other node. `now_ms` is the wall clock."""
        voters: tuple[ReplicaState, ...] = ()
        observers: tuple[ReplicaState, ...] = ()
        if self._driver is not None and self.is_leader:
            local = ReplicaKey(self._node.node_id, self._node.directory_id)
            voters, observers = replica_states(
                self._driver.core, local, self.log_end_offset, now_ms, now_ms - self._env.clock.monotonic_ms()
            )
        endpoints = {voter.node_id: voter.endpoints for voter in self.voters}
        return QuorumDescription(self.leader_id, self.epoch, self.high_watermark, voters, observers, endpoints)

    # Starting

    def start(self, ready: Callable[[], None]) -> None:
        """See the module. An error goes to `listener.failed`, and `ready` is not called then."""
        self._is_loading = True
        self._ready = ready
        load = partial(StoredQuorum.load, self._env, self._directory, self._config, self._listener.prepare)
        self._env.jobs.run("load-metadata-log", load, self._loaded, self._not_loaded)

    def prepare_snapshot(self, records: Iterator[VersionedRecord]) -> Any:
        return self._listener.prepare(records)

    def _not_loaded(self, error: Exception) -> None:
        self._is_loading = False
        if isinstance(error, OSError):
            error = StorageError(f"start the metadata quorum in {self._directory}", error)
        if not isinstance(error, TailraceError):
            raise error
        self.failed(error)

    def _loaded(self, loaded: StoredQuorum) -> None:
        self._is_loading = False
        log = loaded.log
        self._bootstrap_records = loaded.bootstrap_records
        history = VoterHistory(self._consensus.static_voters, loaded.voters)
        core = RaftCore(
            self._consensus,
            self._node.as_voter,
            loaded.stored_log,
            loaded.state,
            self._env.random,
            self._env.clock.monotonic_ms(),
        )
        self._driver = CoreDriver(
            self._env,
            self._config,
            self._node.node_id,
            self._address,
            log,
            core,
            history,
            self,
            is_alone=self._is_alone,
        )
        log.log.on_failure.add(self._log_failed)
        self._snapshots.started()
        if self._failure is not None or self._is_closing:
            self._close_when_idle()
            return
        try:
            history.check(self._node, is_alone=self._is_alone)
            if core.epoch >= MAX_EPOCH:
                raise InconsistentVoterSetError(f"{self._directory}: there is no epoch after {MAX_EPOCH}")
            if loaded.snapshot is not None:
                self._committed.load(loaded.snapshot)
        except TailraceError as error:
            self.failed(error)
            return
        self._driver.take(core.start(self._driver.now_ms()))

    @property
    def _opened(self) -> CoreDriver:
        invariant(self._driver is not None, "the metadata log is loaded")
        assert self._driver is not None
        return self._driver

    # Appending

    def append(self, records: Sequence[VersionedRecord], done: Callable[[int], None]) -> int:
        """Write one batch; returns its last offset. `done(last_offset)` after it was committed and reported.

        `done` is not called if the leadership is lost before that: see `QuorumListener.resigned`. Nothing is reported
        during the call, not even a leadership that is found to have ended, as after a pause of the process.

        An error means that nothing was written: NotControllerError unless this node leads, and once it is closing;
        MessageTooLargeError above 8 MiB; StorageError, which is the end of the quorum unless the disk was only full.
        """
        if self._failure is not None:
            raise self._failure
        driver = self._driver
        if driver is not None:
            driver.execute_effects()
        if driver is None or not self._may_append(driver):
            raise NotControllerError(f"node {self._node.node_id} does not lead the metadata quorum")
        invariant(len(records) > 0, "an append has records")
        core, log = driver.core, driver.log.log
        base_offset, epoch, now_ms = log.log_end_offset, core.epoch, self._env.clock.now_ms()
        invariant(core.end_offset == base_offset, "log and core agree when records are appended")
        builder = BatchBuilder(base_offset, leader_epoch=epoch)
        for record, version in records:
            builder.append(now_ms, None, encode_metadata_record(record, version))
        max_bytes = self._config.internal_metadata_max_batch_size_in_bytes
        size_bytes = builder.uncompressed_bytes
        if size_bytes > max_bytes:
            raise MessageTooLargeError(
                f"{len(records)} metadata records take {size_bytes} bytes; {max_bytes} fit one batch"
            )
        last_offset = log.append_from_raft_leader(builder.build(), epoch).last_offset
        position = LogPosition(last_offset, epoch, now_ms)
        self._committed.appended(Appended(base_offset, position, size_bytes, list(records), done))
        driver.take_quietly(core.appended(last_offset + 1, driver.now_ms()))
        return last_offset

    def _may_append(self, driver: CoreDriver) -> bool:
        is_leading = self._leading_epoch == driver.core.epoch and driver.core.may_append
        return is_leading and not self._is_closing and self._failure is None

    # Requests

    def handle(
        self, request: Request, version: int, listener: str, reply: Callable[[Response], None]
    ) -> Callable[[], None]:
        """A request of another node or of an administrator, as in `raft.wire`. Returns a function that forgets it,
        for when the sender has gone. NotControllerError before the log is loaded."""
        driver = self._driver
        if driver is None or not self._is_live:
            raise NotControllerError(f"the metadata quorum of node {self._node.node_id} is not running")
        try:
            request_id = driver.receive(request, version, listener, reply)
        except RefusedRequestError as refused:
            self._refusals.refused_here(request, refused)
            reply(refused.response)
            return lambda: None
        return partial(driver.forget, request_id)

    def upgrade_kraft_version(self) -> ErrorCode:
        """UpdateFeatures asks for kraft.version 1: the voters become records of the log, committed later.

        As with `append`, nothing is reported during the call.
        """
        if self._driver is None or not self._may_append(self._driver):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        self._driver.execute_effects()
        error, effects = self._driver.core.upgrade_kraft_version(self._driver.now_ms())
        self._driver.take_quietly(effects)
        return error

    # Events of the core

    def committed(self, end_offset: int) -> None:
        self._notify(lambda: self._committed.report(self._opened.log, end_offset))

    def role_changed(self, effect: fx.RoleChanged) -> None:
        """A leader reports itself when it may append."""
        if effect.role is not fx.RoleName.LEADER:
            self._report_leader(effect.leader_id if effect.leader_id >= 0 else None, effect.epoch)

    def _report_leader(self, leader_id: int | None, epoch: int) -> None:
        """An epoch without a leader is not reported if none was known before."""
        is_news = leader_id is not None or self._reported_leader[0] is not None
        if is_news and (leader_id, epoch) != self._reported_leader:
            self._reported_leader = (leader_id, epoch)
            self._notify(lambda: self._listener.leader_changed(leader_id, epoch))

    def leadership_gained(self, epoch: int) -> None:
        driver = self._opened
        if self._failure is not None or driver.core.epoch != epoch:
            return
        self._leading_epoch = epoch
        self._correct_own_voter(driver)
        self._report_leader(self._node.node_id, epoch)
        self._notify(lambda: self._listener.became_leader(epoch))

    def _correct_own_voter(self, driver: CoreDriver) -> None:
        """A new leader that is reached elsewhere than its voter record says writes the record again, as Kafka does."""
        core, local = driver.core, self._node.as_voter
        known = core.voters.voter(local.node_id)
        is_record = known is not None and known.directory_id == local.directory_id
        if core.voters.kraft_version > STATIC_VOTERS and is_record and local.endpoints and known != local:
            update = UpdateRaftVoterRequest(core.epoch, local)
            driver.take(core.receive(_NO_REQUEST, update, driver.now_ms()))
            driver.execute_effects()

    def leadership_lost(self) -> None:
        self._committed.drop_appended()
        if self._leading_epoch is None:
            return
        self._leading_epoch = None
        if self._snapshots.is_waiting_for_commit:
            self._snapshots.forget_request()
        self._notify(self._listener.resigned)

    def log_replaced(self, snapshot: PreparedSnapshot) -> None:
        if snapshot.id.offset > self._committed.reported.offset + 1:
            self._notify(lambda: self._committed.load(snapshot))

    def prepare_install(self) -> None:
        self._snapshots.call_off("the log is replaced by a snapshot of the leader")

    def stepped(self) -> None:
        driver = self._opened
        if self._is_live and not self._is_closing:
            if self._ready is not None and self._is_caught_up(driver):
                ready, self._ready = self._ready, None
                ready()
            if not driver.is_installing:
                self._snapshots.begin(driver.log, driver.history)
        self._close_when_idle()

    def _is_caught_up(self, driver: CoreDriver) -> bool:
        known = driver.leader_end_offset
        return self.is_leader or (known is not None and self._committed.reported.offset + 1 >= known)

    def _notify(self, call: Callable[[], None]) -> None:
        """An error is of the log, or the listener cannot live with what is in it."""
        if self._failure is None and not self._is_closed:
            try:
                call()
            except TailraceError as error:
                self.failed(error)

    # Snapshots

    def snapshot_is_due(self, now_ms: int) -> bool:
        """By bytes or by time since the last one, if there are new records and no snapshot is being written.

        It does not depend on who leads: followers take snapshots as well.
        """
        return self._is_live and not self._is_closing and self._snapshots.is_due(now_ms)

    def snapshot(
        self, records: Iterator[VersionedRecord], done: Callable[[], None], last_offset: int | None = None
    ) -> None:
        """Write the state as it is after `last_offset`, the end of a batch; by default the last that was reported.

        `records` is read by jobs, in pieces: it must not depend on anything that changes later. With a `last_offset`
        that is not committed yet, the writing begins when it is. Then old snapshots and segments go.

        `done` is called when the work has ended, well or not: an error of the disk is logged, and another snapshot
        falls due in time.
        """
        self._snapshots.request(records, done, last_offset)
        if not self._is_live or self._is_closing or self._driver is None:
            self._snapshots.forget_request()
        elif not self._driver.is_installing:
            self._snapshots.begin(self._driver.log, self._driver.history)

    def snapshot_created(self, snapshot_id: SnapshotId) -> None:
        driver = self._opened
        if self._is_live:
            driver.take(driver.core.snapshot_created(snapshot_id, driver.now_ms()))

    def trimmed(self) -> None:
        driver = self._opened
        if self._is_live:
            log = driver.log
            driver.take(driver.core.trimmed(log.log.log_start_offset, log.snapshots, driver.now_ms()))

    def snapshot_ended(self) -> None:
        self._close_when_idle()

    # Ending

    def shutdown(self, done: Callable[[], None]) -> None:
        """Close the log once what was appended is committed; a snapshot that is being written is given up.

        A leader of several voters hands over first. It waits for both no longer than a request may take. `done` is
        called in any case: a log that could not be closed is recovered by the next start.
        """
        self._is_closing, self._when_closed = True, done
        self._snapshots.call_off("the quorum shuts down")
        if len(self.voters) > 1:
            patience_ms = self._config.controller_quorum_request_timeout_ms
            self._env.jobs.later("quorum-shutdown", patience_ms, partial(self._close_when_idle, is_patient=False))
        self._close_when_idle()

    def _close_when_idle(self, *, is_patient: bool = True) -> None:
        driver = self._driver
        if self._when_closed is None or self._is_loading or (driver is not None and driver.is_running):
            return
        if driver is None:
            self._close(None)
            return
        if self._failure is None and is_patient and self._is_handing_over(driver):
            return
        driver.end()
        is_busy = driver.is_using_files or self._snapshots.is_writing
        if self._failure is not None or not is_busy:
            self._close(driver)

    def _is_handing_over(self, driver: CoreDriver) -> bool:
        """A leader first commits what it has appended, then names successors to the other voters."""
        if self._leading_epoch is None and not self._is_stopping:
            return False
        if not self._committed.is_idle:
            return True
        if len(self.voters) == 1:
            return False
        if not self._is_stopping:
            self._is_stopping = True
            driver.take(driver.core.stop(driver.now_ms()))
        return not driver.core.may_stop

    def _close(self, driver: CoreDriver | None) -> None:
        closed, self._when_closed = self._when_closed, None
        assert closed is not None
        self._leading_epoch = None
        self._is_closed = True
        if driver is None:
            closed()
            return
        driver.end()
        log = driver.log.log
        if self._failure is not None:
            log.abandon()
            closed()
            return
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
        if self._opened.log.log.failure is not None:
            self.failed(error)

    def failed(self, error: TailraceError) -> None:
        if self._failure is None:
            self._failure = error
            self._leading_epoch = None
            if self._driver is not None:
                self._driver.end()
            self._listener.failed(error)
            self._close_when_idle()
