"""How a member changes its role. Each function keeps what must survive: epoch, vote, and the leader of the epoch.

Unattached  -> Prospective (election timeout, or all agree that there is no leader), Follower
Prospective -> Candidate (majority of pre-votes), Unattached or Follower (lost), Follower
Candidate   -> Leader (majority of votes), Prospective (election timeout), Follower
Follower    -> Prospective (fetch timeout, or evidence that the leader is gone)
Leader      -> Resigned (clean stop, no majority fetches, removed from the voters)
Resigned    -> Unattached (election timeout)
any         -> Unattached or Follower, in a higher epoch
"""

from __future__ import annotations

from tailrace.model.errors import InconsistentVoterSetError
from tailrace.model.invariant import invariant
from tailrace.protocol.message import Record
from tailrace.protocol.records.control import KRaftVersionRecord, LeaderChangeMessage, LeaderChangeVoter
from tailrace.raft.consensus.effects import AbandonSnapshot, LeadershipLost
from tailrace.raft.consensus.error_code import ErrorCode
from tailrace.raft.consensus.member import Member
from tailrace.raft.consensus.messages import FetchResponse, ReplicaKey, VoterChange, VoterChangeResponse
from tailrace.raft.consensus.replica_progress import ReplicaProgress
from tailrace.raft.consensus.roles import (
    NEVER,
    Ballot,
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
)
from tailrace.raft.quorum_state import MAX_EPOCH
from tailrace.raft.voters import NO_NODE, STATIC_VOTERS, QuorumEndpoint, voters_record


def leave_role(member: Member) -> None:
    """What the present role owes to others: responses, and files that are no longer needed."""
    role = member.role
    if isinstance(role, Leader):
        error = FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, member.leadership._replace(leader_id=NO_NODE))
        for parked in role.parked:
            member.respond(parked.request_id, error)
        if role.operation is not None:
            refused = VoterChangeResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the leader has resigned")
            member.respond(role.operation.request_id, refused)
        if role.has_established:
            member.emit(LeadershipLost(member.epoch))
    elif isinstance(role, Follower) and role.snapshot is not None:
        member.emit(AbandonSnapshot(role.snapshot.snapshot_id))


def to_unattached(member: Member, epoch: int) -> None:
    """A higher epoch, or a lost round of pre-votes. A running election timeout goes on in a higher epoch."""
    role = member.role
    is_new_epoch = epoch > member.epoch
    timeout_ms = member.random_election_timeout_ms()
    deadline_ms = member.now_ms + timeout_ms
    if is_new_epoch and isinstance(role, Unattached | Prospective | Candidate):
        deadline_ms = min(max(role.deadline_ms, member.now_ms), deadline_ms)
    leave_role(member)
    if is_new_epoch:
        member.enter_epoch(epoch)
    member.set_role(Unattached(deadline_ms))


def to_follower(member: Member, epoch: int, leader_id: int, endpoints: tuple[QuorumEndpoint, ...]) -> None:
    invariant(leader_id != member.key.node_id, "no node follows itself")
    leave_role(member)
    if epoch > member.epoch:
        member.enter_epoch(epoch)
    member.elected = leader_id
    config = member.config
    member.set_role(
        Follower(
            leader_id,
            endpoints,
            deadline_ms=member.now_ms + config.fetch_timeout_ms,
            update_voter_at_ms=member.now_ms + config.update_voter_period_ms,
        )
    )


def to_prospective(member: Member) -> None:
    endpoints = member.endpoints_of(member.elected)
    leave_role(member)
    ballot = Ballot(member.voters, member.key.node_id)
    member.set_role(Prospective(ballot, member.now_ms + member.random_election_timeout_ms(), endpoints))


