"""Parts of the consensus core that decide alone: the view of the log, progress of replicas, voter sets, ballots."""

from __future__ import annotations

import pytest

from tailrace.model.ids import DirectoryId
from tailrace.model.invariant import InvariantError
from tailrace.raft.consensus.log_view import Diverging, LogView, NeedsSnapshot, Valid
from tailrace.raft.consensus.messages import EndOffset, ReplicaKey, VoterChange
from tailrace.raft.consensus.replica_progress import ReplicaProgress
from tailrace.raft.consensus.roles import Ballot
from tailrace.raft.consensus.voter_log import VoterLog, VoterSet
from tailrace.raft.snapshot import SnapshotId
from tailrace.raft.voters import Voter


def voter_set(*node_ids: int) -> VoterSet:
    return VoterSet(0, 1, tuple(Voter(node_id, directory(node_id)) for node_id in node_ids))


def directory(node_id: int) -> DirectoryId:
    return DirectoryId(bytes([node_id] * 16))


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, directory(node_id))


# The view of the log


@pytest.mark.parametrize(
    ("offset", "epoch", "expected"),
    [
        (0, 0, Valid()),
        (5, 1, Valid()),
        (10, 1, Valid()),
        (11, 1, Diverging(EndOffset(1, 10))),
        (10, 2, Diverging(EndOffset(1, 10))),
        (12, 3, Valid()),
        (21, 3, Diverging(EndOffset(3, 20))),
        (5, 7, Diverging(EndOffset(3, 20))),
        (5, 0, Diverging(EndOffset(0, 0))),
    ],
)
def test_position_in_a_log_without_snapshot(offset: int, epoch: int, expected: object) -> None:
    view = LogView(0, 20, [(1, 0), (3, 10)])
    assert view.position(offset, epoch) == expected


@pytest.mark.parametrize(
    ("offset", "epoch", "expected"),
    [
        (0, 0, NeedsSnapshot(SnapshotId(15, 3))),
        (9, 2, NeedsSnapshot(SnapshotId(15, 3))),
        (10, 1, NeedsSnapshot(SnapshotId(15, 3))),
        (10, 2, Valid()),
        (12, 1, NeedsSnapshot(SnapshotId(15, 3))),
        (12, 3, Valid()),
        (12, 2, Diverging(EndOffset(2, 10))),
    ],
)
def test_position_in_a_log_that_begins_with_a_snapshot(offset: int, epoch: int, expected: object) -> None:
    view = LogView(10, 20, [(3, 10)], [SnapshotId(10, 2), SnapshotId(15, 3)])
    assert view.position(offset, epoch) == expected


def test_bootstrap_snapshot_is_not_fetched() -> None:
    assert LogView(0, 3, [(1, 0)], [SnapshotId(0, 0)]).position(0, 0) == Valid()


@pytest.mark.parametrize(
    ("diverging", "expected"),
    [
        (EndOffset(1, 5), 5),
        (EndOffset(1, 30), 10),
        (EndOffset(2, 15), 10),
        (EndOffset(3, 15), 15),
        (EndOffset(9, 15), 20),
        (EndOffset(0, 0), 0),
    ],
)
def test_follower_truncates_where_the_epoch_ends_in_either_log(diverging: EndOffset, expected: int) -> None:
    assert LogView(0, 20, [(1, 0), (3, 10)]).truncation_offset(diverging) == expected


def test_truncation_forgets_epochs_and_what_was_flushed() -> None:
    view = LogView(0, 20, [(1, 0), (3, 10)])
    view.truncate(10)
    assert (view.end_offset, view.flushed_offset, view.last_epoch) == (10, 10, 1)
    view.append(12, 4)
    assert (view.epoch_at(11), view.epoch_at(9), view.is_flushed) == (4, 1, False)


def test_epochs_of_a_log_never_go_back() -> None:
    view = LogView(0, 20, [(1, 0), (3, 10)])
    with pytest.raises(InvariantError):
        view.append(21, 2)


def test_trimming_keeps_the_epoch_at_the_start() -> None:
    view = LogView(0, 20, [(1, 0), (3, 10)], [SnapshotId(15, 3)])
    view.trim(15, [SnapshotId(15, 3)])
    assert (view.start_offset, view.epochs) == (15, [(3, 15)])
    view.replace_by_snapshot(SnapshotId(40, 7))
    assert (view.start_offset, view.end_offset, view.last_epoch) == (40, 40, 7)


# Progress


@pytest.mark.parametrize(
    ("fetched", "flushed", "expected"),
    [
        ({}, 9, -1),
        ({2: 7}, 9, 7),
        ({2: 7}, 5, 5),
        ({2: 7, 3: 8}, 9, 8),
        ({2: 7, 3: 8}, 5, 7),
    ],
)
def test_high_watermark_of_three_voters_counts_what_the_leader_has_flushed(
    fetched: dict[int, int], flushed: int, expected: int
) -> None:
    progress = ReplicaProgress(key(1), voter_set(1, 2, 3))
    for node_id, offset in fetched.items():
        progress.state_of(key(node_id)).on_fetch(offset, 9, 0)
    assert progress.high_watermark(flushed) == expected


