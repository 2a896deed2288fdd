"""Single steps of the consensus core that a scenario cannot express: crafted responses, late ones, limits of time."""

from __future__ import annotations

from support.consensus.single_replica import LOCAL, VOTERS, Replica, fetched
from tailrace.model.ids import DirectoryId
from tailrace.raft.consensus import ConsensusConfig, ErrorCode, LogRun, StoredLog
from tailrace.raft.consensus import effects as fx
from tailrace.raft.consensus import messages as ms
from tailrace.raft.consensus.effects import RoleName
from tailrace.raft.quorum_state import QuorumState
from tailrace.raft.snapshot import SnapshotId


def test_batches_above_the_epoch_of_the_fetch_are_not_appended() -> None:
    replica = Replica()
    fetch = replica.follow(2, epoch=5)
    replica.answer(fetch, fetched(5, LogRun(0, 3, 4), LogRun(3, 4, 5), LogRun(4, 9, 6)))
    assert replica.of(fx.AppendFetched) == [fx.AppendFetched(fetch.correlation_id, 4)]
    assert replica.core.end_offset == 4


def test_batches_that_do_not_continue_the_log_are_not_appended() -> None:
    replica = Replica()
    for runs in ((LogRun(1, 3, 5),), (LogRun(0, 0, 5),), (LogRun(0, 2, 5), LogRun(3, 4, 5))):
        replica = Replica()
        replica.answer(replica.follow(2, epoch=5), fetched(5, *runs))
        assert replica.core.end_offset in (0, 2)


def test_response_counts_once() -> None:
    replica = Replica()
    fetch = replica.follow(2, epoch=5)
    replica.answer(fetch, fetched(5, LogRun(0, 3, 5)))
    replica.answer(fetch, fetched(5, LogRun(3, 6, 5)))
    assert replica.core.end_offset == 3


def test_response_to_a_fetch_of_an_earlier_epoch_is_ignored() -> None:
    replica = Replica()
    fetch = replica.follow(2, epoch=5)
    replica.follow(3, epoch=6)
    replica.answer(fetch, fetched(5, LogRun(0, 3, 5)))
    assert replica.core.end_offset == 0


def test_next_fetch_waits_for_the_flush() -> None:
    replica = Replica()
    fetch = replica.follow(2, epoch=5)
    replica.is_slow = True
    replica.effects.clear()
    replica.answer(fetch, fetched(5, LogRun(0, 3, 5), high_watermark=2))
    assert replica.sent(ms.FetchRequest) == []
    assert replica.core.high_watermark == 2
    (flush,) = replica.of(fx.FlushLog)
    assert isinstance(flush, fx.FlushLog)
    replica.run(replica.core.persisted(flush.number, 0))
    (following,) = replica.sent(ms.FetchRequest)
    assert isinstance(following.request, ms.FetchRequest)
    assert (following.request.offset, following.request.high_watermark) == (3, 2)


def test_pre_vote_that_a_voter_does_not_know_is_skipped() -> None:
    replica = Replica()
    replica.after(2_000)
    assert replica.core.role is RoleName.PROSPECTIVE
    replica.answer(replica.sent(ms.VoteRequest)[0], ms.VoteResponse(ErrorCode.UNSUPPORTED_VERSION))
    assert (replica.core.role, replica.core.epoch) == (RoleName.CANDIDATE, 1)


def prospective(node_id: int) -> Replica:
    """This node of the quorum at the start of its first round of pre-votes."""
    replica = Replica(local=VOTERS[node_id - 1]._replace(directory_id=LOCAL.directory_id))
    replica.after(2_000)
    assert replica.core.role is RoleName.PROSPECTIVE
    return replica


def pre_vote(replica: Replica, candidate: int, epoch: int = 0) -> bool:
    """Whether the replica grants it."""
    request = ms.VoteRequest(epoch, ms.ReplicaKey(candidate), None, 0, 0, True)
    return is_granted(replica, request)