def to_candidate(member: Member) -> None:
    """Votes for itself in a new epoch. No voter is asked before that vote is durable."""
    if member.epoch >= MAX_EPOCH:
        member.fail(InconsistentVoterSetError(f"there is no epoch after {MAX_EPOCH}"))
        return
    leave_role(member)
    member.enter_epoch(member.epoch + 1)
    member.vote(member.key)
    ballot = Ballot(member.voters, member.key.node_id)
    member.set_role(Candidate(ballot, member.now_ms + member.random_election_timeout_ms()))


def to_leader(member: Member, granting: set[int]) -> None:
    """The election state comes first, then the LeaderChange record as first record of the epoch."""
    config, voters = member.config, member.voters
    invariant(member.voted.node_id == member.key.node_id, "a leader has voted for itself")
    member.elected = member.key.node_id
    role = Leader(
        epoch_start=member.log.end_offset,
        progress=ReplicaProgress(member.key, voters),
        begin_at_ms=member.now_ms,
        check_quorum_at_ms=NEVER if voters.is_only(member.key) else member.now_ms + config.check_quorum_ms,
    )
    member.set_role(role)
    record_version = 0 if voters.kraft_version == STATIC_VOTERS else 1
    change = LeaderChangeMessage(
        version=record_version,
        leader_id=member.key.node_id,
        voters=[_change_voter(member, node_id) for node_id in voters.node_ids],
        granting_voters=[_change_voter(member, node_id) for node_id in voters.node_ids if node_id in granting],
    )
    records: list[Record] = [change]
    if voters.kraft_version > STATIC_VOTERS and voters.offset < 0:
        # The voters are those of a formatted directory; as records they reach the others.
        records.append(KRaftVersionRecord(version=0, kraft_version=voters.kraft_version))
        records.append(voters_record(voters.voters))
    base_offset = member.append_control(tuple(records))
    if len(records) > 1:
        member.voter_log.append(_repeated(base_offset + len(records) - 1))
        member.notify_voters()
    member.flush()


def to_resigned(member: Member) -> None:
    role = member.role
    assert isinstance(role, Leader)
    preferred = role.progress.successors()
    leave_role(member)
    deadline_ms = member.now_ms + member.random_election_timeout_ms()
    member.set_role(Resigned(deadline_ms, preferred, {key.node_id for key in preferred}))


def learn_leader(member: Member, epoch: int, leader_id: int, endpoints: tuple[QuorumEndpoint, ...]) -> bool:
    """Follows what a message says of epoch and leader. False if it contradicts what this node knows.

    Only a leader that this node does not follow yet, or a higher epoch, changes the role. No network input may break
    the rule that an epoch has one leader, so a contradiction is refused and changes nothing.
    """
    if epoch < member.epoch or epoch >= MAX_EPOCH:
        return True
    is_local = leader_id == member.key.node_id
    if epoch > member.epoch:
        if is_local:
            return False
        if leader_id >= 0:
            to_follower(member, epoch, leader_id, endpoints)
        else:
            to_unattached(member, epoch)
        return True
    if leader_id < 0:
        return True
    if is_local:  # a follower may not know yet that this node has resigned, or has restarted
        return member.elected == leader_id
    if member.elected not in (NO_NODE, leader_id):
        return False
    role = member.role
    if isinstance(role, Follower):
        role.endpoints = role.endpoints or endpoints
    elif isinstance(role, Unattached | Candidate) or member.elected == NO_NODE:
        to_follower(member, epoch, leader_id, endpoints)
    return True


def _change_voter(member: Member, node_id: int) -> LeaderChangeVoter:
    voter = member.voters.voter(node_id)
    assert voter is not None
    return LeaderChangeVoter(voter_id=node_id, voter_directory_id=voter.directory_id)


def _repeated(offset: int) -> VoterChange:
    """The voters as they are, now as records of the log."""
    return VoterChange(offset)


def is_replica_named(key: ReplicaKey | None, member: Member) -> bool:
    """Whether a request names this replica as its receiver, or names none."""
    if key is None or key.node_id < 0:
        return True
    return key.node_id == member.key.node_id and (
        not any(key.directory_id) or key.directory_id == member.key.directory_id
    )
