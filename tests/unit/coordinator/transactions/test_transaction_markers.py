"""Markers of prepared transactions: sent until every partition has answered, also by the next coordinator."""

from __future__ import annotations

import pytest

from support.coordinators.replica_pair import refusal
from support.coordinators.transactions import ID, P0, P1, TransactionPair
from tailrace.coordinator.timers import RETRY_MS
from tailrace.coordinator.transactions.decisions import ProducerKey
from tailrace.coordinator.transactions.markers import FIRST_WAIT_MS, LONGEST_WAIT_MS
from tailrace.coordinator.transactions.state import TransactionState
from tailrace.model.errors import (
    ConcurrentTransactionsError,
    InvalidProducerEpochError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    TransactionCoordinatorFencedError,
    UnknownTopicOrPartitionError,
    UnsupportedForMessageFormatError,
)

S = TransactionState


def begun(**options: str) -> tuple[TransactionPair, ProducerKey]:
    """A producer with two partitions in its transaction."""
    pair = TransactionPair(**options)
    producer = pair.producer()
    pair.add(producer, P0, P1)
    return pair, producer


@pytest.mark.spec("CO-08")
@pytest.mark.parametrize(
    "error",
    [NotLeaderOrFollowerError, UnknownTopicOrPartitionError, NotEnoughReplicasError, RequestTimedOutError],
)
def test_only_those_that_failed_are_asked_again(error: type[NotLeaderOrFollowerError]) -> None:
    pair, producer = begun()
    pair.codes[P1] = error.code
    assert pair.end(producer) == [(1001, 1)], "the decision is all that the client waits for"
    pair.pass_time(FIRST_WAIT_MS)
    assert [partitions for *_, partitions in pair.marked()] == [(P0, P1), (P1,)]
    assert pair.state is S.PREPARE_COMMIT
    assert pair.leader.machine.markers.left(pair.transaction()) == {P1}
    pair.codes.clear()
    pair.pass_time(2 * FIRST_WAIT_MS)
    assert pair.state is S.COMPLETE_COMMIT
    assert pair.leader.machine.markers.left(pair.transaction()) == frozenset()


def test_waits_grow_longer_but_not_for_ever() -> None:
    pair, producer = begun()
    pair.codes = {P0: NotLeaderOrFollowerError.code}
    pair.end(producer)
    for _ in range(100):
        pair.pass_time(100)
    waits = 10_000 // LONGEST_WAIT_MS
    assert waits <= len(pair.orders) <= waits + 8


@pytest.mark.spec("CO-08")
def test_a_deleted_topic_keeps_nobody_waiting() -> None:
    pair, producer = begun()
    pair.codes = {P0: NotLeaderOrFollowerError.code, P1: NotLeaderOrFollowerError.code}
    pair.end(producer)
    assert pair.state is S.PREPARE_COMMIT
    pair.delete_topic()
    pair.pass_time(1000)
    assert pair.state is S.COMPLETE_COMMIT


@pytest.mark.spec("CO-08")
def test_a_topic_that_was_deleted_before_the_end() -> None:
    pair, producer = begun()
    pair.delete_topic()
    assert pair.end(producer) == [(1001, 1)]
    assert (pair.state, pair.orders) == (S.COMPLETE_COMMIT, [])


def test_a_partition_that_takes_no_markers_is_passed_over() -> None:
    pair, producer = begun()
    pair.codes[P0] = UnsupportedForMessageFormatError.code
    pair.end(producer)
    assert pair.state is S.COMPLETE_COMMIT


@pytest.mark.spec("CO-08")
@pytest.mark.parametrize("error", [TransactionCoordinatorFencedError, InvalidProducerEpochError])
def test_a_fenced_coordinator_sends_no_more(error: type[TransactionCoordinatorFencedError]) -> None:
    pair, producer = begun()
    pair.codes[P1] = error.code
    pair.end(producer)
    pair.pass_time(60_000)
    assert len(pair.orders) == 1
    assert pair.state is S.PREPARE_COMMIT
    assert refusal(pair.init()) is ConcurrentTransactionsError


