"""The sticky assignor: tasks stay where they are as far as the load allows.

    1. active tasks go to the member that had them, then to one that had a standby of them, as long as it has fewer
       than its share; the others go to whoever has least
    2. standbys of tasks with state go to where the task was active, then to where a standby of it was, as long as the
       member has fewer than its share of all tasks; the others go to whoever has least

A process has a task once, be it active or a standby: they would share one directory. Where there are too few processes
there are fewer standbys than asked for. A share is counted so that afterwards no two members differ by more than one
active task: as soon as a member has its share, the rest is divided among the others.

Racks and tags of clients play no part, as in Kafka 4.3.1. The same group is always given the same assignment.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tailrace.coordinator.consumer.partitions import partitions_of
from tailrace.coordinator.streams.configured import ConfiguredSubtopology
from tailrace.coordinator.streams.tasks import TaskSet

_log = logging.getLogger(__name__)


class TaskId(NamedTuple):
    subtopology: str
    partition: int


class AssignableMember(NamedTuple):
    process_id: str
    target: TaskSet
    """What it was assigned the last time."""


def assign(
    members: Mapping[str, AssignableMember], subtopologies: Mapping[str, ConfiguredSubtopology], standby_count: int
) -> dict[str, TaskSet]:
    """By member id."""
    return _Assignment(members, subtopologies, standby_count).made()


class _Share:
    """How many tasks a member may have, if `tasks` are divided among `members`."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.size = 0
        self._divide()

    def _divide(self) -> None:
        self.size = -(-self._tasks // self._members) if self._members else 0

    def note(self, count: int) -> None:
        """A member has so many now."""
        if count == self.size:
            self._tasks -= count
            self._members -= 1
            self._divide()


class _Load:
    """Of one member, in its process."""

    def __init__(self, member_id: str, process: _Process) -> None:
        self.member_id = member_id
        self.process = process
        self.active: list[TaskId] = []
        self.standby: list[TaskId] = []

    @property
    def count(self) -> int:
        return len(self.active) + len(self.standby)

    @property
    def rank(self) -> tuple[int, float, str, str]:
        """Who is given a task that nobody had: the member with least, in the process with least for its size."""
        return self.count, self.process.load, self.process.id, self.member_id


class _Process:
    def __init__(self, process_id: str) -> None:
        self.id = process_id
        self.member_count = 0
        self.tasks: set[TaskId] = set()

    @property
    def load(self) -> float:
        return len(self.tasks) / self.member_count


class _Assignment:
    def __init__(
        self,
        members: Mapping[str, AssignableMember],
        subtopologies: Mapping[str, ConfiguredSubtopology],
        standby_count: int,
    ) -> None:
        self._standby_count = standby_count
        self._tasks = [TaskId(key, at) for key, each in subtopologies.items() for at in range(each.task_count)]
        self._stateful = [task for task in self._tasks if subtopologies[task.subtopology].is_stateful]
        self._loads: dict[str, _Load] = {}
        self._was_active: dict[TaskId, _Load] = {}
        self._was_standby: dict[TaskId, list[_Load]] = {}
        processes: dict[str, _Process] = {}
        for member_id, member in sorted(members.items()):
            process = processes.setdefault(member.process_id, _Process(member.process_id))
            process.member_count += 1
            load = self._loads[member_id] = _Load(member_id, process)
            for task in _ids(member.target.active):
                self._was_active[task] = load
            for task in _ids(member.target.standby):
                self._was_standby.setdefault(task, []).append(load)
        self._active_share = _Share(len(self._tasks), len(members))
        all_tasks = len(self._tasks) + len(self._stateful) * standby_count
        self._share = _Share(all_tasks, len(members))
        self._by_rank: list[tuple[tuple[int, float, str, str], _Load]] = []

    def made(self) -> dict[str, TaskSet]:
        if self._loads:
            self._assign_active()
            if self._standby_count > 0:
                self._assign_standby()
        return {
            member_id: TaskSet(partitions_of(_singles(load.active)), partitions_of(_singles(load.standby)))
            for member_id, load in self._loads.items()
        }

    # Active tasks

    def _assign_active(self) -> None:
        # By partition first, so that a share that is too small takes something of each subtopology.
        tasks = sorted(self._tasks, key=lambda task: (task.partition, task.subtopology))
        tasks = [task for task in tasks if not self._keep(task, self._was_active.get(task))]
        tasks = [task for task in tasks if not self._keep(task, self._least(self._was_standby.get(task, ())))]
        self._rank()
        for task in sorted(tasks):
            load = self._pop_least()
            self._give(task, load)
            self._push(load)

    def _keep(self, task: TaskId, load: _Load | None) -> bool:
        if load is None or load.count >= self._active_share.size:
            return False
        self._give(task, load)
        return True

    def _give(self, task: TaskId, load: _Load) -> None:
        load.active.append(task)
        load.process.tasks.add(task)
        self._active_share.note(load.count)
        self._share.note(load.count)

    # Standbys

    def _assign_standby(self) -> None:
        # Active tasks were given from the front: from the back, the loads come out even.
        left: list[tuple[TaskId, int]] = []
        for task in sorted(self._stateful, key=lambda task: (task.partition, task.subtopology), reverse=True):
            kept = 0
            while kept < self._standby_count and self._keep_standby(task):
                kept += 1
            if kept < self._standby_count:
                left.append((task, self._standby_count - kept))
        self._rank()
        short = [task for task, count in sorted(left, reverse=True) if self._spread(task, count) < count]
        if short:
            _log.info("%d tasks have fewer than %d standbys: too few processes", len(short), self._standby_count)

    def _keep_standby(self, task: TaskId) -> bool:
        active = self._was_active.get(task)
        places = [] if active is None else [active]
        for candidates in (places, self._was_standby.get(task, ())):
            load = self._least(each for each in candidates if task not in each.process.tasks)
            if load is not None and load.count < self._share.size:
                self._give_standby(task, load)
                return True
        return False

    def _give_standby(self, task: TaskId, load: _Load) -> None:
        load.standby.append(task)
        load.process.tasks.add(task)
        self._share.note(load.count)

    def _spread(self, task: TaskId, count: int) -> int:
        """Give so many standbys to whoever has least; how many there was a process for."""
        passed: list[_Load] = []
        given = 0
        while given < count and self._by_rank:
            load = self._pop_least()
            if task not in load.process.tasks:
                self._give_standby(task, load)
                given += 1
            passed.append(load)
        for load in passed:
            self._push(load)
        return given

    # Who has least

    @staticmethod
    def _least(loads: Iterable[_Load]) -> _Load | None:
        return min(loads, key=lambda load: (load.process.load, load.count, load.member_id), default=None)

    def _rank(self) -> None:
        self._by_rank = [(load.rank, load) for load in self._loads.values()]
        heapq.heapify(self._by_rank)

    def _push(self, load: _Load) -> None:
        heapq.heappush(self._by_rank, (load.rank, load))

    def _pop_least(self) -> _Load:
        """Loads only grow: one that has grown since it was pushed goes back to where it belongs now."""
        while True:
            rank, load = heapq.heappop(self._by_rank)
            now = load.rank
            if now == rank:
                return load
            heapq.heappush(self._by_rank, (now, load))


def _ids(tasks: Mapping[str, frozenset[int]]) -> Iterable[TaskId]:
    return (TaskId(subtopology, index) for subtopology, indexes in tasks.items() for index in indexes)


def _singles(tasks: Iterable[TaskId]) -> Iterable[tuple[str, tuple[int]]]:
    return ((task.subtopology, (task.partition,)) for task in tasks)