def is_granted(replica: Replica, request: ms.VoteRequest) -> bool:
    replica.run(replica.core.receive(9, request, replica.now_ms))
    response = replica.of(fx.Respond)[-1]
    assert isinstance(response, fx.Respond)
    assert isinstance(response.response, ms.VoteResponse)
    return response.response.is_granted


def grant(replica: Replica, voter: int) -> None:
    sent = next(each for each in replica.sent(ms.VoteRequest) if each.node_id == voter)
    replica.answer(sent, ms.VoteResponse(ErrorCode.NONE, ms.Leadership(-1, replica.core.epoch), is_granted=True))


def test_voter_that_granted_a_pre_vote_to_a_lower_id_becomes_a_candidate_after_half_the_election_timeout() -> None:
    replica = prospective(2)
    assert pre_vote(replica, 1)
    grant(replica, 3)
    assert replica.core.role is RoleName.PROSPECTIVE
    assert replica.core.next_deadline_ms() == replica.now_ms + 500
    replica.after(499)
    assert pre_vote(replica, 1)  # it does not wait longer for one that asks again and again
    assert replica.core.role is RoleName.PROSPECTIVE
    replica.after(1)
    assert replica.core.role is RoleName.CANDIDATE


def test_voter_that_waits_for_another_candidate_votes_for_it() -> None:
    replica = prospective(2)
    assert pre_vote(replica, 1)
    grant(replica, 3)
    assert is_granted(replica, ms.VoteRequest(1, ms.ReplicaKey(1), None, 0, 0))
    assert (replica.core.role, replica.core.epoch) == (RoleName.UNATTACHED, 1)


def test_voter_that_waits_becomes_a_candidate_when_its_round_ends() -> None:
    replica = prospective(2)
    replica.after(700)
    assert pre_vote(replica, 1)
    grant(replica, 3)
    replica.after(499)
    assert replica.core.role is RoleName.PROSPECTIVE
    replica.after(1_000)
    assert replica.core.role is RoleName.CANDIDATE


def test_pre_vote_to_a_higher_id_or_to_no_voter_delays_no_candidate() -> None:
    for other in (3, 0):
        replica = prospective(2)
        assert pre_vote(replica, other)
        grant(replica, 3)
        assert replica.core.role is RoleName.CANDIDATE


def test_pre_vote_of_an_earlier_epoch_delays_no_candidate() -> None:
    replica = prospective(2)
    round_ms = replica.core.next_deadline_ms() - replica.now_ms
    replica.after(round_ms - 100)
    assert pre_vote(replica, 1)
    assert pre_vote(replica, 3, epoch=4)
    replica.effects.clear()
    replica.after(100)
    assert (replica.core.role, replica.core.epoch) == (RoleName.PROSPECTIVE, 4)
    grant(replica, 3)
    assert replica.core.role is RoleName.CANDIDATE


def test_vote_names_the_receiver() -> None:
    replica = Replica()
    replica.after(2_000)
    receivers = {send.node_id: send.request.voter for send in replica.sent(ms.VoteRequest)}  # type: ignore[union-attr]
    assert {node_id: voter.node_id for node_id, voter in receivers.items() if voter} == {2: 2, 3: 3}


def test_request_that_is_not_answered_is_sent_again_after_the_timeout_and_a_pause() -> None:
    replica = Replica()
    replica.follow(2, epoch=5)
    replica.effects.clear()
    replica.after(1_999)
    assert replica.sent(ms.FetchRequest) == []
    assert replica.core.next_deadline_ms() == 2_000


