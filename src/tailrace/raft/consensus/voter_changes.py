"""Changes of the voters on the leader (KIP-853): one at a time, used as soon as appended, answered when committed.

A change begins only when the leader has committed a record of its epoch, so that no earlier leader can still commit
another one, and when no change is uncommitted. Then two successive voter sets always have a majority in common.
"""

from __future__ import annotations

from tailrace.model.ids import ZERO_DIRECTORY_ID
from tailrace.protocol.message import Record
from tailrace.protocol.records.control import KRaftVersionRecord
from tailrace.raft.consensus.consensus_config import LEAVE_AFTER_MS, MAX_VOTERS, MAX_VOTERS_BYTES
from tailrace.raft.consensus.error_code import ErrorCode
from tailrace.raft.consensus.member import Member
from tailrace.raft.consensus.messages import (
    NO_OFFSET,
    AddRaftVoterRequest,
    KRaftVersionsRequest,
    KRaftVersionsResponse,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
    VoterChange,
    VoterChangeResponse,
)
from tailrace.raft.consensus.roles import NEVER, Leader, VoterOperation
from tailrace.raft.consensus.voter_log import key_of
from tailrace.raft.voters import DYNAMIC_VOTERS, STATIC_VOTERS, Voter, voters_record


class VoterChanges:
    def __init__(self, member: Member) -> None:
        self._member = member

    # Requests

    def on_add(self, request_id: int, request: AddRaftVoterRequest) -> None:
        """Kafka's checks in Kafka's order; then the new voter is asked for the versions that it supports."""
        member, role, voter = self._member, self._member.role, request.voter
        refused = self._refusal(voter)
        if refused is None and isinstance(role, Leader):
            refused = self._busy(role)
        if refused is None and member.voters.voter(voter.node_id) is not None:
            refused = VoterChangeResponse(ErrorCode.DUPLICATE_VOTER, f"node {voter.node_id} is a voter already")
        if refused is None and len(member.voters.voters) >= MAX_VOTERS:
            refused = VoterChangeResponse(ErrorCode.INVALID_REQUEST, f"there are {MAX_VOTERS} voters, the maximum")
        if refused is not None or not isinstance(role, Leader):
            member.respond(request_id, refused or VoterChangeResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        role.operation = VoterOperation(
            request_id,
            member.now_ms + member.config.request_timeout_ms,
            voter,
            request.is_acknowledged_when_committed,
        )

    def on_remove(self, request_id: int, request: RemoveRaftVoterRequest) -> None:
        member, role, key = self._member, self._member.role, request.voter
        refused: VoterChangeResponse | None = None
        if not isinstance(role, Leader):
            refused = VoterChangeResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif key.node_id < 0 or key.directory_id == ZERO_DIRECTORY_ID:
            refused = VoterChangeResponse(ErrorCode.INVALID_REQUEST, "a voter has a node id and a directory id")
        else:
            refused = self._busy(role)
        known = member.voters.voter(key.node_id)
        if refused is None and (known is None or key_of(known) != key):
            refused = VoterChangeResponse(ErrorCode.VOTER_NOT_FOUND, f"replica {key} is not a voter")
        if refused is None and len(member.voters.voters) == 1:
            refused = VoterChangeResponse(ErrorCode.VOTER_NOT_FOUND, "the last voter cannot be removed")
        if refused is not None or not isinstance(role, Leader):
            member.respond(request_id, refused or VoterChangeResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        role.operation = VoterOperation(request_id, member.now_ms + member.config.request_timeout_ms)
        role.operation.offset = self._append_voters(role, member.voters.without(key.node_id))

    def on_update(self, request: UpdateRaftVoterRequest, leader_error: ErrorCode) -> UpdateRaftVoterResponse:
        """Answered at once. With kraft.version 0 the leader only remembers it, for the upgrade."""
        member, role, voter = self._member, self._member.role, request.voter
        error: int = leader_error
        if error == ErrorCode.NONE and isinstance(role, Leader):
            refused = self._refusal(voter)
            version = member.voters.kraft_version
            if refused is None and version > STATIC_VOTERS:
                refused = self._busy(role)
            known = member.voters.voter(voter.node_id)
            if refused is not None:
                error = refused.error
            elif not request.min_kraft_version <= version <= request.max_kraft_version:
                error = ErrorCode.INVALID_REQUEST
            elif known is None or (version > STATIC_VOTERS and key_of(known) != key_of(voter)):
                error = ErrorCode.VOTER_NOT_FOUND
            elif version == STATIC_VOTERS:
                if request.max_kraft_version >= DYNAMIC_VOTERS:
                    role.reported[voter.node_id] = voter
            elif known != voter:
                self._append_voters(role, member.voters.with_voter(voter))
        return UpdateRaftVoterResponse(error, member.leadership)

    def upgrade(self) -> ErrorCode:
        """kraft.version 0 to 1: the voters become records. Every voter must have reported its directory."""
        member, role = self._member, self._member.role
        if not isinstance(role, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if member.voters.kraft_version >= DYNAMIC_VOTERS:
            return ErrorCode.NONE
        if not role.has_established or role.operation is not None:
            return ErrorCode.REQUEST_TIMED_OUT
        reported = {**role.reported, member.key.node_id: member.local}
        if any(node_id not in reported for node_id in member.voters.node_ids):
            return ErrorCode.INVALID_UPDATE_VERSION
        voters = tuple(reported[node_id] for node_id in member.voters.node_ids)
        records: tuple[Record, ...] = (
            KRaftVersionRecord(version=0, kraft_version=DYNAMIC_VOTERS),
            voters_record(voters),
        )
        base_offset = member.append_control(records)
        self._voters_appended(role, VoterChange(base_offset + 1, DYNAMIC_VOTERS, voters))
        return ErrorCode.NONE

    def _refusal(self, voter: Voter) -> VoterChangeResponse | None:
        member = self._member
        if not isinstance(member.role, Leader):
            return VoterChangeResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if voter.node_id < 0 or voter.directory_id == ZERO_DIRECTORY_ID:
            return VoterChangeResponse(ErrorCode.INVALID_REQUEST, "a voter has a node id and a directory id")
        if all(endpoint.name != member.config.listener_name for endpoint in voter.endpoints):
            return VoterChangeResponse(
                ErrorCode.INVALID_REQUEST, f"the voter has no endpoint for listener {member.config.listener_name}"
            )
        if _size_bytes(member.voters.with_voter(voter)) > MAX_VOTERS_BYTES:
            return VoterChangeResponse(
                ErrorCode.INVALID_REQUEST, f"the endpoints of all voters take more than {MAX_VOTERS_BYTES} bytes"
            )
        return None

    def _busy(self, role: Leader) -> VoterChangeResponse | None:
        """Why no change can begin now. Two changes at once could have majorities that do not meet."""
        member = self._member
        if role.operation is not None:
            return VoterChangeResponse(ErrorCode.REQUEST_TIMED_OUT, "another voter change is under way")
        if not role.has_established:
            return VoterChangeResponse(ErrorCode.REQUEST_TIMED_OUT, "the leader has not committed its epoch yet")
        if member.voters.kraft_version < DYNAMIC_VOTERS:
            return VoterChangeResponse(
                ErrorCode.UNSUPPORTED_VERSION, f"voters cannot change with kraft.version {member.voters.kraft_version}"
            )
        if member.voters.offset >= member.high_watermark:
            return VoterChangeResponse(ErrorCode.REQUEST_TIMED_OUT, "a voter change is not committed yet")
        return None

    # Progress

    def on_versions(self, node_id: int, response: KRaftVersionsResponse) -> None:
        """The new voter has said which versions it supports: append it, or refuse."""
        member, role = self._member, self._member.role
        if not isinstance(role, Leader) or role.operation is None:
            return
        operation = role.operation
        voter = operation.added
        if voter is None or voter.node_id != node_id or operation.offset != NO_OFFSET:
            return
        version = member.voters.kraft_version
        if response.error != ErrorCode.NONE:
            self._end(role, ErrorCode.REQUEST_TIMED_OUT, f"node {node_id} did not report its versions")
        elif not response.min_kraft_version <= version <= response.max_kraft_version:
            self._end(role, ErrorCode.INVALID_REQUEST, f"node {node_id} does not support kraft.version {version}")
        elif not role.progress.is_caught_up(key_of(voter), member.now_ms):
            self._end(role, ErrorCode.REQUEST_TIMED_OUT, f"replica {key_of(voter)} has not caught up")
        else:
            operation.offset = self._append_voters(role, member.voters.with_voter(voter))
            if not operation.is_acknowledged_when_committed and role.operation is operation:
                self._end(role, ErrorCode.NONE, None)

    def _append_voters(self, role: Leader, voters: tuple[Voter, ...]) -> int:
        offset = self._member.append_control((voters_record(voters),))
        self._voters_appended(role, VoterChange(offset, voters=voters))
        return offset

    def _voters_appended(self, role: Leader, change: VoterChange) -> None:
        """The new set counts from now on, also for what is not committed yet."""
        member = self._member
        member.change_voters(change)
        role.progress.set_voters(member.voters)
        role.leave_at_ms = NEVER
        role.check_quorum_at_ms = member.now_ms + member.config.check_quorum_ms
        member.flush()

    def on_high_watermark(self, role: Leader) -> None:
        """Answers the change that is committed now; a leader that is no voter any longer has done its work.

        It resigns a little later: a fetch response with the new high watermark may reach a voter of Kafka after the
        EndQuorumEpoch, over another connection, and that voter would then wait for the whole fetch timeout.
        """
        member = self._member
        operation = role.operation
        if operation is not None and NO_OFFSET < operation.offset < member.high_watermark:
            self._end(role, ErrorCode.NONE, None)
        if member.voters.offset < member.high_watermark and not member.is_voter:
            role.leave_at_ms = min(role.leave_at_ms, member.now_ms + LEAVE_AFTER_MS)

    def poll(self, role: Leader) -> None:
        member, operation = self._member, role.operation
        if operation is None:
            return
        if operation.deadline_ms <= member.now_ms:
            self._end(role, ErrorCode.REQUEST_TIMED_OUT, "the voter change was not committed in time")
        elif operation.added is not None and not operation.has_asked_versions:
            voter = operation.added
            if member.links.is_ready(voter.node_id, KRaftVersionsRequest, member.now_ms):
                operation.has_asked_versions = True
                member.send(voter.node_id, voter.endpoints, KRaftVersionsRequest())

    def _end(self, role: Leader, error: ErrorCode, message: str | None) -> None:
        operation, role.operation = role.operation, None
        if operation is not None:
            self._member.respond(operation.request_id, VoterChangeResponse(error, message))


def _size_bytes(voters: tuple[Voter, ...]) -> int:
    """About as large as their record."""
    endpoints = (endpoint for voter in voters for endpoint in voter.endpoints)
    names_bytes = sum(8 + len(each.name.encode()) + len(each.host.encode()) for each in endpoints)
    return 32 * len(voters) + names_bytes
