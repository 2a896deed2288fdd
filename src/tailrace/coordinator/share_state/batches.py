"""Stretches of records of one partition that a share group has treated alike, and how two accounts become one.

A list of them is in the order of offsets and without overlap. Records between two stretches, and above the last, are
available and were never delivered.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

NO_OFFSET: Final = -1


class DeliveryState(IntEnum):
    """As records and requests number them; ACQUIRED is never written: a lock does not outlive its broker."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


TERMINAL: Final = (DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)


class StateBatch(NamedTuple):
    first: int
    last: int
    state: int
    delivery_count: int

    @property
    def rank(self) -> tuple[int, int]:
        """Of two accounts of the same record the later one has the higher."""
        return self.delivery_count, self.state

    def part(self, first: int, last: int) -> StateBatch:
        return StateBatch(max(first, self.first), min(last, self.last), self.state, self.delivery_count)


def combined(current: Sequence[StateBatch], news: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """One account of both, without what is below `start_offset` (−1: nothing is)."""
    batches = list(current)
    for batch in sorted(news):  # of many, each comes to the end
        _put(batches, batch)
    return tuple(joined(_from(batches, start_offset)))


def _put(batches: list[StateBatch], news: StateBatch) -> None:
    begin = bisect_left(batches, news.first, key=lambda batch: batch.last)
    end = bisect_right(batches, news.last, key=lambda batch: batch.first)
    pieces: list[StateBatch] = []
    told = news.first
    for old in batches[begin:end]:
        if old.first < news.first:
            pieces.append(old.part(old.first, news.first - 1))
        overlap = old.part(news.first, news.last)
        if told < overlap.first:
            pieces.append(news.part(told, overlap.first - 1))
        pieces.append(overlap if overlap.rank > news.rank else news.part(overlap.first, overlap.last))
        told = overlap.last + 1
        if old.last > news.last:
            pieces.append(old.part(news.last + 1, old.last))
    if told <= news.last:
        pieces.append(news.part(told, news.last))
    batches[begin:end] = pieces


def _from(batches: list[StateBatch], start_offset: int) -> Iterator[StateBatch]:
    for batch in batches:
        if batch.last >= start_offset:
            yield batch if batch.first >= start_offset else batch.part(start_offset, batch.last)


def joined(batches: Iterable[StateBatch]) -> Iterator[StateBatch]:
    """Neighbours that say the same, as one."""
    held: StateBatch | None = None
    for batch in batches:
        if held is not None and held.last + 1 == batch.first and held.rank == batch.rank:
            held = held._replace(last=batch.last)
            continue
        if held is not None:
            yield held
        held = batch
    if held is not None:
        yield held
