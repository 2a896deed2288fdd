"""Responses without error that change nothing: the core asks again after a pause, and does not take them for life."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.consensus.single_replica import VOTERS, Replica, fetched
from tailrace.model.ids import DirectoryId
from tailrace.raft.consensus import ConsensusConfig, ErrorCode, LogRun, StoredLog
from tailrace.raft.consensus import effects as fx
from tailrace.raft.consensus import messages as ms
from tailrace.raft.consensus.effects import RoleName
from tailrace.raft.snapshot import SnapshotId
from tailrace.raft.voters import Voter

LOG = StoredLog(0, 10, ((3, 0),))
LEADER = ms.Leadership(2, 5)
NO_LEADER = ms.Leadership(-1, 4)
MAX_ANSWERED = 6
"""As many nodes as there are may be asked at once, some for two things."""


def answered_at_once(replica: Replica, kind: type, response: Callable[[], ms.Response]) -> int:
    """How many requests are sent while time stands still, each of which has this response."""
    answered = 0
    while answered < 50:
        sent = replica.sent(kind)
        if len(sent) == answered:
            return answered
        replica.answer(sent[answered], response())
        answered += 1
    return answered


def follower() -> Replica:
    """Its only effect so far is its first fetch."""
    replica = Replica(LOG)
    replica.effects = [replica.follow(2, epoch=5)]
    return replica


def leader() -> Replica:
    replica = Replica()
    replica.after(5_000)
    for _ in range(2):
        for sent in replica.sent(ms.VoteRequest):
            replica.answer(sent, ms.VoteResponse(leadership=ms.Leadership(-1, sent.request.epoch), is_granted=True))
    assert replica.core.role is RoleName.LEADER
    return replica


USELESS = {
    "of an earlier epoch": ms.FetchResponse(ErrorCode.UNKNOWN_LEADER_EPOCH, NO_LEADER),
    "without a leader": ms.FetchResponse(leadership=ms.Leadership(-1, 5)),
    "an old snapshot": ms.FetchResponse(leadership=LEADER, snapshot_id=SnapshotId(5, 1)),
    "a snapshot of a later epoch": ms.FetchResponse(leadership=LEADER, snapshot_id=SnapshotId(100, 6)),
    "a divergence above the log": ms.FetchResponse(leadership=LEADER, diverging=ms.EndOffset(4, 20)),
    "records after a gap": fetched(5, LogRun(20, 30, 4)),
    "nothing, too early": fetched(5),
}


@pytest.mark.parametrize("response", USELESS.values(), ids=USELESS.keys())
def test_a_useless_response_to_a_fetch_is_followed_by_a_pause(response: ms.FetchResponse) -> None:
    replica = follower()
    assert answered_at_once(replica, ms.FetchRequest, lambda: response) == 1
    replica.after(20)
    assert len(replica.sent(ms.FetchRequest)) == 2
    assert not replica.of(fx.StartSnapshot)


@pytest.mark.parametrize("response", USELESS.values(), ids=USELESS.keys())
def test_a_leader_that_never_has_a_useful_response_is_left(response: ms.FetchResponse) -> None:
    replica = follower()
    while replica.now_ms < 2_100:
        replica.answer(replica.sent(ms.FetchRequest)[-1], response)
        replica.after(20)
    assert replica.core.role is RoleName.PROSPECTIVE


def test_a_leader_that_waited_for_records_is_alive() -> None:
    replica = follower()
    for _ in range(7):
        sent = replica.sent(ms.FetchRequest)[-1]
        replica.after(500)
        replica.answer(sent, fetched(5))
        assert replica.sent(ms.FetchRequest)[-1] is not sent, "the next fetch follows at once"
    assert replica.core.role is RoleName.FOLLOWER


def test_a_snapshot_that_the_leader_lacks_is_asked_for_after_a_pause() -> None:
    replica = follower()
    replica.answer(
        replica.sent(ms.FetchRequest)[-1], ms.FetchResponse(leadership=LEADER, snapshot_id=SnapshotId(100, 4))
    )
    lacking = ms.FetchSnapshotResponse(ErrorCode.SNAPSHOT_NOT_FOUND, LEADER)
    assert answered_at_once(replica, ms.FetchSnapshotRequest, lambda: lacking) == 1
    assert len(replica.sent(ms.FetchRequest)) == 1
    replica.after(20)
    assert len(replica.sent(ms.FetchRequest)) == 2


def test_an_observer_without_its_leader_asks_nodes_of_earlier_epochs_with_pauses() -> None:
    replica = Replica(local=Voter(9, DirectoryId(bytes([9] * 16)), VOTERS[0].endpoints))
    replica.follow(2, epoch=5)
    replica.after(2_500)
    replica.after(2_500)
    replica.effects = [*replica.sent(ms.FetchRequest)[-1:]]
    response = ms.FetchResponse(ErrorCode.UNKNOWN_LEADER_EPOCH, NO_LEADER)
    assert answered_at_once(replica, ms.FetchRequest, lambda: response) <= MAX_ANSWERED


def test_votes_and_announcements_that_name_an_earlier_epoch_are_repeated_with_pauses() -> None:
    replica = Replica()
    replica.after(5_000)
    assert replica.core.role is RoleName.PROSPECTIVE
    assert answered_at_once(replica, ms.VoteRequest, ms.VoteResponse) <= MAX_ANSWERED
    replica = leader()
    assert answered_at_once(replica, ms.BeginQuorumEpochRequest, ms.BeginQuorumEpochResponse) <= MAX_ANSWERED
    replica.run(replica.core.stop(replica.now_ms))
    assert answered_at_once(replica, ms.EndQuorumEpochRequest, ms.EndQuorumEpochResponse) <= MAX_ANSWERED


def test_an_election_timeout_of_zero_does_not_repeat_rounds_without_an_end() -> None:
    replica = Replica(config=ConsensusConfig(static_voters=VOTERS, election_timeout_ms=0))
    for _ in range(20):
        replica.after(1)
    assert replica.sent(ms.VoteRequest)


def test_requests_that_fail_at_once_are_repeated_with_pauses_whatever_the_backoff() -> None:
    """A leader of which no endpoint is known: the driver fails the request in the step that sends it."""
    replica = Replica(config=ConsensusConfig(static_voters=VOTERS, retry_backoff_ms=0))
    replica.effects = [replica.follow(77, epoch=5)]
    replica.run(replica.core.failed(replica.sent(ms.FetchRequest)[-1].correlation_id, replica.now_ms))
    assert len(replica.sent(ms.FetchRequest)) == 1
    replica.after(1)
    assert len(replica.sent(ms.FetchRequest)) == 2


def test_a_second_answer_does_not_start_the_snapshot_again() -> None:
    """An observer that lost its leader has asked two nodes, and both requests reach the leader."""
    replica = Replica(local=Voter(9, DirectoryId(bytes([9] * 16)), VOTERS[0].endpoints))
    replica.follow(2, epoch=5)
    replica.after(2_500)
    replica.after(100)
    first, second = replica.sent(ms.FetchRequest)[-2:]
    needs_snapshot = ms.FetchResponse(leadership=LEADER, snapshot_id=SnapshotId(100, 4))
    replica.answer(first, needs_snapshot)
    chunk = ms.FetchSnapshotResponse(ErrorCode.NONE, LEADER, SnapshotId(100, 4), 10, 0, 10)
    replica.answer(replica.sent(ms.FetchSnapshotRequest)[-1], chunk)
    assert replica.of(fx.InstallSnapshot)
    replica.answer(second, needs_snapshot)
    assert len(replica.of(fx.StartSnapshot)) == 1