def test_removed_leader_is_not_counted() -> None:
    progress = ReplicaProgress(key(1), voter_set(1, 2, 3))
    progress.state_of(key(2)).on_fetch(7, 9, 0)
    progress.set_voters(voter_set(2, 3))
    assert progress.high_watermark(9) == -1
    progress.state_of(key(3)).on_fetch(8, 9, 0)
    assert progress.high_watermark(9) == 7


def test_replica_in_another_directory_is_an_observer() -> None:
    progress = ReplicaProgress(key(1), voter_set(1, 2, 3))
    replaced = ReplicaKey(2, directory(9))
    progress.state_of(replaced).on_fetch(9, 9, 0)
    assert progress.high_watermark(9) == -1
    assert not progress.is_voter(replaced)
    assert not progress.has_majority_fetched(replaced)
    assert progress.has_majority_fetched(key(2))


def test_observer_is_caught_up_when_it_has_what_the_leader_had_at_its_last_fetch() -> None:
    progress = ReplicaProgress(key(1), voter_set(1))
    observer = progress.state_of(key(4))
    observer.on_fetch(5, 10, 1_000)
    assert not progress.is_caught_up(key(4), 1_000)
    observer.on_fetch(10, 20, 2_000)
    assert observer.last_caught_up_ms == 1_000
    assert progress.is_caught_up(key(4), 2_000)
    assert not progress.is_caught_up(key(4), 2_000 + 3_600_000)


def test_observer_is_forgotten_after_five_minutes() -> None:
    progress = ReplicaProgress(key(1), voter_set(1))
    progress.state_of(key(4)).on_fetch(5, 10, 1_000)
    progress.forget_observers(300_999)
    assert key(4) in progress.observers
    progress.forget_observers(301_000)
    assert not progress.observers


def test_successors_are_sorted_by_their_logs() -> None:
    progress = ReplicaProgress(key(1), voter_set(1, 2, 3, 4))
    progress.state_of(key(3)).on_fetch(8, 9, 0)
    progress.state_of(key(4)).on_fetch(9, 9, 0)
    assert [successor.node_id for successor in progress.successors()] == [4, 3, 2]


# Voters and ballots


def test_voter_set_reverts_when_its_record_is_truncated() -> None:
    log = VoterLog.configured((Voter(1),))
    log.append(VoterChange(5, kraft_version=1))
    log.append(VoterChange(6, voters=voter_set(1, 2).voters))
    assert log.latest.node_ids == (1, 2)
    log.truncate(6)
    assert (log.latest.node_ids, log.latest.kraft_version) == ((1,), 1)
    log.truncate(0)
    assert log.latest.kraft_version == 0


def test_ballot_needs_a_majority_of_the_voters_and_ignores_others() -> None:
    ballot = Ballot(voter_set(1, 2, 3), 1)
    ballot.record(7, True)
    assert not ballot.is_won
    ballot.record(2, False)
    assert not ballot.is_lost
    ballot.record(3, False)
    assert ballot.is_lost
    ballot.record(3, True)
    assert ballot.is_won


def test_rejection_does_not_count_after_the_voter_is_asked_again() -> None:
    ballot = Ballot(voter_set(1, 2, 3), 1)
    ballot.record(2, False)
    ballot.ask_again(2)
    assert ballot.unrecorded == [2, 3]
    ballot.ask_again(3)
    ballot.record(3, False)  # it was under way
    assert ballot.unrecorded == [2, 3]
    ballot.record(3, False)
    ballot.record(2, False)
    assert ballot.is_lost


def test_only_a_voter_is_asked_again() -> None:
    ballot = Ballot(voter_set(1, 2, 3), 1)
    ballot.ask_again(7)
    assert ballot.unrecorded == [2, 3]


def test_grant_counts_after_the_voter_is_asked_again() -> None:
    ballot = Ballot(voter_set(1, 2, 3), 1)
    ballot.ask_again(2)
    ballot.record(2, True)
    assert ballot.is_won


def test_ballot_of_a_removed_node_does_not_count_its_own_vote() -> None:
    ballot = Ballot(voter_set(2, 3), 1)
    ballot.record(2, True)
    assert not ballot.is_won
    ballot.record(3, True)
    assert ballot.is_won


def test_static_voter_with_a_new_disk_is_still_counted() -> None:
    progress = ReplicaProgress(key(1), VoterSet(-1, 0, (Voter(1), Voter(2))))
    progress.state_of(key(2)).on_fetch(7, 9, 0)
    progress.state_of(ReplicaKey(2, directory(9))).on_fetch(3, 9, 0)
    assert progress.high_watermark(9) == 3
    assert not progress.observers
