"""The consensus core of one replica: every input is a method, and returns the effects that it has.

See the package for how a driver uses it. Nothing here waits, reads a clock or keeps a record.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from tailrace.model.invariant import invariant
from tailrace.raft.consensus.consensus_config import ConsensusConfig
from tailrace.raft.consensus.effects import Effect, RoleName
from tailrace.raft.consensus.elections import Elections
from tailrace.raft.consensus.error_code import ErrorCode
from tailrace.raft.consensus.following import Following
from tailrace.raft.consensus.leading import Leading
from tailrace.raft.consensus.links import InFlight
from tailrace.raft.consensus.log_view import LogView
from tailrace.raft.consensus.member import Member
from tailrace.raft.consensus.messages import (
    AddRaftVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    InboundRequest,
    KRaftVersionsRequest,
    KRaftVersionsResponse,
    Leadership,
    RemoveRaftVoterRequest,
    ReplicaKey,
    Response,
    UpdateRaftVoterResponse,
    VoterChange,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from tailrace.raft.consensus.replica_progress import ReplicaState
from tailrace.raft.consensus.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
)
from tailrace.raft.consensus.transitions import learn_leader, to_resigned, to_unattached
from tailrace.raft.consensus.voter_changes import VoterChanges
from tailrace.raft.consensus.voter_log import VoterLog, VoterSet
from tailrace.raft.quorum_state import QuorumState
from tailrace.raft.snapshot import SnapshotId
from tailrace.raft.voters import STATIC_VOTERS, Voter

_MAX_TURNS = 20


class StoredLog(NamedTuple):
    """What the driver found on its disk. `epochs` are (epoch, start offset), `changes` the voter records of the log.

    `base` is what the newest snapshot says of the voters; None: no snapshot exists, or its kraft.version is 0.
    """

    start_offset: int = 0
    end_offset: int = 0
    epochs: tuple[tuple[int, int], ...] = ()
    snapshots: tuple[SnapshotId, ...] = ()
    base: VoterChange | None = None
    changes: tuple[VoterChange, ...] = ()


class RaftCore:
    """`local` is this node with its directory and endpoints; `rng` draws election timeouts and whom to ask."""

    def __init__(
        self,
        config: ConsensusConfig,
        local: Voter,
        log: StoredLog,
        election: QuorumState | None,
        rng: random.Random,
        now_ms: int,
    ) -> None:
        voter_log = VoterLog.configured(config.static_voters)
        if log.base is not None:
            voters = log.base.voters if log.base.voters is not None else ()
            voter_log = VoterLog(VoterSet(log.base.offset, log.base.kraft_version or 0, voters))
        for change in log.changes:
            voter_log.append(change)
        view = LogView(log.start_offset, log.end_offset, log.epochs, log.snapshots)
        member = Member(config, local, view, voter_log, election, rng)
        self._member = member
        self._elections = Elections(member)
        self._voter_changes = VoterChanges(member)
        self._leading = Leading(member, self._voter_changes)
        self._following = Following(member)
        member.now_ms = now_ms
        member.set_role(Unattached(now_ms + member.random_election_timeout_ms(), is_starting=True))
        member.notify_voters()

    # Inputs

    def start(self, now_ms: int) -> list[Effect]:
        """The first input. Whatever role the node had, it starts Unattached, and keeps its vote of the epoch."""
        return self._step(now_ms, _noop)

    def tick(self, now_ms: int) -> list[Effect]:
        """Time has passed; due at `next_deadline_ms`, harmless at any time."""
        return self._step(now_ms, _noop)

    def receive(self, request_id: int, request: InboundRequest, now_ms: int) -> list[Effect]:
        """A request from another replica or an administrator. Its response is an effect, now or later."""
        return self._step(now_ms, lambda: self._receive(request_id, request))

    def answered(self, correlation_id: int, response: Response, now_ms: int) -> list[Effect]:
        """The response to a `Send`. One that comes late, twice, or to a request of an earlier role, is ignored."""
        return self._step(now_ms, lambda: self._answered(correlation_id, response))

    def failed(self, correlation_id: int, now_ms: int) -> list[Effect]:
        """A `Send` has failed: no connection, no response, or one that could not be read."""
        return self._step(now_ms, lambda: self._failed(correlation_id))

    def persisted(self, number: int, now_ms: int) -> list[Effect]:
        """A PersistElection, FlushLog or TruncateLog with this number is done."""
        return self._step(now_ms, lambda: self._member.persisted(number))

    def appended(self, end_offset: int, now_ms: int) -> list[Effect]:
        """The driver of a leader has appended records at the end of the log, in the epoch of its leadership."""
        return self._step(now_ms, lambda: self._appended(end_offset))

    def snapshot_installed(
        self, snapshot_id: SnapshotId, kraft_version: int, voters: tuple[Voter, ...], now_ms: int
    ) -> list[Effect]:
        """InstallSnapshot is done: the log is empty and begins at the snapshot's offset, durably."""
        return self._step(now_ms, lambda: self._following.snapshot_installed(snapshot_id, kraft_version, voters))

    def snapshot_failed(self, snapshot_id: SnapshotId, now_ms: int) -> list[Effect]:
        """The snapshot of InstallSnapshot is damaged. The driver has deleted it; the log is as it was."""
        return self._step(now_ms, lambda: self._following.snapshot_failed(snapshot_id))

    def snapshot_created(self, snapshot_id: SnapshotId, now_ms: int) -> list[Effect]:
        """The driver has written a snapshot of what is committed."""
        invariant(snapshot_id.offset <= self._member.high_watermark, "a snapshot has only what is committed")
        return self._step(now_ms, lambda: self._member.log.add_snapshot(snapshot_id))

    def trimmed(self, start_offset: int, snapshots: Iterable[SnapshotId], now_ms: int) -> list[Effect]:
        """The log begins at `start_offset` now, where a snapshot is, and these are all snapshots."""
        return self._step(now_ms, lambda: self._trimmed(start_offset, tuple(snapshots)))

    def leader_unreachable(self, node_id: int, now_ms: int) -> list[Effect]:
        """Evidence of a dead leader: the connection to it closed, and its controller endpoint refused two connects
        that were 50 ms apart. Timeouts, unreachable hosts and failed name lookups are no evidence.
        """
        return self._step(now_ms, lambda: self._elections.on_leader_unreachable(node_id))

    def upgrade_kraft_version(self, now_ms: int) -> tuple[ErrorCode, list[Effect]]:
        """UpdateFeatures asks for kraft.version 1. NONE: appended, or nothing to do."""
        results: list[ErrorCode] = []
        effects = self._step(now_ms, lambda: results.append(self._voter_changes.upgrade()))
        return (results[0] if results else ErrorCode.NOT_LEADER_OR_FOLLOWER), effects

    def stop(self, now_ms: int) -> list[Effect]:
        """A clean stop begins: a leader resigns and names its successors. See `may_stop`."""
        return self._step(now_ms, self._stop)

    # State

    @property
    def role(self) -> RoleName:
        return self._member.role.name

    @property
    def epoch(self) -> int:
        return self._member.epoch

    @property
    def leadership(self) -> Leadership:
        return self._member.leadership

    @property
    def high_watermark(self) -> int:
        return self._member.high_watermark

    @property
    def end_offset(self) -> int:
        return self._member.log.end_offset

    @property
    def voters(self) -> VoterSet:
        """The newest voter set, committed or not."""
        return self._member.voters

    @property
    def is_only_voter(self) -> bool:
        return self._member.voters.is_only(self._member.key)

    @property
    def is_voter(self) -> bool:
        return self._member.is_voter

    @property
    def may_append(self) -> bool:
        """Whether this node leads and has committed its epoch: `appended` is allowed."""
        role = self._member.role
        return isinstance(role, Leader) and role.has_established and self._member.failure is None

    @property
    def may_stop(self) -> bool:
        """Whether a clean stop has nothing left to wait for. A driver also stops when its patience ends."""
        role = self._member.role
        return self._member.is_stopping and not (isinstance(role, Resigned) and role.unacknowledged)

    def replicas(self) -> tuple[list[ReplicaState], list[ReplicaState]]:
        """Voters and observers as the leader sees them, for DescribeQuorum; empty on any other node.

        Static voters are listed without their directories, as in Kafka.
        """
        role = self._member.role
        if not isinstance(role, Leader):
            return [], []
        member = self._member
        is_static = member.voters.kraft_version == STATIC_VOTERS
        voters = []
        for node_id, state in role.progress.voters.items():
            key = ReplicaKey(node_id) if is_static else state.key
            voters.append(self._local_state(key) if node_id == member.key.node_id else replace(state, key=key))
        observers = list(role.progress.observers.values())
        return voters, observers if member.is_voter else [self._local_state(member.key), *observers]

    def _local_state(self, key: ReplicaKey) -> ReplicaState:
        end_offset, now_ms = self._member.log.end_offset, self._member.now_ms
        return ReplicaState(key, end_offset, now_ms, now_ms, end_offset)

    def next_deadline_ms(self) -> int:
        """When `tick` is due next. What is due already was done, or waits for another input than time."""
        member, role = self._member, self._member.role
        times: list[int | None] = [member.links.next_deadline_ms(member.now_ms), self._following.next_question_ms()]
        if isinstance(role, Unattached):
            times += [role.deadline_ms, role.prospective_at_ms, *role.probe_at_ms.values()]
        elif isinstance(role, Follower):
            times += [role.deadline_ms, role.prospective_at_ms, role.update_voter_at_ms]
        elif isinstance(role, Leader):
            times += [role.begin_at_ms, role.check_quorum_at_ms, role.leave_at_ms, role.progress.next_forgotten_ms()]
            times.append(role.parked.next_deadline_ms())
            times += [role.operation.deadline_ms if role.operation is not None else None]
        else:
            times += [role.deadline_ms, member.no_candidate_before_ms]
        coming = [each for each in times if each is not None and each > member.now_ms]
        return min(coming, default=member.now_ms + member.config.election_timeout_ms)

    # Steps

    def _step(self, now_ms: int, change: Callable[[], object]) -> list[Effect]:
        """Time never goes back for the core; after a failure it does nothing any longer."""
        member = self._member
        if member.failure is not None:
            return []
        member.now_ms = max(member.now_ms, now_ms)
        for overdue in member.links.expired(member.now_ms):
            self._failed(overdue.correlation_id)
        change()
        self._poll()
        return member.take_effects()

    def _poll(self) -> None:
        """Each part does what is due, until the role stays."""
        member = self._member
        for _ in range(_MAX_TURNS):
            role = member.role
            self._elections.poll()
            self._following.poll()
            self._leading.poll()
            if member.role is role or member.failure is not None:
                return
        raise AssertionError(f"node {member.key} changes its role for ever")

    def _receive(self, request_id: int, request: InboundRequest) -> None:
        member = self._member
        if isinstance(request, VoteRequest):
            member.respond(request_id, self._elections.on_vote(request))
        elif isinstance(request, BeginQuorumEpochRequest):
            member.respond(request_id, self._elections.on_begin_quorum_epoch(request))
        elif isinstance(request, EndQuorumEpochRequest):
            member.respond(request_id, self._elections.on_end_quorum_epoch(request))
        elif isinstance(request, FetchRequest):
            self._leading.on_fetch(request_id, request)
        elif isinstance(request, FetchSnapshotRequest):
            self._leading.on_fetch_snapshot(request_id, request)
        elif isinstance(request, AddRaftVoterRequest):
            self._voter_changes.on_add(request_id, request)
        elif isinstance(request, RemoveRaftVoterRequest):
            self._voter_changes.on_remove(request_id, request)
        else:
            error = self._leading.check_leader_request(request.epoch)
            member.respond(request_id, self._voter_changes.on_update(request, error))

    def _answered(self, correlation_id: int, response: Response) -> None:
        member = self._member
        sent = member.links.end(correlation_id)
        if sent is None:
            return
        if isinstance(response, KRaftVersionsResponse):
            self._voter_changes.on_versions(sent.node_id, response)
        elif isinstance(response, VoterChangeResponse):
            self._following.on_voter_report_answered(response.error)
        elif not self._common(sent, response):
            self._handle(sent, response)

    def _common(
        self,
        sent: InFlight,
        response: VoteResponse
        | BeginQuorumEpochResponse
        | EndQuorumEpochResponse
        | FetchResponse
        | FetchSnapshotResponse
        | UpdateRaftVoterResponse,
    ) -> bool:
        """What is the same for all responses: errors, and what they say of leader and epoch. True: nothing is left."""
        member, (leader_id, epoch, endpoints) = self._member, response.leadership
        error = response.error
        is_pre_vote = isinstance(sent.request, VoteRequest) and sent.request.is_pre_vote
        if error == ErrorCode.UNSUPPORTED_VERSION and is_pre_vote:
            self._elections.on_pre_vote_unsupported()
            return True
        if epoch < member.epoch or error == ErrorCode.UNKNOWN_LEADER_EPOCH:
            if epoch >= 0 and leader_id < 0:
                self._elections.on_no_leader_reported(sent.node_id)
            member.links.pause(sent.node_id, member.now_ms)
            return True
        role = member.role
        if not learn_leader(member, epoch, leader_id, endpoints):
            member.links.pause(sent.node_id, member.now_ms)
            return True
        if member.role is not role:
            return True
        if error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            if leader_id < 0:
                self._elections.on_no_leader_reported(sent.node_id)
                self._elections.on_leader_unreachable(sent.node_id)
            member.links.pause(sent.node_id, member.now_ms)
            return True
        if error != ErrorCode.NONE and not isinstance(response, FetchSnapshotResponse | UpdateRaftVoterResponse):
            member.links.pause(sent.node_id, member.now_ms)
            return True
        return False

    def _handle(self, sent: InFlight, response: Response) -> None:
        role = self._member.role
        if isinstance(response, VoteResponse):
            self._elections.on_vote_response(sent.node_id, response)
        elif isinstance(response, FetchResponse):
            self._following.on_fetch_response(sent, response)
        elif isinstance(response, FetchSnapshotResponse):
            self._following.on_fetch_snapshot_response(sent, response)
        elif isinstance(response, UpdateRaftVoterResponse):
            self._following.on_voter_report_answered(response.error)
        elif isinstance(response, EndQuorumEpochResponse) and isinstance(role, Resigned):
            role.unacknowledged.discard(sent.node_id)

    def _failed(self, correlation_id: int) -> None:
        member = self._member
        sent = member.links.end(correlation_id)
        if sent is None:
            return
        member.links.pause(sent.node_id, member.now_ms)
        if isinstance(sent.request, KRaftVersionsRequest):
            self._voter_changes.on_versions(sent.node_id, KRaftVersionsResponse(ErrorCode.BROKER_NOT_AVAILABLE))

    def _appended(self, end_offset: int) -> None:
        invariant(self.may_append, "only a leader that has committed its epoch appends")
        self._member.log.append(end_offset, self._member.epoch)
        self._member.flush()
        self._leading.answer_parked()

    def _trimmed(self, start_offset: int, snapshots: tuple[SnapshotId, ...]) -> None:
        invariant(start_offset <= self._member.high_watermark, "only what is committed is trimmed")
        self._member.log.trim(start_offset, snapshots)
        self._member.voter_log.trim(start_offset)

    def _stop(self) -> None:
        member = self._member
        member.is_stopping = True
        if isinstance(member.role, Leader):
            to_resigned(member)
        elif isinstance(member.role, Prospective | Candidate):
            to_unattached(member, member.epoch)


def _noop() -> None:
    """The step only looks at the clock."""
