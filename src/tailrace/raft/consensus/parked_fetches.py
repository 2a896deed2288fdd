"""Fetches that wait at the leader, by replica and by deadline.

A leader has one for each node of the cluster. A step of the core that changes nothing for them looks at none of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from tailrace.raft.consensus.messages import FetchRequest, ReplicaKey


@dataclass(slots=True)
class ParkedFetch:
    """A fetch with nothing to answer yet."""

    request_id: int
    request: FetchRequest
    deadline_ms: int


class ParkedFetches:
    """In the order in which they were added. A replica has one at most, unless it has no node id."""

    def __init__(self) -> None:
        self._fetches: dict[int, ParkedFetch] = {}
        self._of_replica: dict[ReplicaKey, int] = {}
        self._deadlines: list[tuple[int, int]] = []
        """A heap of deadlines and request ids, also of fetches that are gone."""

    def __len__(self) -> int:
        return len(self._fetches)

    def __iter__(self) -> Iterator[ParkedFetch]:
        return iter(self._fetches.values())

    def add(self, parked: ParkedFetch) -> None:
        self._fetches[parked.request_id] = parked
        if parked.request.replica.node_id >= 0:
            self._of_replica[parked.request.replica] = parked.request_id
        if len(self._deadlines) > 2 * len(self._fetches):
            self._deadlines = [(each.deadline_ms, each.request_id) for each in self._fetches.values()]
            heapq.heapify(self._deadlines)
        else:
            heapq.heappush(self._deadlines, (parked.deadline_ms, parked.request_id))

    def take_of(self, replica: ReplicaKey) -> ParkedFetch | None:
        request_id = self._of_replica.get(replica)
        return self._remove(request_id) if request_id is not None else None

    def take_all(self) -> list[ParkedFetch]:
        taken = list(self._fetches.values())
        self._fetches, self._of_replica, self._deadlines = {}, {}, []
        return taken

    def take_due(self, now_ms: int) -> list[ParkedFetch]:
        """Those whose deadline has come."""
        due: list[int] = []
        while (deadline_ms := self.next_deadline_ms()) is not None and deadline_ms <= now_ms:
            due.append(heapq.heappop(self._deadlines)[1])
        if len(due) > 1:
            wanted = set(due)
            due = [request_id for request_id in self._fetches if request_id in wanted]
        return [self._remove(request_id) for request_id in due]

    def next_deadline_ms(self) -> int | None:
        deadlines = self._deadlines
        while deadlines:
            deadline_ms, request_id = deadlines[0]
            parked = self._fetches.get(request_id)
            if parked is not None and parked.deadline_ms == deadline_ms:
                return deadline_ms
            heapq.heappop(deadlines)
        return None

    def _remove(self, request_id: int) -> ParkedFetch:
        parked = self._fetches.pop(request_id)
        if self._of_replica.get(parked.request.replica) == request_id:
            del self._of_replica[parked.request.replica]
        return parked
