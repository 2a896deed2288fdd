"""Which batches are aborted and which markers are of use, batch by batch."""

from __future__ import annotations

import pytest

from support.logs.builders import in_transaction, marker, placed
from tailrace.record.control import ABORT, COMMIT, LEADER_CHANGE, ControlRecord
from tailrace.record.shallow import ShallowBatch, next_batch
from tailrace.storage.compaction.transactions import SeenTransactions
from tailrace.storage.transaction_index import AbortedTxn

COMMITTED = ControlRecord(COMMIT, 0)
ABORTED = ControlRecord(ABORT, 0)


def data(producer_id: int, offset: int) -> ShallowBatch:
    return shallow(placed(in_transaction(producer_id, 0), offset))


def end(producer_id: int, offset: int) -> ShallowBatch:
    return shallow(placed(marker(producer_id, commit=True), offset))


def shallow(raw: bytearray) -> ShallowBatch:
    found = next_batch(raw, 0, len(raw))
    assert found is not None
    return found


@pytest.mark.spec("LM-42", "LM-21")
def test_transactions_of_several_producers_at_once() -> None:
    first, second = AbortedTxn(1, 0, 4, 5), AbortedTxn(1, 7, 8, 9)
    seen = SeenTransactions([second, first])
    assert seen.is_aborted(data(1, 0))
    assert not seen.is_aborted(data(2, 1))
    assert seen.is_aborted(data(1, 2))
    assert seen.ended_by(end(2, 3), COMMITTED) == (False, None)
    assert seen.ended_by(end(1, 4), ABORTED) == (False, first)
    assert not seen.is_aborted(data(1, 5))
    assert seen.ended_by(end(1, 6), COMMITTED) == (False, None)
    assert seen.is_aborted(data(1, 7))
    assert seen.ended_by(end(1, 8), ABORTED) == (False, second)


@pytest.mark.spec("LM-21")
def test_a_marker_without_batches_before_it_is_of_no_use() -> None:
    seen = SeenTransactions([AbortedTxn(1, 0, 4, 5)])
    assert seen.ended_by(end(2, 3), COMMITTED) == (True, None)
    assert seen.ended_by(end(1, 4), ABORTED) == (True, None)
    assert seen.ended_by(end(1, 5), None) == (True, None)
    assert seen.ended_by(end(3, 6), ControlRecord(LEADER_CHANGE, None)) == (False, None)


def test_a_lost_marker_does_not_abort_what_comes_later() -> None:
    seen = SeenTransactions([AbortedTxn(1, 0, 4, 5)])
    assert seen.is_aborted(data(1, 3))
    assert not seen.is_aborted(data(1, 5))
    assert seen.ended_by(end(1, 6), COMMITTED) == (False, None)
