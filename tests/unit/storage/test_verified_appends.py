"""What a log asks of the first batch of a transaction, and of markers that raise the epoch."""

from __future__ import annotations

import pytest

from support.logs.builders import SimLog, in_transaction, marker, placed, produced_by
from tailrace.model.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TailraceError,
)
from tailrace.storage.origin import Origin
from tailrace.storage.verification import NO_GUARD, VerificationGuard

PRODUCER = 7


@pytest.fixture
def sim() -> SimLog:
    return SimLog(verifies_transactions=True)


def begin(sim: SimLog, *, epoch: int = 0, sequence: int = 0, bumps: bool = True) -> None:
    guard = sim.log.start_verification(PRODUCER, sequence, epoch, bumps)
    assert error_of(sim, in_transaction(PRODUCER, sequence, epoch=epoch), guard=guard) is None


def end(sim: SimLog, *, epoch: int, transaction_version: int, commit: bool = True) -> TailraceError | None:
    data = marker(PRODUCER, commit=commit, epoch=epoch)
    (result,) = sim.log.append_as_leader(
        [data], 0, Origin.COORDINATOR, NO_GUARD, transaction_version=transaction_version
    )
    return result.error


def error_of(
    sim: SimLog, data: bytearray, origin: Origin = Origin.CLIENT, guard: VerificationGuard = NO_GUARD
) -> TailraceError | None:
    (result,) = sim.log.append_as_leader([data], 0, origin, guard)
    return result.error


class TestTheFirstBatch:
    @pytest.mark.spec("CO-09")
    @pytest.mark.parametrize("origin", [Origin.CLIENT, Origin.COORDINATOR])
    def test_it_needs_the_guard_whoever_writes_it(self, sim: SimLog, origin: Origin) -> None:
        """A coordinator's are the offsets that are committed in a transaction."""
        assert isinstance(error_of(sim, in_transaction(PRODUCER, 0), origin), InvalidTxnStateError)
        assert sim.log.log_end_offset == 0
        guard = sim.log.start_verification(PRODUCER, 0, 0, False)
        assert error_of(sim, in_transaction(PRODUCER, 0), origin, guard) is None
        assert error_of(sim, in_transaction(PRODUCER, 1), origin) is None  # it is open now

    def test_nobody_else_is_asked_for_one(self, sim: SimLog) -> None:
        assert error_of(sim, produced_by(PRODUCER, 0)) is None
        assert end(sim, epoch=0, transaction_version=0) is None
        sim.log.append_as_follower(placed(in_transaction(8, 0), sim.log.log_end_offset))

    @pytest.mark.spec("CO-09")
    @pytest.mark.parametrize("bumps", [False, True])
    def test_an_answer_from_before_the_end_opens_nothing_after_it(self, sim: SimLog, bumps: bool) -> None:
        guard = sim.log.start_verification(PRODUCER, 0, 0, bumps)
        assert end(sim, epoch=1, transaction_version=2 if bumps else 0, commit=False) is None
        error = error_of(sim, in_transaction(PRODUCER, 0), guard=guard)
        assert isinstance(error, InvalidProducerEpochError)
        assert not sim.log.producers.ongoing

    @pytest.mark.spec("CO-09")
    @pytest.mark.parametrize("epoch", [1, 2])
    def test_nor_where_an_older_client_has_taken_over(self, sim: SimLog, epoch: int) -> None:
        """Its marker has the epoch of the very transaction that it ends; a newer client's had not."""
        sim.log.start_verification(PRODUCER, 0, 1, True)
        guard = sim.log.start_verification(PRODUCER, 0, epoch, False)
        assert end(sim, epoch=epoch, transaction_version=0, commit=False) is None
        error = error_of(sim, in_transaction(PRODUCER, 0, epoch=epoch), guard=guard)
        assert isinstance(error, InvalidTxnStateError)
        assert not sim.log.producers.ongoing

    @pytest.mark.spec("CO-09")
    def test_a_guard_serves_once(self, sim: SimLog) -> None:
        guard = sim.log.start_verification(PRODUCER, 0, 0, False)
        assert error_of(sim, in_transaction(PRODUCER, 0), guard=guard) is None
        assert end(sim, epoch=0, transaction_version=0) is None
        assert isinstance(error_of(sim, in_transaction(PRODUCER, 1), guard=guard), InvalidTxnStateError)
        assert not sim.log.producers.ongoing

    def test_an_epoch_that_is_over_is_told_before_anything_is_verified(self, sim: SimLog) -> None:
        begin(sim, epoch=2)
        assert end(sim, epoch=3, transaction_version=2) is None
        with pytest.raises(InvalidProducerEpochError, match="epoch 2 of producer 7 is lower than 3"):
            sim.log.start_verification(PRODUCER, 1, 2, True)
        assert isinstance(error_of(sim, in_transaction(PRODUCER, 1, epoch=2)), InvalidProducerEpochError)

    def test_with_a_new_epoch_for_each_transaction_it_begins_with_sequence_0(self, sim: SimLog) -> None:
        guard = sim.log.start_verification(PRODUCER, 3, 0, True)
        assert isinstance(error_of(sim, in_transaction(PRODUCER, 3), guard=guard), OutOfOrderSequenceError)

    def test_verification_can_be_switched_off_and_on(self, sim: SimLog) -> None:
        sim.log.producers.verifies_transactions = False
        assert error_of(sim, in_transaction(PRODUCER, 0)) is None
        sim.log.producers.verifies_transactions = True
        assert isinstance(error_of(sim, in_transaction(8, 0)), InvalidTxnStateError)


class TestMarkersThatRaiseTheEpoch:
    def test_the_epoch_of_the_data_does_not_end_it(self, sim: SimLog) -> None:
        begin(sim)
        assert isinstance(end(sim, epoch=0, transaction_version=2), InvalidProducerEpochError)
        assert len(sim.log.producers.ongoing) == 1
        assert end(sim, epoch=1, transaction_version=2) is None
        assert not sim.log.producers.ongoing

    @pytest.mark.parametrize("transaction_version", [0, 1])
    def test_before_version_2_it_does(self, sim: SimLog, transaction_version: int) -> None:
        begin(sim, bumps=False)
        assert end(sim, epoch=0, transaction_version=transaction_version) is None
        assert not sim.log.producers.ongoing

    def test_the_same_marker_may_come_again(self, sim: SimLog) -> None:
        begin(sim)
        assert end(sim, epoch=1, transaction_version=2) is None
        assert end(sim, epoch=1, transaction_version=2) is None

    @pytest.mark.spec("CO-09")
    def test_one_that_comes_late_does_not_end_the_next_transaction(self, sim: SimLog) -> None:
        begin(sim)
        assert end(sim, epoch=1, transaction_version=2) is None
        begin(sim, epoch=1)
        assert isinstance(end(sim, epoch=1, transaction_version=2), InvalidProducerEpochError)
        assert len(sim.log.producers.ongoing) == 1
