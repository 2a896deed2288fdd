"""Where each task of a group is: in which processes, as what. What has to be given up counts until it is."""

from __future__ import annotations

from tailrace.coordinator.streams.member import StreamsMember
from tailrace.coordinator.streams.tasks import OwnedTaskSet

_Task = tuple[str, int]
"""Subtopology id and partition."""


class OwnerIndex:
    """Follows the members: each change of one takes its old self out and puts its new self in."""

    def __init__(self) -> None:
        self._active: dict[_Task, str] = {}
        self._copies: dict[_Task, dict[str, int]] = {}
        """How many members of a process have a standby or a warm-up."""

    def is_active(self, subtopology: str, partition: int) -> bool:
        return (subtopology, partition) in self._active

    def is_active_in(self, subtopology: str, partition: int, process_id: str) -> bool:
        return self._active.get((subtopology, partition)) == process_id

    def is_copied_in(self, subtopology: str, partition: int, process_id: str) -> bool:
        return process_id in self._copies.get((subtopology, partition), ())

    def replace(self, old: StreamsMember | None, new: StreamsMember | None) -> None:
        if old is not None:
            for tasks in (old.owned, old.revoked):
                self._take_out(tasks, old.process_id)
        if new is not None:
            for tasks in (new.owned, new.revoked):
                self._put_in(tasks, new.process_id)

    def _put_in(self, tasks: OwnedTaskSet, process_id: str) -> None:
        for subtopology, since in tasks.active.items():
            self._active.update(((subtopology, index), process_id) for index in since)
        for copied in (tasks.standby, tasks.warmup):
            for subtopology, indexes in copied.items():
                for index in indexes:
                    counts = self._copies.setdefault((subtopology, index), {})
                    counts[process_id] = counts.get(process_id, 0) + 1

    def _take_out(self, tasks: OwnedTaskSet, process_id: str) -> None:
        for subtopology, since in tasks.active.items():
            for index in since:
                # A cleaned log may tell of the next owner first.
                if self._active.get((subtopology, index)) == process_id:
                    del self._active[subtopology, index]
        for copied in (tasks.standby, tasks.warmup):
            for subtopology, indexes in copied.items():
                for index in indexes:
                    counts = self._copies[subtopology, index]
                    counts[process_id] -= 1
                    if not counts[process_id]:
                        del counts[process_id]
                        if not counts:
                            del self._copies[subtopology, index]
