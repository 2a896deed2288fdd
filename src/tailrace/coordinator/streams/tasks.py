"""Sets of tasks.

A task is one partition of a subtopology: of all its source topics, that partition. It is active in one place, and may
have copies that follow along: standbys, to take over at once, and warm-ups, to catch up before they become active.

`TaskSet` is what a member should have or says it has; `OwnedTaskSet` what it has, its active tasks each since an epoch
of the group. Both are by subtopology id, have no subtopologies without tasks, and are never changed once made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

Tasks = Mapping[str, frozenset[int]]
OwnedTasks = Mapping[str, Mapping[int, int]]

NO_TASKS: Final[Tasks] = {}
NO_OWNED_TASKS: Final[OwnedTasks] = {}


class TaskSet(NamedTuple):
    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS


class OwnedTaskSet(NamedTuple):
    active: OwnedTasks = NO_OWNED_TASKS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS


NOTHING_ASSIGNED: Final = TaskSet()
NOTHING_OWNED: Final = OwnedTaskSet()


def has_any(some: TaskSet, others: OwnedTaskSet) -> bool:
    """Whether a task is in both, of the same kind."""
    return any(
        index in theirs.get(subtopology, ())
        for mine, theirs in zip(some, others, strict=True)
        for subtopology, indexes in mine.items()
        for index in indexes
    )


def is_within(some: TaskSet, others: OwnedTaskSet) -> bool:
    """Whether all tasks of the one are in the other, of the same kind."""
    return all(
        index in theirs.get(subtopology, ())
        for mine, theirs in zip(some, others, strict=True)
        for subtopology, indexes in mine.items()
        for index in indexes
    )


def are_the_same(some: TaskSet, others: OwnedTaskSet) -> bool:
    return all(
        mine.keys() == theirs.keys() and all(indexes == set(theirs[key]) for key, indexes in mine.items())
        for mine, theirs in zip(some, others, strict=True)
    )