def test_leader_of_an_earlier_life_does_not_lead_again() -> None:
    log = StoredLog(0, 4, ((3, 0),))
    replica = Replica(log, QuorumState(3, leader_id=1, voted_id=1))
    assert (replica.core.role, replica.core.epoch, replica.core.leadership.leader_id) == (RoleName.UNATTACHED, 3, -1)
    replica.run(replica.core.receive(9, ms.VoteRequest(3, ms.ReplicaKey(2), None, 2, 99), 0))
    response = replica.effects[-1]
    assert isinstance(response, fx.Respond)
    assert isinstance(response.response, ms.VoteResponse)
    assert not response.response.is_granted


def test_epoch_of_the_log_counts_when_the_file_has_a_lower_one() -> None:
    replica = Replica(StoredLog(0, 4, ((7, 0),)), QuorumState(3, voted_id=2))
    assert replica.core.epoch == 7
    assert replica.of(fx.PersistElection)


def test_damaged_snapshot_is_fetched_again() -> None:
    replica = Replica()
    fetch = replica.follow(2, epoch=5)
    snapshot_id = SnapshotId(40, 4)
    leadership = ms.Leadership(2, 5)
    replica.answer(fetch, ms.FetchResponse(ErrorCode.NONE, leadership, 40, 40, snapshot_id=snapshot_id))
    (chunk,) = replica.sent(ms.FetchSnapshotRequest)
    replica.answer(chunk, ms.FetchSnapshotResponse(ErrorCode.NONE, leadership, snapshot_id, 10, 0, 10))
    assert replica.of(fx.InstallSnapshot) == [fx.InstallSnapshot(snapshot_id)]
    replica.effects.clear()
    replica.after(3_000)
    assert replica.core.role is RoleName.FOLLOWER, "a log that is being replaced must not become that of a leader"
    replica.run(replica.core.snapshot_failed(snapshot_id, replica.now_ms))
    assert replica.core.end_offset == 0


def test_installed_snapshot_replaces_the_log_and_is_committed() -> None:
    replica = Replica(StoredLog(0, 4, ((1, 0),)))
    fetch = replica.follow(2, epoch=5)
    snapshot_id, leadership = SnapshotId(40, 4), ms.Leadership(2, 5)
    replica.answer(fetch, ms.FetchResponse(ErrorCode.NONE, leadership, 40, 40, snapshot_id=snapshot_id))
    (chunk,) = replica.sent(ms.FetchSnapshotRequest)
    replica.answer(chunk, ms.FetchSnapshotResponse(ErrorCode.NONE, leadership, snapshot_id, 10, 0, 10))
    replica.run(replica.core.snapshot_installed(snapshot_id, 1, VOTERS[:2], 0))
    assert (replica.core.end_offset, replica.core.high_watermark) == (40, 40)
    assert replica.core.voters.node_ids == (1, 2)
    (following,) = [send.request for send in replica.sent(ms.FetchRequest)][-1:]
    assert isinstance(following, ms.FetchRequest)
    assert (following.offset, following.last_epoch) == (40, 4)


def test_chunk_of_another_position_abandons_the_snapshot() -> None:
    replica = Replica()
    fetch = replica.follow(2, epoch=5)
    snapshot_id, leadership = SnapshotId(40, 4), ms.Leadership(2, 5)
    replica.answer(fetch, ms.FetchResponse(ErrorCode.NONE, leadership, 40, 40, snapshot_id=snapshot_id))
    (chunk,) = replica.sent(ms.FetchSnapshotRequest)
    replica.answer(chunk, ms.FetchSnapshotResponse(ErrorCode.NONE, leadership, snapshot_id, 10, 5, 5))
    assert replica.of(fx.AbandonSnapshot) == [fx.AbandonSnapshot(snapshot_id)]
    assert replica.of(fx.WriteSnapshot) == []


def leading() -> Replica:
    """Node 1, elected by node 2, with a committed epoch."""
    replica = Replica()
    replica.after(2_000)
    replica.answer(replica.sent(ms.VoteRequest)[0], ms.VoteResponse(ErrorCode.NONE, ms.Leadership(-1, 0), True))
    replica.answer(replica.sent(ms.VoteRequest)[-1], ms.VoteResponse(ErrorCode.NONE, ms.Leadership(-1, 1), True))
    replica.run(replica.core.receive(50, ms.FetchRequest(ms.ReplicaKey(2), 1, 1, 1), replica.now_ms))
    assert replica.core.may_append
    return replica


