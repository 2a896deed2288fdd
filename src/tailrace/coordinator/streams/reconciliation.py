"""One step of a member towards its target assignment.

A task is active in one place at a time, and a process has it at most once: a member first gives up what its target
does not have, and says so in a heartbeat; only then it may reach the target's epoch and be given tasks, and of those
only the ones that nobody has whom they would collide with.

                      gives up nothing, all is free
      STABLE ──────────────────────────────────────────────► STABLE in the new epoch
        │                                                       ▲
        │ has to give up some                                   │ everything was free
        ▼                    gave them up                       │
      UNREVOKED_TASKS ──────────────────────────► UNRELEASED_TASKS
      (in its old epoch)                           (in the new epoch, without what others still have)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Protocol

from tailrace.coordinator.streams.member import MemberState, StreamsMember
from tailrace.coordinator.streams.tasks import NOTHING_ASSIGNED, OwnedTasks, OwnedTaskSet, Tasks, TaskSet, has_any
from tailrace.model.errors import FencedMemberEpochError


class Target(NamedTuple):
    epoch: int
    tasks: TaskSet = NOTHING_ASSIGNED


class TaskOwners(Protocol):
    """Who has a task, or still has to give it up."""

    def is_active(self, subtopology: str, partition: int) -> bool: ...

    def is_active_in(self, subtopology: str, partition: int, process_id: str) -> bool: ...

    def is_copied_in(self, subtopology: str, partition: int, process_id: str) -> bool:
        """As a standby or a warm-up."""


def reconciled(member: StreamsMember, target: Target, reported: TaskSet | None, owners: TaskOwners) -> StreamsMember:
    """The member after the step; itself when there is none to make. `reported` is what it says it has, if it does."""
    match member.state:
        case MemberState.STABLE if member.epoch == target.epoch:
            return member
        case MemberState.UNREVOKED_TASKS if reported is None or has_any(reported, member.revoked):
            return member
        case MemberState.UNREVOKED_TASKS:
            # What it gave up belonged to its next epoch. If it has to give up more, that is of the one after.
            return _advanced(member, member.epoch + 1, target, reported, owners)
        case MemberState.UNKNOWN:
            if reported is None or any(reported):
                raise FencedMemberEpochError(
                    f"member {member.id} is in a state that this release does not know; it has to give up all its "
                    "tasks and to join again"
                )
            return _advanced(member, target.epoch, target, reported, owners)
        case _:
            return _advanced(member, member.epoch, target, reported, owners)


def _advanced(
    member: StreamsMember, epoch: int, target: Target, reported: TaskSet | None, owners: TaskOwners
) -> StreamsMember:
    wanted, had = target.tasks, member.owned
    kept = OwnedTaskSet(
        _since(had.active, _common(had.active, wanted.active)),
        _common(had.standby, wanted.standby),
        _common(had.warmup, wanted.warmup),
    )
    revoked = OwnedTaskSet(
        _since(had.active, _without(had.active, wanted.active)),
        _without(had.standby, wanted.standby),
        _without(had.warmup, wanted.warmup),
    )
    if any(revoked) and (reported is None or has_any(reported, revoked)):
        return member.moved_to(epoch, MemberState.UNREVOKED_TASKS, kept, revoked)

    process = member.process_id

    def is_in_process(key: str, at: int) -> bool:
        return owners.is_active_in(key, at, process) or owners.is_copied_in(key, at, process)

    def is_taken(key: str, at: int) -> bool:
        return owners.is_active(key, at) or owners.is_copied_in(key, at, process)

    active = _free(_without(wanted.active, had.active), is_taken)
    standby = _free(_without(wanted.standby, had.standby), is_in_process)
    warmup = _free(_without(wanted.warmup, had.warmup), is_in_process)
    owned = OwnedTaskSet(
        {
            key: {**kept.active.get(key, {}), **dict.fromkeys(active.get(key, ()), target.epoch)}
            for key in {**kept.active, **active}
        },
        _together(kept.standby, standby),
        _together(kept.warmup, warmup),
    )
    waits = any(_size(each) > _size(has) for each, has in zip(wanted, owned, strict=True))
    state = MemberState.UNRELEASED_TASKS if waits else MemberState.STABLE
    return member.moved_to(target.epoch, state, owned)


_Places = Mapping[str, Collection[int]]


def _since(owned: OwnedTasks, tasks: Tasks) -> OwnedTasks:
    """Of what is owned, these."""
    return {key: {at: owned[key][at] for at in sorted(indexes)} for key, indexes in tasks.items()}


def _common(some: _Places, others: _Places) -> Tasks:
    return _chosen(some, lambda key, at: at in others.get(key, ()))


def _without(some: _Places, others: _Places) -> Tasks:
    return _chosen(some, lambda key, at: at not in others.get(key, ()))


def _free(some: Tasks, is_taken: Callable[[str, int], bool]) -> Tasks:
    return _chosen(some, lambda key, at: not is_taken(key, at))


def _chosen(tasks: _Places, is_chosen: Callable[[str, int], bool]) -> Tasks:
    found = ((key, frozenset(at for at in indexes if is_chosen(key, at))) for key, indexes in tasks.items())
    return {key: indexes for key, indexes in found if indexes}


def _together(some: Tasks, others: Tasks) -> Tasks:
    return {key: some.get(key, frozenset()) | others.get(key, frozenset()) for key in {**some, **others}}


def _size(tasks: _Places) -> int:
    return sum(map(len, tasks.values()))
