"""Which partitions are being cleaned, and which must not be.

             begin                  done
    (none) ─────────▶ InProgress ─────────▶ (none)
       │                   │ abort
       │ pause             ▼          done
       │                Aborted ───────────▶ Paused(1)
       ▼                                        ▲ │
    Paused(1)  ⇄  Paused(2)  ⇄  …  ─────────────┘ │ resume
                                                  ▼
                                                (none)

A partition that is paused n times is cleaned again after n resumes. In this table alone it is decided whether a clean
may begin, so a partition is never cleaned twice at a time, nor cleaned while someone cuts, moves or deletes it.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from tailrace.model.ids import TopicPartition
from tailrace.model.invariant import invariant


class Cleaning(Enum):
    IN_PROGRESS = "in progress"
    ABORTED = "aborted"
    """It is to end; it has not yet."""


class Paused(NamedTuple):
    times: int


State = Cleaning | Paused


class CleaningStates:
    """Who may call: the owner's thread."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, State] = {}

    def of(self, partition: TopicPartition) -> State | None:
        return self._states.get(partition)

    @property
    def in_progress(self) -> list[TopicPartition]:
        return [partition for partition, state in self._states.items() if isinstance(state, Cleaning)]

    def begin(self, partition: TopicPartition) -> None:
        self._expect(partition, None)
        self._states[partition] = Cleaning.IN_PROGRESS

    def done(self, partition: TopicPartition) -> None:
        """The clean has ended, well or not."""
        self._expect(partition, Cleaning.IN_PROGRESS, Cleaning.ABORTED)
        if self._states.pop(partition) is Cleaning.ABORTED:
            self._states[partition] = Paused(1)

    def abort(self, partition: TopicPartition) -> None:
        """The clean in progress shall end, and none begin after it."""
        self._expect(partition, Cleaning.IN_PROGRESS)
        self._states[partition] = Cleaning.ABORTED

    def pause(self, partition: TopicPartition) -> None:
        """For a partition that is not being cleaned."""
        state = self._states.get(partition)
        invariant(not isinstance(state, Cleaning), f"{partition} is paused while its clean is {state}")
        self._states[partition] = Paused(state.times + 1 if isinstance(state, Paused) else 1)

    def resume(self, partition: TopicPartition) -> None:
        state = self._states.get(partition)
        invariant(isinstance(state, Paused), f"{partition} is resumed and was not paused, but is {state}")
        assert isinstance(state, Paused)
        if state.times > 1:
            self._states[partition] = Paused(state.times - 1)
        else:
            del self._states[partition]

    def _expect(self, partition: TopicPartition, *allowed: State | None) -> None:
        state = self._states.get(partition)
        invariant(state in allowed, f"the cleaning of {partition} is {state}, not one of {allowed}")
