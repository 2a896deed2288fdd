"""Drives the pure core (`raft.consensus`): executes its effects, and hands it what comes of them.

    core ── effects ─▶ log, snapshot files      in their order; an fsync is a job; a cut is jobs, for which later
                                                effects of the log wait
                       quorum-state             a job; states that follow each other at once are written as one
                       requests, timers         `QuorumLinks`, `env.jobs.later`
                       responses, notifications queued as events; executed when no effect is left

Everything that may call back into the quorum is an event, so a listener finds log and core agreeing and may append:
`Quorum.append` first executes the effects that came since. Nothing here is re-entered: an input that comes while
effects are executed adds its own to the end of the queue.

Who may call. `Quorum`, on the node's thread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol

from tailrace.config.quorum import QuorumConfig
from tailrace.env import Env
from tailrace.model.errors import StorageError, TailraceError
from tailrace.model.invariant import invariant
from tailrace.protocol import message as protocol
from tailrace.protocol.messages.fetch import FetchRequest as FetchMessage
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.raft import wire
from tailrace.raft.commit_reporter import PreparedSnapshot
from tailrace.raft.consensus import ErrorCode, RaftCore
from tailrace.raft.consensus import effects as fx
from tailrace.raft.consensus import messages as ms
from tailrace.raft.control_batch import as_kafka_writes, control_batch
from tailrace.raft.fetched_batches import FetchedBatches
from tailrace.raft.metadata_log import MetadataLog
from tailrace.raft.quorum_links import QuorumLinks
from tailrace.raft.quorum_reads import read_batches, read_chunk
from tailrace.raft.quorum_state import QUORUM_STATE_FILE, QuorumState
from tailrace.raft.snapshot import SnapshotId
from tailrace.raft.snapshot_download import DownloadedSnapshot, SnapshotDownload
from tailrace.raft.voter_history import VoterHistory
from tailrace.raft.voters import NO_NODE
from tailrace.raft.wire.fetches import max_bytes_of
from tailrace.storage.follower_append import pieces
from tailrace.storage.names import join
from tailrace.storage.steps import JobRun, Steps

ALONE = (
    "the voters of this controller are static: set controller.quorum.bootstrap.servers to the addresses of all "
    "controllers instead of controller.quorum.voters, give the controller listener a fixed port, and restart"
)
MAX_KEPT_RESPONSES = 8
"""Records and chunks of responses whose effects the core may still hold back."""

_OF_OTHER_VOTERS = (ms.VoteRequest, ms.BeginQuorumEpochRequest, ms.EndQuorumEpochRequest)
_RESPONSES: dict[type, Callable[[int, ms.Leadership], ms.Response]] = {
    ms.VoteRequest: ms.VoteResponse,
    ms.BeginQuorumEpochRequest: ms.BeginQuorumEpochResponse,
    ms.EndQuorumEpochRequest: ms.EndQuorumEpochResponse,
}

_log = logging.getLogger(__name__)

Reply = Callable[[protocol.Response], None]


class DriverEvents(Protocol):
    """In the order in which the core has decided; see `effects`. `stepped`: nothing is executed any longer."""

    def committed(self, end_offset: int) -> None: ...

    def role_changed(self, effect: fx.RoleChanged) -> None: ...

    def leadership_gained(self, epoch: int) -> None: ...

    def leadership_lost(self) -> None: ...

    def prepare_snapshot(self, records: Iterator[VersionedRecord]) -> Any:
        """See `QuorumListener.prepare`: called by a job."""

    def log_replaced(self, snapshot: PreparedSnapshot) -> None: ...

    def stepped(self) -> None: ...

    def failed(self, error: TailraceError) -> None: ...

    def prepare_install(self) -> None:
        """The log is about to be replaced: no job may touch it when this returns."""


class _Inbound(NamedTuple):
    message: protocol.Request
    version: int
    listener_name: str
    reply: Reply


class CoreDriver:
    def __init__(
        self,
        env: Env,
        config: QuorumConfig,
        node_id: int,
        address: wire.QuorumAddress,
        log: MetadataLog,
        core: RaftCore,
        history: VoterHistory,
        events: DriverEvents,
        *,
        is_alone: bool = False,
    ) -> None:
        self.core = core
        self.log = log
        self.history = history
        self.leader_end_offset: int | None = None
        """What this node must have to be caught up: the high watermark in the first response of a leader."""
        self._env = env
        self._config = config
        self._node_id = node_id
        self._address = address
        self._owner = events
        self._is_alone = is_alone
        self.links = QuorumLinks(env, node_id, address, config, self)
        self._download = SnapshotDownload(env, log.log.dir, events.prepare_snapshot)
        self._effects: deque[fx.Effect] = deque()
        self._events: deque[Callable[[], None]] = deque()
        self._log_effects: deque[fx.Effect] = deque()
        self._is_installing = False
        self._is_cutting = False
        self._is_running = False
        self._is_ended = False
        self._election: fx.PersistElection | None = None
        self._is_writing_election = False
        self._fetched: dict[int, tuple[FetchedBatches, bytes]] = {}
        self._inbound: dict[int, _Inbound] = {}
        self._last_request_id = 0
        self._timer_ms: int | None = None

    @property
    def is_running(self) -> bool:
        """Effects or events are being executed: `stepped` follows."""
        return self._is_running

    @property
    def is_installing(self) -> bool:
        return self._is_installing

    @property
    def is_using_files(self) -> bool:
        """Jobs write quorum-state or a snapshot of the leader, or cut the log."""
        return self._is_writing_election or self._is_installing or self._is_cutting

    def now_ms(self) -> int:
        return self._env.clock.monotonic_ms()

    def end(self) -> None:
        """After a failure, or at the end of a shutdown: nothing more is executed, and requests get no response."""
        if self._is_ended:
            return
        self._is_ended = True
        self._effects.clear()
        self._events.clear()
        self._log_effects.clear()
        self._inbound.clear()
        self.links.close()

    # Steps

    def take(self, effects: list[fx.Effect]) -> None:
        """Execute what an input of the core has returned, now or after the step that is being executed."""
        if not self._is_ended:
            self._effects.extend(effects)
            self.run()

    def take_quietly(self, effects: list[fx.Effect]) -> None:
        """Execute the effects now and report what follows from them after the present call: no event runs within it.

        A caller in the middle of an append must not be notified, for example, that the leadership has just ended.
        """
        if self._is_ended:
            return
        self._effects.extend(effects)
        if self._is_running:
            return
        self.execute_effects()
        self._env.jobs.later("quorum-events", 0, self._run_later)

    def _run_later(self) -> None:
        if not self._is_ended:
            self.run()

    def add_event(self, event: Callable[[], None]) -> None:
        self._events.append(event)

    def run(self) -> None:
        if self._is_running:
            return
        self._is_running = True
        try:
            while True:
                self.execute_effects()
                if not self._events:
                    break
                self._events.popleft()()
        finally:
            self._is_running = False
        if not self._is_ended:
            self._set_timer()
        self._owner.stepped()

    def execute_effects(self) -> None:
        """All that the core has asked for so far, but no events."""
        while True:
            while self._effects:
                self._execute(self._effects.popleft())
            self._write_election()
            if not self._effects:
                return

    def _execute(self, effect: fx.Effect) -> None:
        if isinstance(effect, fx.LogEffect):
            self._log_effects.append(effect)
            self._execute_log_effects()
        elif isinstance(effect, fx.Send):
            self.links.send(effect)
        elif isinstance(effect, fx.Respond):
            self.add_event(partial(self._respond, effect.request_id, effect.response))
        elif isinstance(effect, fx.RespondWithSnapshot):
            self._respond_with_snapshot(effect)
        elif isinstance(effect, fx.PersistElection):
            self._election = effect
        elif isinstance(effect, fx.StartSnapshot):
            self._download.begin(effect.snapshot_id)
        elif isinstance(effect, fx.WriteSnapshot):
            self._download.write(self._fetched.pop(effect.correlation_id)[1], effect.position)
        elif isinstance(effect, fx.AbandonSnapshot):
            self._download.abandon()
        else:
            self._notify(effect)

    def _notify(self, effect: fx.Notification) -> None:
        owner = self._owner
        if isinstance(effect, fx.HighWatermarkMoved):
            self.log.log.update_high_watermark(effect.offset)
            self.add_event(partial(owner.committed, effect.offset))
        elif isinstance(effect, fx.RoleChanged):
            is_following = effect.role is fx.RoleName.FOLLOWER
            self.links.follow(effect.leader_id if is_following else NO_NODE, self.core.leadership.endpoints)
            self.add_event(partial(owner.role_changed, effect))
        elif isinstance(effect, fx.LeadershipGained):
            self.add_event(partial(owner.leadership_gained, effect.epoch))
        elif isinstance(effect, fx.LeadershipLost):
            self.add_event(owner.leadership_lost)
        elif isinstance(effect, fx.VotersChanged):
            self.history.changed(effect)
        else:
            self.add_event(partial(owner.failed, effect.error))

    # Log

    def _execute_log_effects(self) -> None:
        try:
            while self._log_effects and not (self._is_installing or self._is_cutting):
                self._change_log(self._log_effects.popleft())
        except TailraceError as error:
            self._owner.failed(error)

    def _change_log(self, effect: fx.Effect) -> None:
        log = self.log.log
        if isinstance(effect, fx.AppendControl):
            invariant(effect.base_offset == log.log_end_offset, "a control batch goes to the end of the log")
            records = [as_kafka_writes(record) for record in effect.records]
            batch = control_batch(records, effect.base_offset, effect.epoch, self._env.clock.now_ms())
            log.append_from_raft_leader(batch, effect.epoch)
        elif isinstance(effect, fx.AppendFetched):
            fetched = self._fetched.pop(effect.correlation_id)[0].below(effect.end_offset)
            for piece in pieces(fetched, log.config.segment_bytes):
                log.append_as_follower(piece)
            invariant(log.log_end_offset == effect.end_offset, "the fetched batches are in the log")
        elif isinstance(effect, fx.TruncateLog):
            self._cut("truncate-log", log.truncating(effect.end_offset), partial(self._truncated, effect.number))
        elif isinstance(effect, fx.FlushLog):
            log.flush(effect.end_offset, partial(self._persisted, effect.number))
        elif isinstance(effect, fx.InstallSnapshot):
            self._install(effect.snapshot_id)

    def _persisted(self, number: int) -> None:
        if not self._is_ended:
            self.take(self.core.persisted(number, self.now_ms()))

    def _cut(self, name: str, steps: Steps[Any], done: Callable[[], None]) -> None:
        """Later effects of the log wait until it is cut, durably."""
        self._is_cutting = True

        def cut(_: object) -> None:
            self._is_cutting = False
            if self._is_ended:
                self._is_installing = False
                self._owner.stepped()
            else:
                done()

        def failed(error: Exception) -> None:
            self._is_cutting = self._is_installing = False
            if not isinstance(error, TailraceError):
                raise error
            if not self._is_ended:
                self._owner.failed(error)
            self._owner.stepped()

        JobRun(name, steps, self._env.jobs, cut, failed).start()

    def _truncated(self, number: int) -> None:
        self._execute_log_effects()
        self.take(self.core.persisted(number, self.now_ms()))

    def _install(self, snapshot_id: SnapshotId) -> None:
        self._is_installing = True
        self._owner.prepare_install()
        self._download.finish(partial(self._installed, snapshot_id), partial(self._install_failed, snapshot_id))

    def _installed(self, snapshot_id: SnapshotId, found: DownloadedSnapshot) -> None:
        if self._is_ended:
            self._is_installing = False
            self._owner.stepped()
            return
        self._cut(
            "restart-log", self.log.restarting_at(snapshot_id, found.facts), partial(self._replaced, snapshot_id, found)
        )

    def _replaced(self, snapshot_id: SnapshotId, found: DownloadedSnapshot) -> None:
        self._is_installing = False
        head = found.head
        self.history.restart_at(snapshot_id.offset, head.kraft_version, head.voters)
        snapshot = PreparedSnapshot(snapshot_id, head.timestamp_ms, found.prepared)
        self.add_event(partial(self._owner.log_replaced, snapshot))
        installed = self.core.snapshot_installed(snapshot_id, head.kraft_version, head.voters, self.now_ms())
        self._execute_log_effects()
        self.take(installed)

    def _install_failed(self, snapshot_id: SnapshotId, error: Exception) -> None:
        self._is_installing = False
        if self._is_ended:
            self._owner.stepped()
            return
        self._execute_log_effects()
        self.take(self.core.snapshot_failed(snapshot_id, self.now_ms()))

    # Election state

    def _write_election(self) -> None:
        """One write at a time; of the states that wait only the last one is written."""
        effect = self._election
        if effect is None or self._is_writing_election:
            return
        self._election = None
        state = effect.state
        is_own_vote = state.leader_id == NO_NODE and state.voted_id == self._node_id
        if is_own_vote and self.core.is_voter and len(self.core.voters.voters) == 1:
            # The core elects this node at once: the same epoch is written with its leader, and nothing is sent before.
            self.take(self.core.persisted(effect.number, self.now_ms()))
            return
        self._is_writing_election = True
        if state.leader_id == self._node_id:  # as Kafka writes it; who leads an epoch gives no vote in it
            state = QuorumState(state.leader_epoch, state.leader_id, voters=state.voters)
        path = join(self.log.log.dir, QUORUM_STATE_FILE)
        write = partial(state.write, self._env.files, path, min(effect.kraft_version, 1))
        self._env.jobs.run(
            "write-quorum-state", write, lambda _: self._election_written(effect.number), self._election_failed
        )

    def _election_written(self, number: int) -> None:
        self._is_writing_election = False
        if self._is_ended:
            self._owner.stepped()
        else:
            self.take(self.core.persisted(number, self.now_ms()))

    def _election_failed(self, error: Exception) -> None:
        self._is_writing_election = False
        if not isinstance(error, OSError | TailraceError):
            raise error
        if isinstance(error, OSError):
            error = StorageError(f"write {QUORUM_STATE_FILE} in {self.log.log.dir}", error)
        self._owner.failed(error)
        self._owner.stepped()

    # Requests to other nodes

    def answered(self, correlation_id: int, response: ms.Response, batches: FetchedBatches, chunk: bytes) -> None:
        if self._is_ended:
            return
        if batches.ends or chunk:
            self._fetched[correlation_id] = (batches, chunk)
            while len(self._fetched) > MAX_KEPT_RESPONSES:
                del self._fetched[next(iter(self._fetched))]
        effects = self.core.answered(correlation_id, response, self.now_ms())
        is_of_leader = isinstance(response, ms.FetchResponse) and response.high_watermark >= 0
        if is_of_leader and self.leader_end_offset is None and self.core.role is fx.RoleName.FOLLOWER:
            assert isinstance(response, ms.FetchResponse)
            self.leader_end_offset = response.high_watermark
        self.take(effects)

    def unanswered(self, correlation_id: int) -> None:
        if not self._is_ended:
            self.take(self.core.failed(correlation_id, self.now_ms()))

    def leader_unreachable(self, node_id: int) -> None:
        if not self._is_ended:
            _log.info("leader %d of the metadata quorum is gone: its port refuses connections", node_id)
            self.take(self.core.leader_unreachable(node_id, self.now_ms()))

    # Requests of other nodes

    def receive(self, message: protocol.Request, version: int, listener_name: str, reply: Reply) -> int:
        """Returns an id for `forget`. A RefusedRequestError has the response in it.

        The only voter follows no other node into an epoch: any client could take its leadership away.
        """
        value = wire.accept(message, version, self._address)
        if isinstance(value, ms.FetchSnapshotRequest):
            limit = self._config.controller_quorum_fetch_snapshot_max_bytes
            value = value._replace(max_bytes=min(value.max_bytes, limit))
        refusal = self._refusal_of_other_voters(value)
        if refusal is not None:
            response = wire.respond(message, refusal, version, listener_name)
            raise wire.RefusedRequestError(response, "the quorum has no voter but this node")
        self._last_request_id += 1
        request_id = self._last_request_id
        self._inbound[request_id] = _Inbound(message, version, listener_name, reply)
        self.take(self.core.receive(request_id, value, self.now_ms()))
        return request_id

    def _refusal_of_other_voters(self, value: ms.InboundRequest) -> ms.Response | None:
        """The response to a request that presumes other voters, while this node is the only one."""
        if isinstance(value, _OF_OTHER_VOTERS) and value.epoch > self.core.epoch:
            if self._is_alone or self.core.is_only_voter:
                return _RESPONSES[type(value)](ErrorCode.INCONSISTENT_VOTER_SET, self.core.leadership)
        elif isinstance(value, ms.AddRaftVoterRequest) and self._is_alone and value.voter.node_id != self._node_id:
            return ms.VoterChangeResponse(ErrorCode.INVALID_REQUEST, ALONE)
        return None

    def forget(self, request_id: int) -> None:
        """The sender has gone."""
        self._inbound.pop(request_id, None)

    def _respond(self, request_id: int, response: ms.Response) -> None:
        inbound = self._inbound.pop(request_id, None)
        if inbound is None:
            return
        message = inbound.message
        if not isinstance(response, ms.FetchResponse) or response.read_until is None:
            inbound.reply(wire.respond(message, response, inbound.version, inbound.listener_name))
            return
        assert isinstance(message, FetchMessage)
        offset = message.topics[0].partitions[0].fetch_offset
        max_bytes = min(max_bytes_of(message), self._config.controller_quorum_fetch_max_bytes)

        def done(data: bytes) -> None:
            inbound.reply(wire.respond(message, response, inbound.version, inbound.listener_name, data))

        read_batches(self._env.jobs, self.log.log, offset, response.read_until, max_bytes, done)

    def _respond_with_snapshot(self, effect: fx.RespondWithSnapshot) -> None:
        leadership = self.core.leadership._replace(leader_id=effect.leader_id, epoch=effect.epoch)

        def done(error: ErrorCode, size_bytes: int, chunk: bytes) -> None:
            inbound = self._inbound.pop(effect.request_id, None)
            if inbound is None:
                return
            request = effect.request
            response = ms.FetchSnapshotResponse(error, leadership)
            if error == ErrorCode.NONE:
                response = response._replace(
                    snapshot_id=request.snapshot_id, size_bytes=size_bytes, position=request.position
                )
            inbound.reply(wire.respond(inbound.message, response, inbound.version, inbound.listener_name, chunk))

        path = join(self.log.log.dir, effect.request.snapshot_id.name)
        read_chunk(self._env, path, effect.request.position, effect.request.max_bytes, done)

    # Time

    def _set_timer(self) -> None:
        due_ms = self.core.next_deadline_ms()
        if self._timer_ms is None or due_ms < self._timer_ms:
            self._timer_ms = due_ms
            delay_ms = max(due_ms - self.now_ms(), 0)
            self._env.jobs.later("quorum-timer", delay_ms, partial(self._timer_fired, due_ms))

    def _timer_fired(self, due_ms: int) -> None:
        if due_ms == self._timer_ms and not self._is_ended:
            self._timer_ms = None
            self.take(self.core.tick(self.now_ms()))
