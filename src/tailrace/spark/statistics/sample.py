"""A sample of a piece's batches: as many as there is room for, each with the same chance, whatever comes how late.

Each batch has a number that looks random and follows from its offset. Those with the least are kept; when there is too
much, the one with the greatest goes, and no later one may have that or a greater. What is left was chosen with that
chance.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

import numpy as np
import numpy.typing as npt

RECORD_COST_BYTES: Final = 64
"""What a sampled record costs beside its bytes: its key is looked for among those of all others."""
BATCH_COST_BYTES: Final = 4096
"""What a batch costs, however small it is: to pack one again takes as long as some thousand bytes more would."""
MOST_BATCH_BYTES: Final = 16 << 20
MOST_BATCH_RECORDS: Final = 1 << 20

_ALL: Final = 1 << 64
_MOST_REMOVED: Final = 64


@dataclass(frozen=True)
class SampledBatch:
    """Goes through a shuffle to whoever packs it again."""

    partition: int
    base_offset: int
    last_offset: int
    data: bytes
    weight: float
    """How many batches of the topic it stands for."""
    is_closed: bool
    """It is in a segment that a cleaner may take now."""


class BatchSample:
    def __init__(self, partition: int, budget_bytes: int) -> None:
        self._partition = partition
        self._budget = budget_bytes
        self._bound = _ALL
        self._heap: list[tuple[int, int, int, bytes]] = []  # −number, base, last, data; those removed lie there, too
        self._costs: dict[int, int] = {}  # by base offset, of those that are in the sample
        self._cost = 0
        self._added: list[tuple[int, int]] = []  # base and last, ascending
        self.passed_over = 0
        """Batches that cannot be in a sample: too large, or cut by the edge of the piece."""

    def numbers(self, base_offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """SplitMix64 of partition and offset."""
        with np.errstate(over="ignore"):
            mixed = base_offsets.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            mixed += np.uint64((self._partition * 0xD1342543DE82EF95 + 0x2545F4914F6CDD1D) % _ALL)
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))

    def wants(self, numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Which of them are small enough to be taken now."""
        if self._budget <= 0:
            return np.zeros(numbers.shape, np.bool_)
        return numbers <= np.uint64(self._bound - 1)

    def add(self, number: int, base_offset: int, last_offset: int, data: bytes, records: int) -> None:
        """One that is wanted."""
        if len(data) > MOST_BATCH_BYTES or records > MOST_BATCH_RECORDS:
            self.passed_over += 1
            return
        cost = len(data) + RECORD_COST_BYTES * max(records, 1) + BATCH_COST_BYTES
        heapq.heappush(self._heap, (-number, base_offset, last_offset, data))
        insort(self._added, (base_offset, last_offset))
        self._costs[base_offset] = cost
        self._cost += cost
        while self._cost > self._budget and len(self._costs) > 1:
            greatest, base, _, _ = heapq.heappop(self._heap)
            if base in self._costs:
                self._bound = -greatest
                self._cost -= self._costs.pop(base)

    def remove(self, base_offset: int) -> None:
        """It was of an aborted transaction."""
        self._cost -= self._costs.pop(base_offset, 0)
        # What was removed is not looked for in the heap. It goes when it would be the most of it.
        if len(self._heap) > 2 * len(self._costs) + _MOST_REMOVED:
            self._heap = self._left()
            heapq.heapify(self._heap)
            self._added = [each for each in self._added if each[0] in self._costs]

    def _left(self) -> list[tuple[int, int, int, bytes]]:
        return [each for each in self._heap if each[1] in self._costs]

    @property
    def chance(self) -> float:
        """With which each of the piece's batches was taken."""
        return self._bound / _ALL if self._budget > 0 else 0.0

    def ranges(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """First and last offsets of those that are in it now, ascending."""
        return _columns(sorted((base, last) for _, base, last, _ in self._left()))

    def added(self, offset: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """First and last offsets, ascending, of those that are in it, and some that were, and reach up to `offset` or
        behind it. Offsets that are asked for do not fall.
        """
        first = bisect_left(self._added, offset, key=itemgetter(1))
        del self._added[:first]
        return _columns(self._added)

    def batches(self, share: float, closed_to: int | None) -> list[SampledBatch]:
        """`share` of all pieces have a sample at all."""
        weight = 1 / (self.chance * share) if self._costs else 0.0
        return [
            SampledBatch(self._partition, base, last, data, weight, closed_to is not None and last < closed_to)
            for _, base, last, data in sorted(self._left(), key=itemgetter(1))
        ]


def _columns(pairs: list[tuple[int, int]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    columns = np.array(pairs, np.int64).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]


def are_in(
    offsets: npt.NDArray[np.int64], firsts: npt.NDArray[np.int64], lasts: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Which of the offsets lie in one of the ranges, which ascend and do not overlap."""
    if not len(firsts):
        return np.zeros(len(offsets), np.bool_)
    places = np.searchsorted(firsts, offsets, side="right") - 1
    return (places >= 0) & (offsets <= lasts[np.maximum(places, 0)])
