"""The state machine of cleaning: what may follow what."""

from __future__ import annotations

import pytest

from tailrace.model.ids import TopicPartition
from tailrace.model.invariant import InvariantError
from tailrace.storage.cleaner.states import Cleaning, CleaningStates, Paused

P = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


@pytest.mark.spec("LM-23")
def test_a_clean_that_ends_by_itself() -> None:
    states = CleaningStates()
    assert states.of(P) is None
    states.begin(P)
    assert states.of(P) is Cleaning.IN_PROGRESS
    assert states.in_progress == [P]
    states.done(P)
    assert states.of(P) is None
    states.begin(P)


@pytest.mark.spec("LM-23")
def test_a_clean_that_is_aborted_is_paused_when_it_has_ended() -> None:
    states = CleaningStates()
    states.begin(P)
    states.abort(P)
    assert states.of(P) is Cleaning.ABORTED
    assert states.in_progress == [P]
    states.done(P)
    assert states.of(P) == Paused(1)
    assert states.in_progress == []


@pytest.mark.spec("LM-23")
@pytest.mark.parametrize("pauses", [1, 2, 5])
def test_so_many_pauses_need_so_many_resumes(pauses: int) -> None:
    states = CleaningStates()
    for n in range(pauses):
        states.pause(P)
        assert states.of(P) == Paused(n + 1)
    for _ in range(pauses - 1):
        states.resume(P)
        with pytest.raises(InvariantError):
            states.begin(P)
    states.resume(P)
    states.begin(P)


@pytest.mark.spec("LM-23")
def test_what_cannot_follow() -> None:
    states = CleaningStates()
    with pytest.raises(InvariantError, match="resumed and was not paused"):
        states.resume(P)
    for wrong in (states.done, states.abort):
        with pytest.raises(InvariantError):
            wrong(P)
    states.begin(P)
    for wrong in (states.begin, states.pause, states.resume):
        with pytest.raises(InvariantError):
            wrong(P)
    states.abort(P)
    for wrong in (states.begin, states.abort, states.pause, states.resume):
        with pytest.raises(InvariantError):
            wrong(P)
    states.begin(OTHER)  # partitions do not concern each other
