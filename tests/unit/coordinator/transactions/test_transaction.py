"""A transaction by itself: which states may follow which, and what becomes of ids and epochs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.coordinator.transactions.state import LEGAL_BEFORE, STATES_BY_TITLE, TransactionState
from tailrace.coordinator.transactions.transaction import LAST_CLIENT_EPOCH, MAX_EPOCH, NO_TIMEOUT, Transaction
from tailrace.model.errors import ProducerFencedError
from tailrace.model.ids import TopicPartition
from tailrace.model.invariant import InvariantError

P0, P1 = TopicPartition("data", 0), TopicPartition("data", 1)
S = TransactionState


def new() -> Transaction:
    return Transaction.new("id", 7, 1000, 50)


def begun() -> Transaction:
    return new().initialised(1000, None, 100)


@pytest.mark.spec("CO-08")
def test_the_table_of_states() -> None:
    legal = {(before, after) for after, befores in LEGAL_BEFORE.items() for before in befores}
    at_rest = {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}
    expected = {(before, after) for before in at_rest for after in (S.EMPTY, S.ONGOING, S.PREPARE_ABORT, S.DEAD)}
    expected |= {(S.ONGOING, after) for after in (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT, S.PREPARE_EPOCH_FENCE)}
    expected |= {(S.PREPARE_COMMIT, S.COMPLETE_COMMIT), (S.PREPARE_ABORT, S.COMPLETE_ABORT)}
    expected |= {(S.PREPARE_EPOCH_FENCE, S.PREPARE_ABORT)}
    assert legal == expected


def test_titles_are_those_of_the_tools() -> None:
    assert set(STATES_BY_TITLE) == {
        *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"),
        *("Dead", "PrepareEpochFence"),
    }


def test_an_illegal_transition_is_a_bug() -> None:
    prepared = begun().with_partitions([P0], 200, 2).prepared(True, 300, 2)
    with pytest.raises(InvariantError, match="PrepareCommit to Ongoing"):
        prepared.with_partitions([P1], 400, 2)
    with pytest.raises(InvariantError, match="Empty to PrepareCommit"):
        begun().prepared(True, 300, 2)


@pytest.mark.spec("CO-07")
def test_the_first_epoch_is_0() -> None:
    transaction = begun()
    assert (transaction.producer_id, transaction.epoch, transaction.last_epoch) == (7, 0, -1)
    assert transaction.state is S.EMPTY
    assert transaction.updated_ms == 100
    assert transaction.start_ms == -1


@pytest.mark.spec("CO-07")
def test_whoever_knows_the_epoch_goes_on_and_may_ask_twice() -> None:
    current = begun()
    raised = current.initialised(2000, 0, 200)
    assert (raised.epoch, raised.last_epoch, raised.timeout_ms) == (1, 0, 2000)
    again = raised.initialised(2000, 0, 300)
    assert (again.epoch, again.last_epoch) == (1, 0)
    with pytest.raises(ProducerFencedError):
        again.initialised(2000, 5, 300)
    taken_over = again.initialised(2000, None, 400)
    assert (taken_over.epoch, taken_over.last_epoch) == (2, -1)
    with pytest.raises(ProducerFencedError):
        taken_over.initialised(2000, 1, 500)


@pytest.mark.spec("CO-08")
def test_partitions_begin_a_transaction_and_add_to_it() -> None:
    one = begun().with_partitions([P0], 200, 2)
    two = one.with_partitions([P1], 300, 2)
    assert (one.state, one.start_ms, one.partitions) == (S.ONGOING, 200, {P0})
    assert (two.state, two.start_ms, two.updated_ms, two.partitions) == (S.ONGOING, 200, 300, {P0, P1})


@pytest.mark.spec("CO-08")
@pytest.mark.parametrize("is_commit", [True, False])
def test_each_end_raises_the_epoch_since_version_2(is_commit: bool) -> None:
    ended = begun().with_partitions([P0], 200, 2).prepared(is_commit, 300, 2)
    assert ended.state is (S.PREPARE_COMMIT if is_commit else S.PREPARE_ABORT)
    assert (ended.epoch, ended.last_epoch, ended.partitions) == (1, 0, {P0})
    complete = ended.completed(400)
    assert complete.state is (S.COMPLETE_COMMIT if is_commit else S.COMPLETE_ABORT)
    assert (complete.producer_id, complete.epoch, complete.partitions) == (7, 1, frozenset())


@pytest.mark.spec("CO-08")
def test_an_end_before_version_2_keeps_the_epoch() -> None:
    complete = begun().with_partitions([P0], 200, 0).prepared(True, 300, 0).completed(400)
    assert (complete.epoch, complete.client_version) == (0, 0)


@pytest.mark.spec("CO-07")
def test_used_up_epochs_bring_another_producer_id() -> None:
    last = begun()._replace(epoch=LAST_CLIENT_EPOCH)
    assert last.is_exhausted
    ended = last.with_partitions([P0], 200, 2).prepared(True, 300, 2, 8)
    assert (ended.producer_id, ended.epoch, ended.next_producer_id) == (7, MAX_EPOCH, 8)
    complete = ended.completed(400)
    assert (complete.producer_id, complete.previous_producer_id, complete.epoch) == (8, 7, 0)
    assert complete.next_producer_id == -1
    rotated = last.rotated(9, 1000, 300, was_expected=True)
    assert (rotated.producer_id, rotated.previous_producer_id, rotated.epoch, rotated.last_epoch) == (9, 7, 0, 32_766)
    assert last.rotated(9, 1000, 300, was_expected=False).last_epoch == -1


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_fenced_producer_has_an_epoch_that_nobody_knows(version: int) -> None:
    fenced = begun().with_partitions([P0], 200, 0).fenced(300, version)
    assert (fenced.state, fenced.epoch) == (S.PREPARE_ABORT, 1)
    assert (fenced.last_epoch, fenced.client_version) == ((0, 2) if version == 2 else (-1, 0))
    at_the_end = begun()._replace(epoch=MAX_EPOCH).with_partitions([P0], 200, 0).fenced(300, version)
    assert at_the_end.epoch == MAX_EPOCH


def test_a_transaction_times_out_unless_it_waits_for_others() -> None:
    ongoing = begun().with_partitions([P0], 200, 2)
    assert not ongoing.has_timed_out(1200)
    assert ongoing.has_timed_out(1201)
    assert not ongoing._replace(timeout_ms=NO_TIMEOUT).has_timed_out(1 << 60)
    assert not begun().has_timed_out(1 << 60)


STEPS = st.lists(st.sampled_from(["init", "add", "commit", "abort", "fence", "complete", "old end"]), max_size=30)


@given(STEPS, st.integers(0, MAX_EPOCH - 1))
def test_ids_with_epochs_never_go_back(steps: list[str], first_epoch: int) -> None:
    """Whatever is done in whatever order: what is legal makes the epoch no smaller, or brings another producer id."""
    current, spare_id = begun()._replace(epoch=first_epoch), 100
    for now_ms, step in enumerate(steps, 1000):
        spare_id += 1
        try:
            after = taken(current, step, now_ms, spare_id)
        except InvariantError:
            continue
        if after.producer_id == current.producer_id:
            assert after.epoch >= current.epoch
        else:
            assert (after.producer_id > current.producer_id, after.epoch) == (True, 0)
        assert 0 <= after.epoch <= MAX_EPOCH
        assert current.state in LEGAL_BEFORE[after.state]
        assert bool(after.partitions) <= (after.state is S.ONGOING or after.state.is_prepared)
        current = after


def taken(current: Transaction, step: str, now_ms: int, spare_id: int) -> Transaction:
    next_id = spare_id if current.is_exhausted else -1
    if step == "init":
        if current.is_exhausted:
            return current.rotated(spare_id, 1000, now_ms, was_expected=False)
        return current.initialised(1000, None, now_ms)
    if step == "add":
        return current.with_partitions([P0], now_ms, 2)
    if step == "fence":
        return current.fenced(now_ms, 2, next_id)
    if step == "complete":
        return current.completed(now_ms)
    return current.prepared(step != "abort", now_ms, 0 if step == "old end" else 2, next_id)
