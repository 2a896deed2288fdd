"""What a leader answers to requests that change the voters, and what it appends (KIP-853)."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tailrace.model.ids import ZERO_DIRECTORY_ID, DirectoryId
from tailrace.raft.consensus import ConsensusConfig, ErrorCode, RaftCore, ReplicaKey, StoredLog, VoterChange
from tailrace.raft.consensus import effects as fx
from tailrace.raft.consensus import messages as ms
from tailrace.raft.consensus.effects import Effect
from tailrace.raft.snapshot import SnapshotId
from tailrace.raft.voters import QuorumEndpoint, Voter, voters_of


def voter(node_id: int, port: int = 9000) -> Voter:
    endpoint = QuorumEndpoint("CONTROLLER", f"host{node_id}", port)
    return Voter(node_id, DirectoryId(bytes([node_id] * 16)), (endpoint,))


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, voter(node_id).directory_id)


class Leader:
    """Node 1 leads itself and, with `count` 2 or 3, nodes that have fetched everything so far."""

    def __init__(self, count: int = 1, kraft_version: int = 1, is_established: bool = True) -> None:
        voters = tuple(voter(node_id) for node_id in range(1, count + 1))
        base = VoterChange(-1, kraft_version, voters) if kraft_version else None
        self.now_ms = 0
        self.effects: list[Effect] = []
        self.requests = 0
        self.core = RaftCore(
            ConsensusConfig(static_voters=voters),
            voter(1),
            StoredLog(snapshots=(SnapshotId(0, 0),), base=base),
            None,
            random.Random(1),
            0,
        )
        self.run(self.core.start(0))
        if count > 1:
            self.now_ms = 2_000
            self.run(self.core.tick(self.now_ms))
            for is_pre_vote in (True, False):
                for sent in self.sent(ms.VoteRequest):
                    if sent.request.is_pre_vote == is_pre_vote:  # type: ignore[union-attr]
                        granted = ms.VoteResponse(ErrorCode.NONE, ms.Leadership(-1, self.core.epoch), True)
                        self.run(self.core.answered(sent.correlation_id, granted, self.now_ms))
            if is_established:
                for node_id in range(2, count + 1):
                    self.fetch(node_id)

    def run(self, effects: list[Effect]) -> None:
        self.effects += effects
        for effect in effects:
            if isinstance(effect, fx.PersistElection | fx.FlushLog):
                self.run(self.core.persisted(effect.number, self.now_ms))

    def sent(self, kind: type) -> list[fx.Send]:
        return [each for each in self.effects if isinstance(each, fx.Send) and isinstance(each.request, kind)]

    def ask(self, request: ms.InboundRequest) -> int | None:
        """The error code of the response; None before the response."""
        self.requests += 1
        self.run(self.core.receive(self.requests, request, self.now_ms))
        return self.answer_to(self.requests)

    def answer_to(self, request_id: int) -> int | None:
        answers = [each for each in self.effects if isinstance(each, fx.Respond) and each.request_id == request_id]
        return answers[-1].response.error if answers else None

    def fetch(self, node_id: int) -> None:
        self.ask(ms.FetchRequest(key(node_id), self.core.epoch, self.core.end_offset, self.core.epoch))

    def versions(self, response: ms.KRaftVersionsResponse) -> None:
        sent = self.sent(ms.KRaftVersionsRequest)[-1]
        self.run(self.core.answered(sent.correlation_id, response, self.now_ms))

    @property
    def appended(self) -> tuple[Voter, ...]:
        """The voters of the newest record."""
        batch = [each for each in self.effects if isinstance(each, fx.AppendControl)][-1]
        return voters_of(batch.records[-1])  # type: ignore[arg-type]


NOT_VOTER = voter(4)
UPDATE = ms.UpdateRaftVoterRequest


@pytest.mark.parametrize(
    ("leader", "request_of", "error"),
    [
        (lambda: Leader(2), lambda _: ms.AddRaftVoterRequest(voter(2)), ErrorCode.DUPLICATE_VOTER),
        (lambda: Leader(), lambda _: ms.AddRaftVoterRequest(NOT_VOTER._replace(node_id=-1)), ErrorCode.INVALID_REQUEST),
        (
            lambda: Leader(),
            lambda _: ms.AddRaftVoterRequest(NOT_VOTER._replace(directory_id=ZERO_DIRECTORY_ID)),
            ErrorCode.INVALID_REQUEST,
        ),
        (
            lambda: Leader(),
            lambda _: ms.AddRaftVoterRequest(NOT_VOTER._replace(endpoints=())),
            ErrorCode.INVALID_REQUEST,
        ),
        (lambda: Leader(kraft_version=0), lambda _: ms.AddRaftVoterRequest(NOT_VOTER), ErrorCode.UNSUPPORTED_VERSION),
        (
            lambda: Leader(2, is_established=False),
            lambda _: ms.AddRaftVoterRequest(NOT_VOTER),
            ErrorCode.REQUEST_TIMED_OUT,
        ),
        (lambda: Leader(2), lambda _: ms.RemoveRaftVoterRequest(key(4)), ErrorCode.VOTER_NOT_FOUND),
        (
            lambda: Leader(2),
            lambda _: ms.RemoveRaftVoterRequest(ReplicaKey(2, DirectoryId(bytes([9] * 16)))),
            ErrorCode.VOTER_NOT_FOUND,
        ),
        (lambda: Leader(2), lambda _: ms.RemoveRaftVoterRequest(ReplicaKey(2)), ErrorCode.INVALID_REQUEST),
        (lambda: Leader(), lambda _: ms.RemoveRaftVoterRequest(key(1)), ErrorCode.VOTER_NOT_FOUND),
        (lambda: Leader(2), lambda epoch: UPDATE(epoch - 1, voter(2)), ErrorCode.FENCED_LEADER_EPOCH),
        (lambda: Leader(2), lambda epoch: UPDATE(epoch + 1, voter(2)), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (lambda: Leader(2), lambda epoch: UPDATE(epoch, NOT_VOTER), ErrorCode.VOTER_NOT_FOUND),
        (lambda: Leader(2), lambda epoch: UPDATE(epoch, voter(2), 0, 0), ErrorCode.INVALID_REQUEST),
        (lambda: Leader(2), lambda epoch: UPDATE(epoch, voter(2)._replace(endpoints=())), ErrorCode.INVALID_REQUEST),
        (lambda: Leader(2, is_established=False), lambda epoch: UPDATE(epoch, voter(2)), ErrorCode.REQUEST_TIMED_OUT),
        (lambda: Leader(2), lambda epoch: UPDATE(epoch, voter(2)), ErrorCode.NONE),
    ],
)
def test_request_is_refused_with_the_code_of_kafka(
    leader: Callable[[], Leader], request_of: Callable[[int], ms.InboundRequest], error: ErrorCode
) -> None:
    asked = leader()
    end_offset = asked.core.end_offset
    assert asked.ask(request_of(asked.core.epoch)) == error
    assert asked.core.end_offset == end_offset


def test_voter_with_other_endpoints_is_written_and_answered_at_once() -> None:
    leader = Leader(2)
    assert leader.ask(UPDATE(leader.core.epoch, voter(2, port=9999))) == ErrorCode.NONE
    assert leader.appended == (voter(1), voter(2, port=9999))
    assert leader.core.voters.voters == leader.appended
    assert leader.ask(UPDATE(leader.core.epoch, voter(2))) == ErrorCode.REQUEST_TIMED_OUT, "not committed yet"
    leader.fetch(2)
    assert leader.ask(UPDATE(leader.core.epoch, voter(2))) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (ms.KRaftVersionsResponse(ErrorCode.NONE, 0, 1), ErrorCode.NONE),
        (ms.KRaftVersionsResponse(ErrorCode.NONE, 0, 0), ErrorCode.INVALID_REQUEST),
        (ms.KRaftVersionsResponse(ErrorCode.UNSUPPORTED_VERSION), ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_new_voter_must_support_the_finalized_version(response: ms.KRaftVersionsResponse, error: ErrorCode) -> None:
    leader = Leader()
    leader.fetch(4)
    request = ms.AddRaftVoterRequest(NOT_VOTER, is_acknowledged_when_committed=False)
    assert leader.ask(request) is None
    leader.versions(response)
    assert leader.answer_to(leader.requests) == error


def test_new_voter_that_is_not_reached_or_has_never_fetched_is_refused() -> None:
    leader = Leader()
    assert leader.ask(ms.AddRaftVoterRequest(NOT_VOTER)) is None
    leader.versions(ms.KRaftVersionsResponse(ErrorCode.NONE, 0, 1))
    assert leader.answer_to(leader.requests) == ErrorCode.REQUEST_TIMED_OUT
    assert leader.ask(ms.AddRaftVoterRequest(NOT_VOTER)) is None
    leader.run(leader.core.failed(leader.sent(ms.KRaftVersionsRequest)[-1].correlation_id, leader.now_ms))
    assert leader.answer_to(leader.requests) == ErrorCode.REQUEST_TIMED_OUT


def test_addition_that_is_not_committed_in_time_is_answered_and_stays_in_the_log() -> None:
    leader = Leader()
    leader.fetch(4)
    leader.ask(ms.AddRaftVoterRequest(NOT_VOTER))
    request_id = leader.requests
    leader.versions(ms.KRaftVersionsResponse(ErrorCode.NONE, 0, 1))
    assert leader.core.voters.node_ids == (1, 4)
    assert leader.answer_to(request_id) is None
    assert leader.ask(ms.AddRaftVoterRequest(voter(5))) == ErrorCode.REQUEST_TIMED_OUT
    leader.now_ms += 2_000
    leader.run(leader.core.tick(leader.now_ms))
    assert leader.answer_to(request_id) == ErrorCode.REQUEST_TIMED_OUT
    assert leader.core.voters.node_ids == (1, 4)


def test_pending_addition_is_answered_when_the_leader_is_deposed() -> None:
    leader = Leader(2)
    leader.fetch(4)
    leader.ask(ms.AddRaftVoterRequest(NOT_VOTER))
    request_id = leader.requests
    leader.ask(ms.BeginQuorumEpochRequest(leader.core.epoch + 1, 2, None))
    assert leader.answer_to(request_id) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_new_leader_writes_the_voters_of_the_format_into_the_log() -> None:
    leader = Leader()
    (batch,) = [each for each in leader.effects if isinstance(each, fx.AppendControl)]
    assert [type(record).__name__ for record in batch.records] == [
        "LeaderChangeMessage",
        "KRaftVersionRecord",
        "VotersRecord",
    ]
    assert leader.core.voters.offset == 2


def test_removal_of_a_follower_is_committed_by_those_that_stay() -> None:
    leader = Leader(2)
    assert leader.ask(ms.RemoveRaftVoterRequest(key(2))) == ErrorCode.NONE
    assert leader.core.voters.node_ids == (1,)
    voters, observers = leader.core.replicas()
    assert ([state.key for state in voters], [state.key for state in observers]) == ([key(1)], [key(2)])


def test_upgrade_waits_for_the_report_of_every_voter() -> None:
    leader = Leader(2, kraft_version=0)
    assert leader.core.upgrade_kraft_version(0)[0] == ErrorCode.INVALID_UPDATE_VERSION
    assert leader.ask(UPDATE(leader.core.epoch, voter(2), 0, 0)) == ErrorCode.NONE
    assert leader.core.upgrade_kraft_version(0)[0] == ErrorCode.INVALID_UPDATE_VERSION
    assert leader.ask(UPDATE(leader.core.epoch, voter(2))) == ErrorCode.NONE
    error, effects = leader.core.upgrade_kraft_version(0)
    leader.run(effects)
    assert error == ErrorCode.NONE
    assert leader.appended == (voter(1), voter(2))


def test_voters_that_do_not_fit_a_batch_are_refused() -> None:
    """A record that replicas refuse to fetch would end the quorum."""
    large = tuple(QuorumEndpoint(name, "h" * 30_000, 9_000) for name in ("CONTROLLER", *map(str, range(40))))
    leader = Leader(2)
    assert leader.ask(ms.AddRaftVoterRequest(NOT_VOTER._replace(endpoints=large))) == ErrorCode.INVALID_REQUEST
    assert leader.ask(UPDATE(leader.core.epoch, voter(2)._replace(endpoints=large))) == ErrorCode.INVALID_REQUEST
    assert leader.ask(UPDATE(leader.core.epoch, voter(2)._replace(endpoints=large[:5]))) == ErrorCode.NONE
