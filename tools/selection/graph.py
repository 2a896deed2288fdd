"""A graph in which a node is reached from any of its predecessors, or from two predecessors at once.

Seeds put a bit each into the graph. Reach is, for each node, the set of bits that arrive, as one integer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Graph(Generic[Key]):
    def __init__(self) -> None:
        self.keys: list[Key] = []
        self._ids: dict[Key, int] = {}
        self._successors: list[set[int]] = []
        self._joints: dict[int, list[tuple[int, int]]] = {}  # predecessor → (the other one, node)
        self._shown: dict[int, list[tuple[int, int]]] = {}  # the same for first predecessors alone

    def __contains__(self, key: Key) -> bool:
        return key in self._ids

    def node(self, key: Key) -> int:
        found = self._ids.get(key)
        if found is None:
            found = self._ids[key] = len(self.keys)
            self.keys.append(key)
            self._successors.append(set())
        return found

    def edge(self, start: int, end: int) -> None:
        if start != end:
            self._successors[start].add(end)

    def remove(self, start: int, end: int) -> None:
        self._successors[start].discard(end)

    def both(self, first: int, second: int, node: int) -> None:
        """`node` is reached by what reaches `first` and `second`."""
        self._joints.setdefault(first, []).append((second, node))
        self._joints.setdefault(second, []).append((first, node))
        self._shown.setdefault(first, []).append((second, node))

    def successors(self, node: int) -> set[int]:
        return self._successors[node]

    def has_predecessor(self) -> set[int]:
        """The nodes that an edge or a joint leads to."""
        ends = {end for ends in self._successors for end in ends}
        return ends | {node for joints in self._joints.values() for _, node in joints}

    def above(self, nodes: Iterable[int]) -> bytearray:
        """A flag for each node from which an edge or a joint leads to one of the nodes, directly or not."""
        predecessors: list[list[int]] = [[] for _ in self.keys]
        for start, ends in enumerate(self._successors):
            for end in ends:
                predecessors[end].append(start)
        for start, joints in self._joints.items():
            for _, end in joints:
                predecessors[end].append(start)
        flags = bytearray(len(self.keys))
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            if not flags[node]:
                flags[node] = 1
                waiting += predecessors[node]
        return flags

    def reach(self, seeds: Iterable[tuple[int, int]], wanted: Iterable[int]) -> list[int]:
        """For each node the bits that reach it from the (node, bits) of the seeds; right for the wanted nodes alone."""
        reached = [0] * len(self.keys)
        matters = self.above(wanted)
        queue: deque[int] = deque()
        waiting = bytearray(len(self.keys))

        def arrive(node: int, bits: int) -> None:
            if matters[node] and bits & ~reached[node]:
                reached[node] |= bits
                if not waiting[node]:
                    waiting[node] = 1
                    queue.append(node)

        for node, bits in seeds:
            arrive(node, bits)
        while queue:
            node = queue.popleft()
            waiting[node] = 0
            bits = reached[node]
            for end in self._successors[node]:
                if bits & ~reached[end]:
                    arrive(end, bits)
            for other, end in self._joints.get(node, ()):
                arrive(end, bits & reached[other])
        return reached

    def way(self, seeds: Iterable[int], end: int) -> list[Key]:
        """The keys along a short way from a seed to a node, by the first side of a joint. Empty if there is no way."""
        seeds = list(seeds)
        reached = self.reach([(seed, 1) for seed in seeds], [end])
        previous: dict[int, int | None] = dict.fromkeys(seeds)
        queue = deque(seeds)
        while queue and end not in previous:
            node = queue.popleft()
            joined = [after for other, after in self._shown.get(node, ()) if reached[other]]
            for after in (*self._successors[node], *joined):
                if after not in previous:
                    previous[after] = node
                    queue.append(after)
        way: list[Key] = []
        at: int | None = end if end in previous else None
        while at is not None:
            way.append(self.keys[at])
            at = previous[at]
        return way[::-1]
