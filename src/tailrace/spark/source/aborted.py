"""Which batches of a partition belong to aborted transactions, for a reader of committed records.

A Fetch answer, or the index of a segment, names the aborted transactions: producer and first offset. From there on all
transactional batches of that producer are aborted, up to its ABORT marker. Batches come in the order of their offsets.
Where the index tells also where the marker is, the transaction is over behind it, even when the marker itself is not
there any more or is damaged.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final, NamedTuple

from tailrace.client.fetcher import AbortedTransaction
from tailrace.env.files import Buffer
from tailrace.record.control import ABORT, control_of
from tailrace.record.shallow import ShallowBatch

NEVER: Final = (1 << 63) - 1


class EndedTransaction(NamedTuple):
    """An aborted transaction with the offset of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


class AbortedTransactions:
    """Those that are known and not over. The same one may be told any number of times."""

    def __init__(self) -> None:
        self._told: set[tuple[int, int]] = set()
        self._to_come: list[tuple[int, int, int]] = []  # first offset, producer, last offset
        self._begun: dict[int, int] = {}  # producer → last offset, NEVER where only the marker tells

    def add(self, aborted: Iterable[AbortedTransaction | EndedTransaction]) -> None:
        for each in aborted:
            told = each.first_offset, each.producer_id
            if told not in self._told:
                self._told.add(told)
                last_offset = each.last_offset if isinstance(each, EndedTransaction) else NEVER
                heapq.heappush(self._to_come, (*told, last_offset))

    def forget(self) -> None:
        """All of them: what is true from here on is told anew."""
        self._told.clear()
        self._to_come.clear()
        self._begun.clear()

    @property
    def first_offset(self) -> int:
        """Batches that end before it are not aborted and end nothing."""
        if self._begun:
            return 0
        return self._to_come[0][0] if self._to_come else NEVER

    def has(self, buffer: Buffer, batch: ShallowBatch) -> bool:
        """Whether this batch, the next one, is aborted. Control batches are to be shown too; they are not."""
        while self._to_come and self._to_come[0][0] <= batch.last_offset:
            _, producer_id, last_offset = heapq.heappop(self._to_come)
            self._begun[producer_id] = last_offset
        for producer_id in [each for each, last_offset in self._begun.items() if last_offset < batch.base_offset]:
            del self._begun[producer_id]
        if batch.producer_id not in self._begun or not batch.is_transactional:
            return False
        if not batch.is_control:
            return True
        marker = control_of(buffer, batch)
        if marker is not None and marker.type == ABORT:
            del self._begun[batch.producer_id]
        return False