def test_replica_waits_with_one_fetch_at_a_time_and_not_for_ever() -> None:
    replica = leading()
    for request_id in (51, 52):
        fetch = ms.FetchRequest(ms.ReplicaKey(3), 1, 1, 1, max_wait_ms=2**31 - 1)
        replica.run(replica.core.receive(request_id, fetch, replica.now_ms))
    assert [each.request_id for each in replica.of(fx.Respond)][-1] == 51  # type: ignore[attr-defined]
    replica.after(2_000)
    assert [each.request_id for each in replica.of(fx.Respond)][-1] == 52  # type: ignore[attr-defined]


def test_leader_describes_itself_as_caught_up() -> None:
    replica = leading()
    voters, observers = replica.core.replicas()
    assert {state.key.node_id: state.end_offset for state in voters} == {1: 1, 2: 1, 3: -1}
    assert observers == []


def test_static_voters_are_listed_without_their_directories() -> None:
    replica = leading()
    fetch = ms.FetchRequest(ms.ReplicaKey(3, DirectoryId(bytes([3] * 16))), 1, 1, 1)
    replica.run(replica.core.receive(9, fetch, replica.now_ms))
    voters, _ = replica.core.replicas()
    assert {state.key for state in voters} == {ms.ReplicaKey(1), ms.ReplicaKey(2), ms.ReplicaKey(3)}
    assert {state.key.node_id: state.end_offset for state in voters}[3] == 1


def test_last_epoch_is_never_taken_from_a_message() -> None:
    replica = Replica()
    replica.run(replica.core.receive(1, ms.BeginQuorumEpochRequest(2**31 - 1, 2, None), 0))
    replica.run(replica.core.receive(2, ms.VoteRequest(2**31 - 1, ms.ReplicaKey(2), None, 0, 0), 0))
    assert replica.core.epoch == 0


def test_observer_leaves_a_silent_leader_in_the_middle_of_a_snapshot() -> None:
    observer = LOCAL._replace(node_id=4)
    replica = Replica(local=observer)
    fetch = replica.follow(2, epoch=5)
    snapshot_id, leadership = SnapshotId(40, 4), ms.Leadership(2, 5)
    replica.answer(fetch, ms.FetchResponse(ErrorCode.NONE, leadership, 40, 40, snapshot_id=snapshot_id))
    replica.effects.clear()
    replica.after(2_000)
    assert replica.of(fx.AbandonSnapshot) == [fx.AbandonSnapshot(snapshot_id)]
    assert len(replica.sent(ms.FetchRequest)) == 1
    assert replica.core.role is RoleName.FOLLOWER


def test_observer_takes_the_answer_of_its_leader_that_was_asked_as_a_bootstrap_server() -> None:
    replica = Replica(local=LOCAL._replace(node_id=4), config=ConsensusConfig(bootstrap=VOTERS[1].endpoints))
    replica.after(200)
    first = replica.sent(ms.FetchRequest)[-1]
    assert first.node_id < -1
    replica.answer(first, ms.FetchResponse(ErrorCode.FENCED_LEADER_EPOCH, ms.Leadership(2, 5, VOTERS[1].endpoints)))
    replica.effects.clear()
    replica.after(3_000)
    for _ in range(20):
        (asked,) = replica.sent(ms.FetchRequest)
        if asked.node_id < 0:
            break
        replica.effects.clear()
        replica.run(replica.core.failed(asked.correlation_id, replica.now_ms))
        replica.after(20)
    replica.answer(asked, fetched(5, LogRun(0, 3, 5)))
    assert replica.core.end_offset == 3