@pytest.mark.spec("CO-08")
@pytest.mark.parametrize("is_commit", [True, False])
def test_the_next_coordinator_finishes_what_is_prepared(is_commit: bool) -> None:
    pair, producer = begun()
    pair.held = []
    pair.end(producer, is_commit)
    late = pair.held
    pair.held = None
    pair.replicate()
    pair.fail_over()
    assert pair.state is (S.COMPLETE_COMMIT if is_commit else S.COMPLETE_ABORT)
    first, second = pair.orders
    assert second == first._replace(coordinator_epoch=first.coordinator_epoch + 1)
    for answer in late:  # to the one before
        answer()
    assert pair.end(producer, is_commit) == [(1001, 1)], "a client that comes again is told the same"


@pytest.mark.spec("CO-08")
def test_what_is_loaded_and_not_yet_committed_is_waited_for() -> None:
    pair = TransactionPair(in_sync=(1, 2))
    answers = pair.init()
    pair.replicate()
    pair.add(answers[0], P0, P1)
    pair.end(answers[0])
    pair.copy_to_follower()
    pair.fail_over()
    assert (pair.state, pair.orders) == (S.PREPARE_COMMIT, []), "it does not know yet that the decision is committed"
    pair.replicate()
    assert len(pair.orders) == 1
    pair.replicate()
    assert pair.state is S.COMPLETE_COMMIT


@pytest.mark.spec("CO-08")
def test_what_is_under_way_goes_on_with_the_next_coordinator() -> None:
    pair, producer = begun()
    pair.replicate()
    pair.fail_over()
    assert pair.state is S.ONGOING
    assert pair.end(producer) == [(1001, 1)]
    assert pair.marked() == [(1001, 1, True, (P0, P1))]


def test_nothing_is_sent_after_the_coordinator_has_gone() -> None:
    pair, producer = begun()
    pair.codes = {P0: NotLeaderOrFollowerError.code}
    pair.end(producer)
    gone = pair.leader
    pair.fail_over()  # to one that knows nothing of it
    count = len(pair.orders)
    pair.pass_time(10_000)
    assert len(pair.orders) == count
    assert list(gone.runtime.machines()) == []


def test_a_completion_that_cannot_be_written_is_tried_again() -> None:
    pair, producer = begun()
    pair.held = []
    pair.end(producer)
    with pair.refused_appends():
        pair.release()
        pair.pass_time(700)
        assert pair.state is S.PREPARE_COMMIT
    pair.pass_time(1000)
    assert pair.state is S.COMPLETE_COMMIT
    assert len(pair.orders) == 1, "the markers are written, only the log was late"


def test_answers_count_once() -> None:
    pair, producer = begun()
    pair.held = []
    pair.end(producer)
    answers = list(pair.held)
    pair.release()
    assert pair.state is S.COMPLETE_COMMIT
    pair.add(ProducerKey(1001, 1), P0)
    for answer in answers:
        answer()
    pair.run()
    assert pair.state is S.ONGOING
    assert len(pair.leader.machine.markers) == 0
    assert ID in pair.leader.machine.ongoing


@pytest.mark.spec("CO-08")
def test_a_completion_that_is_tried_again_is_not_that_of_the_next_transaction() -> None:
    pair = TransactionPair(in_sync=(1, 2), offsets_commit_timeout_ms="3000")
    answers = pair.init()
    pair.replicate()
    first, second = answers[0], answers[0]._replace(epoch=1)
    pair.add(first, P0)
    pair.replicate()
    pair.end(first)
    pair.replicate()
    assert pair.state is S.COMPLETE_COMMIT
    pair.pass_time(3000)  # it is in the log, and has not become known to be committed in time
    pair.replicate()
    pair.held = []
    pair.add(second, P0)
    pair.replicate()
    pair.end(second)
    pair.replicate()
    pair.pass_time(RETRY_MS)
    assert pair.state is S.PREPARE_COMMIT, "no partition has answered yet"
    pair.release()
    assert pair.state is S.COMPLETE_COMMIT
