"""What a leader does: it answers fetches, moves the high watermark, and resigns when it leads no majority.

Commit rule. The high watermark is the greatest offset that a majority of the voters has durably, and it moves only once
that is above the first record of the leader's own epoch: only then no other log can win an election without it.
"""

from __future__ import annotations

from tailrace.raft.consensus.consensus_config import MAX_PARKED_FETCHES
from tailrace.raft.consensus.effects import LeadershipGained, RespondWithSnapshot
from tailrace.raft.consensus.error_code import ErrorCode
from tailrace.raft.consensus.log_view import Diverging, NeedsSnapshot
from tailrace.raft.consensus.member import Member
from tailrace.raft.consensus.messages import (
    NO_OFFSET,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ReplicaKey,
)
from tailrace.raft.consensus.parked_fetches import ParkedFetch
from tailrace.raft.consensus.roles import Leader, Resigned
from tailrace.raft.consensus.transitions import to_resigned
from tailrace.raft.consensus.voter_changes import VoterChanges


class Leading:
    def __init__(self, member: Member, voter_changes: VoterChanges) -> None:
        self._member = member
        self._voter_changes = voter_changes

    # Requests

    def check_leader_request(self, epoch: int) -> ErrorCode:
        """Of a request that only the leader of `epoch` answers."""
        member = self._member
        if epoch < member.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > member.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if isinstance(member.role, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def on_fetch(self, request_id: int, request: FetchRequest) -> None:
        """Answers at once, or parks the fetch until there is something to answer."""
        member = self._member
        is_bad = request.offset < 0 or request.last_epoch < 0 or request.max_wait_ms < 0
        if is_bad or request.last_epoch > request.epoch or request.replica.node_id == member.key.node_id:
            member.respond(request_id, self._refused(ErrorCode.INVALID_REQUEST))
            return
        error = self.check_leader_request(request.epoch)
        role = member.role
        if error != ErrorCode.NONE or not isinstance(role, Leader):
            member.respond(request_id, self._refused(error))
            return
        response = self._answer(role, request)
        if response.diverging is None and response.snapshot_id is None:
            self._replica_fetched(role, request)
            response = self._answer(role, request)
        if self._can_wait(role, request, response):
            self._park(role, request_id, request)
        else:
            member.respond(request_id, response)

    def _refused(self, error: ErrorCode) -> FetchResponse:
        return FetchResponse(error, self._member.leadership, log_start_offset=self._member.log.start_offset)

    def _answer(self, role: Leader, request: FetchRequest) -> FetchResponse:
        member = self._member
        log = member.log
        high_watermark = member.high_watermark if role.has_established else NO_OFFSET
        response = FetchResponse(ErrorCode.NONE, member.leadership, high_watermark, log.start_offset)
        position = log.position(request.offset, request.last_epoch)
        if isinstance(position, Diverging):
            return response._replace(diverging=position.end)
        if isinstance(position, NeedsSnapshot):
            return response._replace(snapshot_id=position.snapshot_id)
        if request.offset < log.end_offset:
            return response._replace(read_until=log.end_offset)
        return response

    def _can_wait(self, role: Leader, request: FetchRequest, response: FetchResponse) -> bool:
        """Nothing to say: no records, no change of the log, and no high watermark above that of the request."""
        has_news = (
            response.read_until is not None
            or response.diverging is not None
            or response.snapshot_id is not None
            or response.high_watermark > request.high_watermark
        )
        return not has_news and request.max_wait_ms > 0 and len(role.parked) < MAX_PARKED_FETCHES

    def _park(self, role: Leader, request_id: int, request: FetchRequest) -> None:
        """A replica waits with one fetch at a time, and no longer than the fetch timeout."""
        member = self._member
        earlier = role.parked.take_of(request.replica)
        if earlier is not None:
            member.respond(earlier.request_id, self._answer(role, earlier.request))
        wait_ms = min(request.max_wait_ms, member.config.fetch_timeout_ms)
        role.parked.add(ParkedFetch(request_id, request, member.now_ms + wait_ms))

    def _replica_fetched(self, role: Leader, request: FetchRequest) -> None:
        """The replica has the log up to its fetch offset, durably."""
        member = self._member
        if request.replica.node_id < 0:
            return
        state = role.progress.state_of(request.replica)
        state.on_fetch(request.offset, member.log.end_offset, member.now_ms)
        self._count_fetch(role, request.replica)
        self.update_high_watermark()

    def _count_fetch(self, role: Leader, replica: ReplicaKey) -> None:
        if role.progress.has_majority_fetched(replica):
            role.check_quorum_at_ms = self._member.now_ms + self._member.config.check_quorum_ms

    def on_fetch_snapshot(self, request_id: int, request: FetchSnapshotRequest) -> None:
        member, role = self._member, self._member.role
        error = self.check_leader_request(request.epoch)
        if error == ErrorCode.NONE and request.snapshot_id not in member.log.snapshots:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        if error == ErrorCode.NONE and request.position < 0:
            error = ErrorCode.POSITION_OUT_OF_RANGE
        if error != ErrorCode.NONE or not isinstance(role, Leader):
            member.respond(request_id, FetchSnapshotResponse(error, member.leadership))
            return
        if request.replica.node_id >= 0 and request.replica.node_id != member.key.node_id:
            self._count_fetch(role, request.replica)
        member.emit(RespondWithSnapshot(request_id, request, member.key.node_id, member.epoch))

    # Commits

    def update_high_watermark(self) -> None:
        """After a flush, a fetch, or a change of the voters."""
        member, role = self._member, self._member.role
        if not isinstance(role, Leader):
            return
        offset = min(role.progress.high_watermark(member.log.flushed_offset), member.log.end_offset)
        if offset <= role.epoch_start:
            return
        has_moved = member.move_high_watermark(offset)
        if not role.has_established:
            role.has_established = True
            member.emit(LeadershipGained(member.epoch))
        if has_moved:
            self._voter_changes.on_high_watermark(role)
            self.answer_parked()

    def answer_parked(self) -> None:
        """Answers the parked fetches for which there is something now, or whose time is up."""
        member, role = self._member, self._member.role
        if not isinstance(role, Leader) or not role.parked:
            return
        log = member.log
        state = (member.high_watermark, role.has_established, log.start_offset, log.end_offset, log.snapshots)
        is_changed, role.parked_for = state != role.parked_for, state
        for each in role.parked.take_all() if is_changed else role.parked.take_due(member.now_ms):
            response = self._answer(role, each.request)
            if each.deadline_ms > member.now_ms and self._can_wait(role, each.request, response):
                role.parked.add(each)
            else:
                member.respond(each.request_id, response)

    # Time

    def poll(self) -> None:
        member, role = self._member, self._member.role
        if isinstance(role, Resigned):
            self._end_epoch(role)
        if not isinstance(role, Leader):
            return
        self.update_high_watermark()
        is_alone = member.voters.is_only(member.key)
        if is_alone:
            role.check_quorum_at_ms = member.now_ms + member.config.check_quorum_ms
        if member.is_stopping or min(role.leave_at_ms, role.check_quorum_at_ms) <= member.now_ms:
            to_resigned(member)
            self.poll()
            return
        self._voter_changes.poll(role)
        role.progress.forget_observers(member.now_ms)
        self.answer_parked()
        if role.begin_at_ms <= member.now_ms:
            self._begin_epoch(role)

    def _begin_epoch(self, role: Leader) -> None:
        """Tells every other voter who leads, again and again: one that has not fetched may not know."""
        member = self._member
        role.begin_at_ms = member.now_ms + member.config.begin_quorum_interval_ms
        for node_id in member.other_voters:
            voter = member.voters.voter(node_id)
            if voter is not None and member.links.is_ready(node_id, BeginQuorumEpochRequest, member.now_ms):
                key = ReplicaKey(voter.node_id, voter.directory_id)
                request = BeginQuorumEpochRequest(member.epoch, member.key.node_id, key, member.local.endpoints)
                member.send(node_id, voter.endpoints, request)

    def _end_epoch(self, role: Resigned) -> None:
        member = self._member
        for node_id in sorted(role.unacknowledged):
            if member.links.is_ready(node_id, EndQuorumEpochRequest, member.now_ms):
                request = EndQuorumEpochRequest(
                    member.epoch, member.key.node_id, role.preferred, member.local.endpoints
                )
                member.send(node_id, member.endpoints_of(node_id), request)
