from __future__ import annotations

import pytest

from tailrace.storage.verification import NO_GUARD, VerificationGuard, VerificationStateEntry, VerificationStates


def test_guard_verifies_itself_alone() -> None:
    guard = VerificationGuard()
    assert guard.verifies(guard)
    assert not guard.verifies(VerificationGuard())
    assert not guard.verifies(NO_GUARD)
    assert not NO_GUARD.verifies(guard)


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
    entry.note_waiting(sequence, epoch)
    assert (entry.lowest_sequence, entry.epoch) == expected


def test_second_batch_joins_the_verification_of_the_first() -> None:
    states = VerificationStates()
    first = states.start(7, 5, 2, supports_epoch_bump=True, now_ms=100)
    second = states.start(7, 4, 2, supports_epoch_bump=False, now_ms=200)
    assert second is first
    assert (first.lowest_sequence, first.timestamp_ms, first.supports_epoch_bump) == (4, 100, True)
    assert states.get(8) is None


def test_verification_begun_again_has_another_guard() -> None:
    states = VerificationStates()
    stale = states.start(7, 0, 0, supports_epoch_bump=False, now_ms=0).guard
    states.settle(7, 0, is_control=False)
    states.settle(7, 0, is_control=False)
    assert not states.start(7, 0, 0, supports_epoch_bump=False, now_ms=0).guard.verifies(stale)


@pytest.mark.parametrize(
    ("supports_epoch_bump", "epoch", "is_control", "stays"),
    [
        (True, 2, False, False),  # the data it was for
        (True, 2, True, True),  # a marker that ended the transaction before and brought this epoch
        (True, 1, True, False),
        (False, 2, True, False),  # the transaction under verification itself was ended
        (False, 2, False, False),
    ],
)
def test_taken_batch_settles_the_verification(
    supports_epoch_bump: bool, epoch: int, is_control: bool, stays: bool
) -> None:
    states = VerificationStates()
    states.start(7, 0, 2, supports_epoch_bump, now_ms=0)
    states.settle(7, epoch, is_control)
    states.settle(8, epoch, is_control)
    assert (states.get(7) is not None) == stays


def test_lingering_verifications_expire() -> None:
    states = VerificationStates()
    states.start(7, 0, 0, supports_epoch_bump=False, now_ms=100)
    states.start(8, 0, 0, supports_epoch_bump=False, now_ms=101)
    states.remove_expired(1100, expiration_ms=1000)
    assert states.get(7) is None
    assert states.get(8) is not None
    assert len(states) == 1
