from __future__ import annotations

import pytest

from tailrace.storage.verification import NO_GUARD, VerificationGuard, VerificationStateEntry, VerificationStates


@pytest.mark.spec("CO-09")
def test_guard_verifies_itself_alone() -> None:
    guard = VerificationGuard()
    assert guard.verifies(guard)
    assert not guard.verifies(VerificationGuard())
    assert not guard.verifies(NO_GUARD)
    assert not NO_GUARD.verifies(guard)


@pytest.mark.spec("CO-09")
def test_no_guard_verifies_nothing_not_even_itself() -> None:
    assert not NO_GUARD.verifies(NO_GUARD)


@pytest.mark.parametrize(
    ("sequence", "epoch", "expected"),
    [
        (3, 2, (3, 2)),  # lower in the same epoch
        (6, 2, (5, 2)),  # higher in the same epoch
        (9, 3, (9, 3)),  # a new epoch counts afresh
        (0, 1, (5, 2)),  # an old epoch is past
    ],
)
def test_lowest_waiting_sequence(sequence: int, epoch: int, expected: tuple[int, int]) -> None:
    entry = VerificationStateEntry(0, 5, 2, supports_epoch_bump=False)
    entry.note_waiting(sequence, epoch, supports_epoch_bump=False)
    assert (entry.lowest_sequence, entry.epoch) == expected


def test_second_batch_joins_the_verification_of_the_first() -> None:
    states = VerificationStates()
    first = states.start(7, 5, 2, supports_epoch_bump=True, now_ms=100)
    second = states.start(7, 4, 2, supports_epoch_bump=True, now_ms=200)
    assert second is first
    assert (first.lowest_sequence, first.timestamp_ms, first.supports_epoch_bump) == (4, 100, True)
    assert states.get(8) is None


@pytest.mark.parametrize(
    ("before", "epoch", "now", "expected"),
    [
        (True, 3, False, False),  # an older client has taken over
        (False, 3, True, True),  # and a newer one
        (True, 1, False, True),  # a late one
    ],
)
def test_what_the_client_does_with_epochs(before: bool, epoch: int, now: bool, expected: bool) -> None:
    states = VerificationStates()
    states.start(7, 0, 2, before, now_ms=0)
    assert states.start(7, 0, epoch, now, now_ms=0).supports_epoch_bump is expected


@pytest.mark.spec("CO-09")
def test_verification_begun_again_has_another_guard() -> None:
    states = VerificationStates()
    stale = states.start(7, 0, 0, supports_epoch_bump=False, now_ms=0).guard
    states.settle(7, 0, brings_epoch=False)
    states.settle(7, 0, brings_epoch=False)
    assert not states.start(7, 0, 0, supports_epoch_bump=False, now_ms=0).guard.verifies(stale)


@pytest.mark.spec("CO-09")
@pytest.mark.parametrize(
    ("epoch", "brings_epoch", "stays"),
    [
        (2, True, True),  # a marker that ended the transaction before and brought this epoch
        (1, True, False),
        (3, True, False),
        (2, False, False),  # the data it was for, or the transaction under verification itself was ended
    ],
)
def test_taken_batch_settles_the_verification(epoch: int, brings_epoch: bool, stays: bool) -> None:
    states = VerificationStates()
    states.start(7, 0, 2, supports_epoch_bump=True, now_ms=0)
    states.settle(7, epoch, brings_epoch)
    states.settle(8, epoch, brings_epoch)
    assert (states.get(7) is not None) == stays


@pytest.mark.spec("CO-09")
def test_lingering_verifications_expire() -> None:
    states = VerificationStates()
    states.start(7, 0, 0, supports_epoch_bump=False, now_ms=100)
    states.start(8, 0, 0, supports_epoch_bump=False, now_ms=101)
    states.remove_expired(1100, expiration_ms=1000)
    assert states.get(7) is None
    assert states.get(8) is not None
    assert len(states) == 1
