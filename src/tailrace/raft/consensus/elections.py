"""Votes and pre-votes: who asks, who grants, and when a round begins (KIP-595, KIP-996, fast election)."""

from __future__ import annotations

from tailrace.raft.consensus.error_code import ErrorCode
from tailrace.raft.consensus.member import Member
from tailrace.raft.consensus.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    ReplicaKey,
    VoteRequest,
    VoteResponse,
)
from tailrace.raft.consensus.roles import (
    NEVER,
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
)
from tailrace.raft.consensus.transitions import (
    is_replica_named,
    learn_leader,
    to_candidate,
    to_follower,
    to_leader,
    to_prospective,
    to_unattached,
)
from tailrace.raft.quorum_state import MAX_EPOCH
from tailrace.raft.voters import NO_NODE


class Elections:
    def __init__(self, member: Member) -> None:
        self._member = member

    # Requests

    def on_vote(self, request: VoteRequest) -> VoteResponse:
        """Kafka's order of checks: the epoch and the candidate, then the receiver, then the vote.

        The response to a granted vote is kept back by `Member.emit` until the vote is durable.
        """
        member = self._member
        is_bad_epoch = (
            request.last_epoch > request.epoch if request.is_pre_vote else request.last_epoch >= request.epoch
        )
        if is_bad_epoch or request.last_epoch < 0 or request.end_offset < 0 or request.epoch >= MAX_EPOCH:
            return VoteResponse(ErrorCode.INVALID_REQUEST, member.leadership)
        error = self._check_voter_request(request.candidate.node_id, request.epoch)
        if error == ErrorCode.NONE and request.candidate.node_id == member.key.node_id:
            is_refused = request.epoch == member.epoch and isinstance(member.role, Leader)  # as any other candidate
            error = ErrorCode.NONE if is_refused else ErrorCode.INVALID_REQUEST
        if error != ErrorCode.NONE:
            return VoteResponse(error, member.leadership)
        if request.epoch > member.epoch:
            to_unattached(member, request.epoch)
        if not is_replica_named(request.voter, member):
            return VoteResponse(ErrorCode.INVALID_VOTER_KEY, member.leadership)
        is_up_to_date = (request.last_epoch, request.end_offset) >= (member.log.last_epoch, member.log.end_offset)
        if request.is_pre_vote:
            return VoteResponse(ErrorCode.NONE, member.leadership, self._on_pre_vote(request, is_up_to_date))
        is_granted = self._grants_vote(request.candidate, is_up_to_date)
        if is_granted and member.voted.node_id == NO_NODE:
            member.vote(request.candidate)
            role = member.role
            if isinstance(role, Unattached | Prospective):
                role.deadline_ms = member.now_ms + member.random_election_timeout_ms()
            if isinstance(role, Unattached):
                role.prospective_at_ms = NEVER
        return VoteResponse(ErrorCode.NONE, member.leadership, is_granted)

    def _check_voter_request(self, sender_id: int, epoch: int) -> ErrorCode:
        if epoch < self._member.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.INVALID_REQUEST if sender_id < 0 or epoch >= MAX_EPOCH else ErrorCode.NONE

    def _on_pre_vote(self, request: VoteRequest, is_up_to_date: bool) -> bool:
        """Whether the pre-vote is granted. Two rules help voters that lose their leader at the same time:

        - A voter that grants a pre-vote to a voter with a lower id does not become a candidate for `yield_ms`. Two
          voters that grant each other a pre-vote are therefore not both candidates in the next epoch.
        - A voter that asks no longer follows the leader. If its log is shorter, its own rejection does not count: it
          is asked again, and grants the pre-vote now.
        """
        member, role, node_id = self._member, self._member.role, request.candidate.node_id
        if not (is_up_to_date and self._grants_pre_votes()):
            if isinstance(role, Prospective) and not is_up_to_date:
                role.ballot.ask_again(node_id)
            return False
        has_won = isinstance(role, Prospective) and role.ballot.is_won  # and waits already
        if node_id < member.key.node_id and node_id in member.voters.node_ids and not has_won:
            member.no_candidate_before_ms = member.now_ms + member.config.yield_ms
        return True

    def _grants_pre_votes(self) -> bool:
        """A follower that hears from its leader helps no other node into office; it is the leader's shield."""
        role = self._member.role
        if isinstance(role, Follower):
            return not role.has_fetched or role.is_leader_lost
        return not isinstance(role, Leader)

    def _grants_vote(self, candidate: ReplicaKey, is_up_to_date: bool) -> bool:
        """At most one vote in an epoch, and none against its leader. Observers vote too: the candidate may be ahead."""
        member = self._member
        if not isinstance(member.role, Unattached | Prospective):
            return False
        if member.voted.node_id != NO_NODE:
            is_same_directory = not any(member.voted.directory_id) or member.voted == candidate
            return member.voted.node_id == candidate.node_id and is_same_directory
        return member.elected == NO_NODE and is_up_to_date

    def on_begin_quorum_epoch(self, request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse:
        member = self._member
        error = self._check_voter_request(request.leader_id, request.epoch)
        if error == ErrorCode.NONE:
            endpoints = request.endpoints or member.endpoints_of(request.leader_id)
            if not learn_leader(member, request.epoch, request.leader_id, endpoints):
                error = ErrorCode.INVALID_REQUEST
            elif not is_replica_named(request.voter, member):
                error = ErrorCode.INVALID_VOTER_KEY
            elif isinstance(member.role, Prospective) and member.elected == request.leader_id:
                to_follower(member, request.epoch, request.leader_id, endpoints)
        return BeginQuorumEpochResponse(error, member.leadership)

    def on_end_quorum_epoch(self, request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
        """The leader resigns. The first of its preferred successors begins at once, the others later and later."""
        member = self._member
        error = self._check_voter_request(request.leader_id, request.epoch)
        if error == ErrorCode.NONE:
            endpoints = request.endpoints or member.endpoints_of(request.leader_id)
            if not learn_leader(member, request.epoch, request.leader_id, endpoints):
                error = ErrorCode.INVALID_REQUEST
            elif isinstance(member.role, Follower) and member.role.leader_id == request.leader_id:
                member.role.is_leader_lost = True
                backoff_ms = self._successor_backoff_ms(request.preferred)
                member.role.prospective_at_ms = min(member.role.prospective_at_ms, member.now_ms + backoff_ms)
        return EndQuorumEpochResponse(error, member.leadership)

    def _successor_backoff_ms(self, preferred: tuple[ReplicaKey, ...]) -> int:
        """Doubles with the position, up to half of the maximum; the maximum for a voter that is not named."""
        maximum_ms = self._member.config.election_backoff_max_ms
        for position, key in enumerate(preferred):
            if key.node_id >= 0 and is_replica_named(key, self._member):
                if position == 0:
                    return 0
                shift = min(len(preferred) - position, 62)
                return maximum_ms >> shift
        return maximum_ms

    # Responses

    def on_vote_response(self, node_id: int, response: VoteResponse) -> None:
        role = self._member.role
        if not isinstance(role, Prospective | Candidate):
            return
        role.ballot.record(node_id, response.is_granted)
        self.count()

    def on_pre_vote_unsupported(self) -> None:
        """A voter without KIP-996: as Kafka does, stand without pre-votes."""
        if isinstance(self._member.role, Prospective):
            to_candidate(self._member)

    def count(self) -> None:
        """Ends a round that is decided. A candidate that lost waits for its election timeout."""
        member, role = self._member, self._member.role
        if isinstance(role, Prospective):
            if role.ballot.is_won and member.no_candidate_before_ms <= member.now_ms:
                to_candidate(member)
            elif role.ballot.is_lost:
                self._give_up_prospect(role)
        elif isinstance(role, Candidate) and role.ballot.is_won and member.is_election_durable:
            to_leader(member, role.ballot.granted)

    def _give_up_prospect(self, role: Prospective) -> None:
        member = self._member
        member.pause_rounds()
        if member.elected not in (NO_NODE, member.key.node_id):
            to_follower(member, member.epoch, member.elected, role.endpoints)
        else:
            to_unattached(member, member.epoch)

    # Time

    def poll(self) -> None:
        """Begins rounds that are due and asks the voters of a round."""
        member, role = self._member, self._member.role
        may_stand = member.may_stand
        if isinstance(role, Unattached):
            is_due = min(role.deadline_ms, role.prospective_at_ms) <= member.now_ms
            if may_stand and (is_due or member.voters.is_only(member.key)):
                to_prospective(member)
                self.count()
        elif isinstance(role, Follower):
            if may_stand and min(role.deadline_ms, role.prospective_at_ms) <= member.now_ms:
                to_prospective(member)
                self.count()
        elif isinstance(role, Resigned):
            if role.deadline_ms <= member.now_ms and not member.is_stopping:
                to_unattached(member, member.epoch)
        elif isinstance(role, Prospective | Candidate):
            self._poll_nominee(role)

    def _poll_nominee(self, role: Prospective | Candidate) -> None:
        member = self._member
        if not member.may_stand:
            to_unattached(member, member.epoch)
        elif role.deadline_ms <= member.now_ms:
            if isinstance(role, Candidate):
                to_prospective(member)
                self.count()
            elif role.ballot.is_won:
                to_candidate(member)
            else:
                self._give_up_prospect(role)
        else:
            self.count()
            if member.role is role and not role.ballot.is_lost:
                self._ask(role)

    def _ask(self, role: Prospective | Candidate) -> None:
        member = self._member
        for node_id in role.ballot.unrecorded:
            voter = member.voters.voter(node_id)
            if voter is None or not member.links.is_ready(node_id, VoteRequest, member.now_ms):
                continue
            request = VoteRequest(
                member.epoch,
                member.key,
                ReplicaKey(voter.node_id, voter.directory_id),
                member.log.last_epoch,
                member.log.end_offset,
                isinstance(role, Prospective),
            )
            member.send(node_id, voter.endpoints, request)

    def on_leader_unreachable(self, node_id: int) -> None:
        """Evidence that the process of the leader is gone: see `RaftCore.leader_unreachable`."""
        member, role = self._member, self._member.role
        if member.config.has_fast_election and isinstance(role, Follower) and role.leader_id == node_id:
            role.is_leader_lost = True
            delay_ms = member.fast_election_delay_ms(without=node_id)
            at_ms = max(member.now_ms + delay_ms, member.no_round_before_ms)
            role.prospective_at_ms = min(role.prospective_at_ms, at_ms)

    def on_no_leader_reported(self, node_id: int) -> None:
        """A voter knows no leader either. At the start, a majority that says so ends the wait."""
        member, role = self._member, self._member.role
        if not (isinstance(role, Unattached) and role.is_starting and member.config.has_fast_election):
            return
        if node_id in member.voters.node_ids:
            role.without_leader.add(node_id)
        if (
            len(role.without_leader | {member.key.node_id}) >= member.voters.majority
            and role.prospective_at_ms == NEVER
        ):
            role.prospective_at_ms = member.now_ms + member.fast_election_delay_ms(without=NO_NODE)
